// PURE: whether the journal of a new process goes on with that of the process before.

import type { JournalEntry } from "./types";

/**
 * The earlier entries that belong before the first one of the new process; none if that counts from one again.
 * Entries of the new process may have arrived before the page noticed that it is a new one.
 */
export function continued(earlier: readonly JournalEntry[], first: JournalEntry): JournalEntry[] {
  const newest = earlier.at(-1)?.n ?? 0;
  const isKnown = earlier.some(({ n, at }) => n === first.n && at === first.at);
  return isKnown || first.n > newest ? earlier.filter(({ n }) => n < first.n) : [];
}
