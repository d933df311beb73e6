// PURE: what happened to one model: its loads, adoptions, unloads and failures, from its lane of the timeline.

import type { Segment } from "../timeline/lanes";
import { ADOPTED, clock, firstLine } from "../words";

export interface HistoryEntry {
  at: number;
  what: string;
  reason: string;
  /** null: not over yet, or a moment. */
  seconds: number | null;
  isFailure: boolean;
}

/** Newest first. */
export function historyOf(segments: readonly Segment[], model: string): HistoryEntry[] {
  const own = segments.filter((segment) => segment.model === model);
  return own.flatMap((segment, n) => [...adoptionOf(segment), ...entryOf(segment, own[n + 1])]).toReversed();
}

function adoptionOf({ adoption }: Segment): HistoryEntry[] {
  if (!adoption) return [];
  const reason = `${ADOPTED}, ready since ${clock(adoption.readySince)}`;
  return [{ at: adoption.at, what: "adopted", reason, seconds: null, isFailure: false }];
}

function entryOf(segment: Segment, next: Segment | undefined): HistoryEntry[] {
  const { phase, from, to, reason, outcome, said, conversations } = segment;
  const seconds = to === null ? null : to - from;
  if (phase === "ready" && outcome && to !== null) {
    return [{ at: to, what: outcome, reason: firstLine(said).cause, seconds, isFailure: true }];
  }
  if (phase !== "loading" && phase !== "unloading") return [];
  const why = [reason, conversations, outcome && firstLine(said).cause].filter(Boolean).join("; ");
  const what = phase === "loading" ? nameOfLoad(segment, next) : nameOfUnload(segment, next);
  return [{ at: from, what, reason: why, seconds, isFailure: outcome !== null }];
}

function nameOfLoad({ to, outcome }: Segment, next: Segment | undefined): string {
  if (outcome) return "load failed";
  if (to === null) return "loading";
  return next?.phase === "ready" ? "loaded" : "load stopped";
}

function nameOfUnload({ to, cause }: Segment, next: Segment | undefined): string {
  if (next?.phase === "asleep" && next.from === to) return "put to sleep";
  return cause === "eviction" ? "evicted" : "unloaded";
}
