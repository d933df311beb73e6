// PURE: how often the fleet is fetched.

const PAUSE_RATIO = 20;
/** As often as hosts report to each other. */
const LONGEST_MS = 3000;

/** The pause after an answer. One about hundreds of hosts takes a server a tenth of a second: it is fetched less
 * often. */
export function pauseAfter(tookMs: number): number {
  return Math.min(LONGEST_MS, tookMs * PAUSE_RATIO);
}
