// The parts of the public API's responses that the dashboard reads. Fields that an older version of hotseat does not
// send are optional.

export type Phase = "cold" | "loading" | "ready" | "draining" | "unloading" | "backoff" | "asleep";

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
  /** Whether an earlier process of hotseat has started its current server. */
  adopted?: boolean;
  address: string | null;
  in_flight: number;
  waiting: number;
  why: string;
  failures: number;
  retry_in_s: number | null;
  last_error: string;
  ttl_left_s: number | null;
  load_s: number | null;
  pinned?: boolean;
  /** Seconds without requests until it is unloaded; 0: never. */
  ttl?: number;
  /** What is set at run time; `pinned` and `ttl` include it. */
  overrides?: Overrides | null;
  /** What the configuration says, if something is set at run time. */
  configured?: Keeping | null;
  /** Configured bytes per device. */
  memory?: ByDevice | null;
  footprint?: Footprint | null;
  /** Progress of a load, from 0 to 1. */
  progress?: number | null;
  /** The web pages of its server are at LABEL.localhost. */
  label?: string | null;
  /** Tokens of one request. */
  context?: number | null;
  /** Generated tokens per second of the last response that reported them. */
  tokens_per_s?: number | null;
  /** null: its conversations are not kept. */
  conversations?: Conversations | null;
}

/** The conversations of a model that outlive its server. */
export interface Conversations {
  /** On disk now. */
  kept: number;
  bytes: number;
  saved: number;
  restored: number;
  /** Restored ones that were continued. */
  reused: number;
  /** Time in which prompts would have been computed again. */
  gained_s: number;
  /** Why they are not kept any more; empty: they are. */
  problem: string;
}

/** How long a model stays loaded. */
export interface Keeping {
  pinned: boolean;
  ttl: number;
}

/** null: as configured. */
export type Overrides = { [Key in keyof Keeping]: Keeping[Key] | null };

/** The list that all clients see; a model that declares nothing has no capabilities. */
export interface ModelList {
  data: { id: string; capabilities?: { vision: boolean } }[];
}

/** What is known about a model's memory; `reserved` is null if nothing is known. */
export interface Footprint {
  reserved: ByDevice | null;
  source: "declared" | "measured" | "estimated" | "unknown";
  estimated: ByDevice | null;
  measured: ByDevice | null;
}

/** The estimated memory of a model, part by part. */
export interface Estimate {
  lines: EstimateLine[];
  needed: { device: number; host: number };
  notes: string[];
}

export interface EstimateLine {
  what: string;
  bytes: number;
  where: "device" | "host";
  backing: string;
}

/** A device with a budget; less than the budget is available while other programs use the device. */
export interface Device {
  device: string;
  budget: number;
  available: number;
  reserved: number;
}

export interface Models {
  at: number;
  started_at: number;
  models: Model[];
  budgets: ByDevice;
  devices?: Device[];
  /** Why models have to free memory; empty: they do not have to. */
  yielding?: string;
  reload_failed?: boolean;
  /** null: this host does not belong to a fleet. */
  fleet?: Membership | null;
}

export interface Membership {
  host: string;
  connection: "joining" | "connected" | "disconnected";
}

export interface FleetResident {
  model: string;
  phase: Phase;
  memory: ByDevice;
  in_flight: number;
  waiting: number;
}

/** What an operator can set on a host, also on one that is offline. */
export interface OrderedHost {
  host: string;
  cordoned: boolean;
  drained: boolean;
}

export interface FleetHost extends OrderedHost {
  address: string;
  version: string;
  labels: Record<string, string>;
  /** Equal on hosts whose models are defined alike. */
  config_digest: string;
  state: "this_host" | "reachable" | "unreachable" | "leaving";
  /** Seconds since its last message. */
  last_seen_s: number;
  devices: { device: string; budget: number; free: number }[];
  residents: FleetResident[];
  in_flight: number;
  waiting: number;
  /** By model that cannot be loaded there: a file that it lacks. */
  missing_files: Record<string, string>;
}

export interface Fleet extends Membership {
  /** Why this host is disconnected; empty while it is not. */
  problem: string;
  hosts: FleetHost[];
  absent: OrderedHost[];
}

export interface Ticket {
  ticket: number;
  model: string;
  client: string;
  waited_s: number;
  why: string;
  /** Expected and maximum remaining wait. */
  expected_s?: number | null;
  at_most_s?: number | null;
}

export interface Queue {
  waiting: Ticket[];
  oldest_s: number;
}

export interface JournalThing {
  type: string;
  model?: string;
  launch?: number;
  reason?: string;
  cause?: string;
  exit_status?: string;
  /** Of an adopted server: for how long it has been ready, and in its phase. */
  ready_s?: number;
  phase_s?: number;
  /** Of an adopted server: at which it sleeps, or will sleep. */
  sleep_level?: number | null;
  /** Of an adopted server: why it drains; null: it does not. */
  departure?: { cause: string; reason: string } | null;
  error?: { code: string; message: string };
  /** Conversations that were written to disk before a stop, or read after a start. */
  saved?: Transfer[];
  restored?: Transfer[];
  /** Why not all of them were. */
  problem?: string;
}

export interface Transfer {
  tokens: number;
  /** Bytes. */
  size: number;
  took_s: number;
}

/** The journal's command that summarizes a swap. */
export interface SwapReport extends JournalThing {
  type: "ReportSwap";
  model: string;
  client: string | null;
  waited_s: number;
  /** Null at the first load. */
  predicted_s: number | null;
  measured_s: number;
  evicted: { model: string; age_s: number; served: number; reason: string }[];
}

export interface JournalEntry {
  n: number;
  at: number;
  event: JournalThing;
  commands: JournalThing[];
}

export interface RequestInProgress {
  ticket: number;
  model: string;
  client: string;
  method: string;
  path: string;
  state: "waiting" | "sent" | "answering";
  waited_s: number;
  first_byte_s: number | null;
  seconds: number;
  /** The host of the fleet that it was forwarded to; null: it is served here. */
  host: string | null;
}

export interface Finished {
  n: number;
  id: string;
  at: number;
  model: string;
  client: string;
  method: string;
  path: string;
  status: number;
  waited_s: number;
  /** What it waited for. */
  why: string;
  first_byte_s: number | null;
  seconds: number;
  prompt_tokens: number | null;
  /** How many of the prompt's tokens the server had in its cache. */
  cached_tokens: number | null;
  completion_tokens: number | null;
  tokens_per_s: number | null;
}

export interface Requests {
  at: number;
  in_progress: RequestInProgress[];
  finished: Finished[];
}

export interface Used {
  requests: number;
  /** Requests among them whose tokens are unknown. */
  unknown: number;
  prompt_tokens: number;
  cached_tokens: number;
  completion_tokens: number;
  /** Further tokens, of the unknown requests. */
  estimated_tokens: number;
}

export interface UsageEntry extends Used {
  day: string | null;
  model: string | null;
  key: string | null;
}

export interface Usage {
  since: string;
  until: string;
  usage: UsageEntry[];
  total: Used;
}

export interface ConfigReport {
  resolved: ResolvedConfig;
  warnings: string[];
  reload_errors: string[];
}

export interface ResolvedConfig {
  files?: string[];
  settings?: Record<string, unknown>;
  models?: Record<string, Record<string, unknown>>;
  concurrency?: string[];
  groups?: { name: string; members: string[] }[];
  [key: string]: unknown;
}

export interface Result {
  status: string;
  message: string;
}
