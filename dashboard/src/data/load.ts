// PURE: the number of waiting and of served requests over time, from the times of each request.

import type { Finished, RequestInProgress } from "./types";

export interface Curve {
  at: number[];
  served: number[];
  waiting: number[];
}

type Change = [at: number, waiting: number, served: number];

/** A shorter wait counts as none. */
const AT_ONCE_S = 0.005;

export function loadCurve(
  finished: readonly Finished[],
  inProgress: readonly RequestInProgress[],
  from: number,
  now: number,
): Curve {
  const changes: Change[] = [];
  for (const { at, seconds, waited_s } of finished) {
    changes.push(...arrival(at - seconds, waited_s, true), [at, 0, -1]);
  }
  for (const { seconds, waited_s, state } of inProgress) {
    changes.push(...arrival(now - seconds, waited_s, state !== "waiting"));
  }
  return summed(
    changes.sort((one, other) => one[0] - other[0]),
    from,
    now,
  );
}

function arrival(began: number, waited: number, isGranted: boolean): Change[] {
  if (!isGranted) return [[began, 1, 0]];
  if (waited < AT_ONCE_S) return [[began, 0, 1]];
  return [
    [began, 1, 0],
    [began + waited, -1, 1],
  ];
}

function summed(changes: Change[], from: number, now: number): Curve {
  const curve: Curve = { at: [from], served: [0], waiting: [0] };
  let [waiting, served] = [0, 0];
  for (const [at, waits, serves] of changes) {
    waiting += waits;
    served += serves;
    if (at <= from) {
      curve.served[0] = served;
      curve.waiting[0] = waiting;
    } else {
      curve.at.push(at);
      curve.served.push(served);
      curve.waiting.push(waiting);
    }
  }
  curve.at.push(now);
  curve.served.push(served);
  curve.waiting.push(waiting);
  return curve;
}

export function median(values: readonly number[]): number | null {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], share: number): number | null {
  if (!values.length) return null;
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
}
