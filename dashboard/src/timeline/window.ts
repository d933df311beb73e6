// PURE: the visible time range: zooming, panning, and the ticks of the time axis.

export interface Stretch {
  from: number;
  to: number;
}

const SHORTEST_S = 0.5;
const LONGEST_S = 7 * 86_400;
const STEPS_S = [
  0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400,
];

/** Scales the range by `factor`; the time at `anchor` (0 to 1) keeps its position. */
export function zoomed({ from, to }: Stretch, factor: number, anchor: number): Stretch {
  const length = Math.min(LONGEST_S, Math.max(SHORTEST_S, (to - from) * factor));
  const fixed = from + (to - from) * anchor;
  return { from: fixed - length * anchor, to: fixed + length * (1 - anchor) };
}

/** Moves the range by a fraction of its length. */
export function moved({ from, to }: Stretch, share: number): Stretch {
  const by = (to - from) * share;
  return { from: from + by, to: to + by };
}

/** The position of a time: 0 to 1 inside the range. */
export function place({ from, to }: Stretch, at: number): number {
  return (at - from) / (to - from);
}

/** At most `most` round times. */
export function marks({ from, to }: Stretch, most: number): number[] {
  const step = STEPS_S.find((each) => (to - from) / each <= most) ?? 86_400;
  const offset = new Date(from * 1000).getTimezoneOffset() * 60;
  const first = Math.ceil((from - offset) / step) * step + offset;
  const found: number[] = [];
  for (let at = first; at <= to; at += step) found.push(at);
  return found;
}
