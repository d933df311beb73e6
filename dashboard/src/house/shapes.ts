// The public API's answers, as far as the dashboard reads them. What may be absent is optional: an older or a newer
// hotseat may tell less or more.

export type Phase = "cold" | "loading" | "ready" | "draining" | "unloading" | "resting" | "asleep";

export type ByDevice = Record<string, number>;

export interface Model {
  model: string;
  aliases: string[];
  name: string;
  description: string;
  unlisted: boolean;
  phase: Phase;
  phase_s: number | null;
  pid: number | null;
  address: string | null;
  in_flight: number;
  waiting: number;
  why: string;
  failures: number;
  last_error: string;
  ttl_left_s: number | null;
  load_s: number | null;
  pinned?: boolean;
  /** Configured bytes per device. */
  memory?: ByDevice | null;
  estimated?: ByDevice | null;
  measured?: ByDevice | null;
  /** Of a load, from 0 to 1. */
  progress?: number | null;
}

export interface Models {
  at: number;
  models: Model[];
  budgets: ByDevice;
}

export interface Ticket {
  ticket: number;
  model: string;
  client: string;
  waited_s: number;
  why: string;
  /** How long it will still wait, where the scheduler dares to say. */
  estimate_s?: number | null;
}

export interface Queue {
  waiting: Ticket[];
  oldest_s: number;
}

export interface Cause {
  at: number;
  because: string;
}

export interface ModelStory extends Model {
  last_start: Cause | null;
  last_stop: Cause | null;
  history: JournalEntry[];
}

export interface JournalThing {
  type: string;
  model?: string;
  launch?: number;
  because?: string;
  cause?: string;
  how?: string;
  error?: { code: string; message: string };
}

export interface JournalEntry {
  n: number;
  at: number;
  event: JournalThing;
  commands: JournalThing[];
}

export interface UnderWay {
  ticket: number;
  model: string;
  client: string;
  method: string;
  path: string;
  state: "waiting" | "sent" | "answering";
  waited_s: number;
  first_byte_s: number | null;
  seconds: number;
}

export interface Finished {
  n: number;
  at: number;
  model: string;
  client: string;
  method: string;
  path: string;
  status: number;
  waited_s: number;
  first_byte_s: number | null;
  seconds: number;
  tokens_per_s?: number | null;
}

export interface Requests {
  at: number;
  under_way: UnderWay[];
  finished: Finished[];
}

export interface ConfigReport {
  resolved: ResolvedConfig;
  complaints: string[];
  refused: string[];
}

export interface ResolvedConfig {
  files?: string[];
  settings?: Record<string, unknown>;
  models?: Record<string, Record<string, unknown>>;
  together?: string[];
  [key: string]: unknown;
}

export interface Result {
  status: string;
  message: string;
}
