// PURE: the timeline in the Chrome trace format, for https://ui.perfetto.dev and chrome://tracing.

import type { Finished } from "../data/types";
import type { Segment } from "./lanes";

interface TraceEvent {
  name: string;
  cat?: string;
  ph: "X" | "M" | "b" | "e";
  ts?: number;
  dur?: number;
  pid: number;
  tid: number;
  id?: number;
  args?: Record<string, unknown>;
}

const PROCESS = 1;
const MICROSECONDS = 1e6;

export function chromeTrace(
  segments: readonly Segment[],
  requests: readonly Finished[],
  now: number,
): string {
  const names = [...new Set([...segments.map(({ model }) => model), ...requests.map(({ model }) => model)])];
  const lane = (model: string) => names.indexOf(model) + 1;
  const traceEvents: TraceEvent[] = [
    { name: "process_name", ph: "M", pid: PROCESS, tid: 0, args: { name: "hotseat" } },
    ...names.map((name) => named(name, lane(name))),
    ...segments.map((segment) => phase(segment, lane(segment.model), now)),
    ...requests.flatMap((request) => requestEvents(request, lane(request.model))),
  ];
  return JSON.stringify({ traceEvents, displayTimeUnit: "ms" });
}

function named(name: string, tid: number): TraceEvent {
  return { name: "thread_name", ph: "M", pid: PROCESS, tid, args: { name } };
}

function phase(
  { from, to, phase, reason, cause, outcome, said, conversations }: Segment,
  tid: number,
  now: number,
): TraceEvent {
  const dur = ((to ?? now) - from) * MICROSECONDS;
  const args = {
    reason,
    ...(cause && { cause }),
    ...(conversations && { conversations }),
    ...(outcome && { outcome, said }),
  };
  return { name: phase, cat: "phase", ph: "X", ts: from * MICROSECONDS, dur, pid: PROCESS, tid, args };
}

/** Requests overlap, so each is a pair of asynchronous events. */
function requestEvents(request: Finished, tid: number): TraceEvent[] {
  const { n, at, seconds, method, path, status, client, waited_s, first_byte_s } = request;
  const both = { name: `${method} ${path}`, cat: "request", pid: PROCESS, tid, id: n };
  return [
    { ...both, ph: "b", ts: (at - seconds) * MICROSECONDS, args: { status, client, waited_s, first_byte_s } },
    { ...both, ph: "e", ts: at * MICROSECONDS },
  ];
}
