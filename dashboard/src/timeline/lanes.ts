// PURE: turns journal entries, and the phases observed between them, into one lane per model: its phases over time,
// with the cause of each.

import type { JournalEntry, JournalThing, Phase, SwapReport, Transfer } from "../data/types";
import { bytes, counted, duration, tokens } from "../words";

export interface Observation {
  model: string;
  phase: Phase;
  /** When the phase began. */
  at: number;
  /** The reason that the API gave at that time. */
  why: string;
}

export type Outcome = "failed" | "crashed";

export interface Segment {
  model: string;
  phase: Phase;
  from: number;
  /** null: not over yet. */
  to: number | null;
  reason: string;
  /** Of an unload: eviction, ttl, operator, configuration or shutdown. */
  cause: string;
  /** Set if the phase ended with an error. */
  outcome: Outcome | null;
  said: string;
  /** What was saved of conversations in an unload, or restored in a load. */
  conversations: string;
  /** Set if this process has adopted the server in this phase. */
  adoption?: Adoption;
}

export interface Adoption {
  at: number;
  /** When an earlier process had the server ready. */
  readySince: number;
}

/** One model was unloaded so that another one could load. */
export interface Swap {
  at: number;
  left: string;
  came: string;
}

export interface Lanes {
  segments: Segment[];
  swaps: Swap[];
}

type Fact = { at: number; entry: JournalEntry } | { at: number; seen: Observation };

const WITHOUT_SERVER: readonly Phase[] = ["cold", "backoff"];
/** Times from the journal and from a refresh that differ by less are the same moment. */
const SAME_MOMENT_S = 0.25;

export function lanes(journal: readonly JournalEntry[], observations: readonly Observation[]): Lanes {
  const facts: Fact[] = [
    ...journal.map((entry) => ({ at: entry.at, entry })),
    ...observations.map((seen) => ({ at: seen.at, seen })),
  ].sort((one, other) => one.at - other.at);
  const drawing = new Drawing();
  for (const fact of facts) {
    if ("entry" in fact) drawing.happened(fact.entry);
    else drawing.seen(fact.seen);
  }
  return { segments: drawing.segments, swaps: drawing.swaps };
}

class Drawing {
  readonly segments: Segment[] = [];
  readonly swaps: Swap[] = [];
  private readonly open = new Map<string, Segment>();
  private readonly closedAt = new Map<string, number>();
  /** Unloads that began with saving conversations: the stop that follows is part of them. */
  private readonly saving = new Set<Segment>();

  happened({ at, event, commands }: JournalEntry): void {
    const isRestoring = commands.some(({ type }) => type === "RestoreConversations");
    if (!isRestoring) this.fact(at, event);
    for (const command of commands) this.command(at, command);
    const came = commands.find(({ type }) => type === "StartUpstream")?.model;
    if (event.type === "UpstreamExited" && event.model && came)
      this.swaps.push({ at, left: event.model, came });
  }

  seen({ at, model, phase, why }: Observation): void {
    const open = this.open.get(model);
    if (WITHOUT_SERVER.includes(phase)) {
      if (open && at >= open.from) this.close(model, at);
    } else if (open === undefined) {
      if (at > (this.closedAt.get(model) ?? 0) + SAME_MOMENT_S) this.enter(model, phase, at, { reason: why });
    } else if (open.phase !== phase && at > open.from + SAME_MOMENT_S) {
      this.enter(model, phase, at, { reason: why });
    }
  }

  private fact(at: number, event: JournalThing): void {
    const model = event.model ?? "";
    const open = this.open.get(model);
    switch (event.type) {
      case "ServerAdopted":
        this.adopt(model, at, event);
        break;
      case "UpstreamReady":
        if (open?.phase !== "unloading") this.enter(model, "ready", at, { reason: open?.reason ?? "" });
        break;
      case "ConversationsRestored":
        this.restored(at, model, transferred("restored", event.restored, event.problem));
        break;
      case "ConversationsSaved":
        if (open && this.saving.has(open))
          open.conversations = transferred("saved", event.saved, event.problem);
        break;
      case "UpstreamAwake":
        if (open?.phase === "loading") this.enter(model, "ready", at, { reason: open.reason });
        break;
      case "UpstreamAsleep":
        if (open?.phase === "unloading") this.enter(model, "asleep", at, { reason: open.reason });
        break;
      case "UpstreamFailed":
        this.spoil(model, at, "failed", event.error?.message ?? "");
        this.close(model, at);
        break;
      case "UpstreamExited":
        this.spoil(model, at, "crashed", event.exit_status ?? "");
        this.close(model, at);
        break;
    }
  }

  private command(at: number, { type, model = "", reason = "", cause = "" }: JournalThing): void {
    if (type === "StartUpstream") this.enter(model, "loading", at, { reason });
    if (type === "WakeUp") this.enter(model, "loading", at, { reason });
    if (type === "PutToSleep") this.enter(model, "unloading", at, { reason });
    if (type === "SaveConversations") this.saving.add(this.enter(model, "unloading", at, { reason }));
    if (type === "StopUpstream") this.stop(model, at, { reason, cause });
  }

  /** The journal of this process begins with the adoption; the phases of the server began before. */
  private adopt(
    model: string,
    at: number,
    { ready_s = 0, phase_s = 0, sleep_level, departure }: JournalThing,
  ): void {
    const why = { reason: departure?.reason ?? "adopted from the previous process" };
    if (departure) {
      this.continue(model, "ready", at - ready_s, {});
      this.continue(model, "draining", at - phase_s, why);
    } else if (sleep_level) this.continue(model, "asleep", at - phase_s, why);
    else this.continue(model, "ready", at - ready_s, why);
    const open = this.open.get(model);
    if (open) open.adoption = { at, readySince: at - ready_s };
  }

  /** Keeps what is already drawn of a phase. */
  private continue(model: string, phase: Phase, since: number, why: { reason?: string }): void {
    const open = this.open.get(model);
    if (open?.phase === phase) return;
    this.enter(model, phase, Math.max(since, open?.from ?? this.closedAt.get(model) ?? 0), why);
  }

  /** The end of a load; a refresh may have seen the model ready a few milliseconds before. */
  private restored(at: number, model: string, conversations: string): void {
    const load = this.segments.findLast((segment) => segment.model === model && segment.phase === "loading");
    const isCurrent = ["loading", "ready"].includes(this.open.get(model)?.phase ?? "");
    if (!load || !isCurrent || at - (load.to ?? at) >= SAME_MOMENT_S) return;
    load.conversations = conversations;
    this.enter(model, "ready", at, { reason: load.reason });
  }

  private stop(model: string, at: number, why: { reason: string; cause: string }): void {
    const open = this.open.get(model);
    if (open && this.saving.has(open)) Object.assign(open, why);
    else this.enter(model, "unloading", at, why);
  }

  private enter(
    model: string,
    phase: Phase,
    at: number,
    why: { reason?: string; cause?: string } = {},
  ): Segment {
    const open = this.open.get(model);
    if (open?.phase === phase && at - open.from < SAME_MOMENT_S) return Object.assign(open, why); // observed just before the journal entry arrived, which has more details
    this.close(model, at);
    const segment: Segment = {
      model,
      phase,
      from: at,
      to: null,
      reason: why.reason ?? "",
      cause: why.cause ?? "",
      outcome: null,
      said: "",
      conversations: "",
    };
    this.open.set(model, segment);
    this.segments.push(segment);
    return segment;
  }

  private spoil(model: string, at: number, outcome: Outcome, said: string): void {
    const ended = this.open.get(model) ?? this.justEnded(model, at);
    if (ended && ended.phase !== "unloading") Object.assign(ended, { outcome, said });
  }

  /** A refresh may see the end of a phase a few milliseconds before the journal entry about it. */
  private justEnded(model: string, at: number): Segment | undefined {
    const last = this.segments.findLast((segment) => segment.model === model);
    return at - (last?.to ?? 0) < SAME_MOMENT_S ? last : undefined;
  }

  private close(model: string, at: number): void {
    const open = this.open.get(model);
    if (open) open.to = Math.max(at, open.from);
    this.open.delete(model);
    this.closedAt.set(model, at);
  }
}

/** `3 conversations saved (5,985 tokens, 25 MB) in 0.08 s`; empty if there were none to begin with. */
function transferred(done: string, each: readonly Transfer[] = [], problem = ""): string {
  const sum = (of: (one: Transfer) => number) => each.reduce((total, one) => total + of(one), 0);
  const size = `${tokens(sum((one) => one.tokens))} tokens, ${bytes(sum((one) => one.size))}`;
  const what = `${counted(each.length, "conversation")} ${done}`;
  const words = each.length ? `${what} (${size}) in ${duration(sum((one) => one.took_s))}` : "";
  return [words, problem].filter((part) => part !== "").join("; ");
}

export interface ReportedSwap extends SwapReport {
  n: number;
  at: number;
}

/** The swap reports of the scheduler. */
export function swapReports(journal: readonly JournalEntry[]): ReportedSwap[] {
  return journal.flatMap(({ n, at, commands }) =>
    commands.filter(isReport).map((report) => ({ ...report, n, at })),
  );
}

function isReport(command: JournalThing): command is SwapReport {
  return command.type === "ReportSwap";
}
