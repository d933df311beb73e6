// The newest log lines, live. While paused, new lines are counted but not shown.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { follow } from "../data/feed";
import { insert, type LogLine, parsed } from "./lines";

const MOST_KEPT = 5000;
const PAST = 1000;
const SHOWN_EVERY_MS = 250;

export interface Newest {
  lines: LogLine[];
  /** Lines that came since the pause. */
  unseen: LogLine[];
}

/** `query` selects the source, as in the API. */
export function useNewest(query: string, isPaused: boolean): Newest {
  const shown = useSignal<LogLine[]>([]);
  const unseen = useSignal<LogLine[]>([]);
  const kept = useRef<LogLine[]>([]);
  useEffect(() => {
    kept.current = shown.value = [];
    return keepLines(query, kept);
  }, [query]);
  useEffect(() => {
    unseen.value = [];
    // A loading server prints hundreds of lines at once: render them together, not one by one.
    const timer = setInterval(() => {
      const newest = kept.current.at(-1);
      if (isPaused) unseen.value = after(shown.value.at(-1), kept.current);
      else if (newest && newest !== shown.value.at(-1)) shown.value = [...kept.current];
    }, SHOWN_EVERY_MS);
    return () => clearInterval(timer);
  }, [isPaused, query]);
  return { lines: shown.value, unseen: unseen.value };
}

/** Follows the source until the returned function is called. */
function keepLines(query: string, kept: { current: LogLine[] }): () => void {
  let n = 0;
  let isRepeating = true;
  return follow(() => `logs?follow=true&lines=${PAST}${query && `&${query}`}`, {
    received: ({ data }) => {
      // A new connection sends the past lines again. Until then the old ones stay.
      if (isRepeating) kept.current = [];
      isRepeating = false;
      n += 1;
      insert(kept.current, parsed(n, data));
      if (kept.current.length > MOST_KEPT) kept.current.splice(0, MOST_KEPT / 10);
    },
    connectionChanged: (connection) => {
      if (connection === "connecting") isRepeating = true;
    },
  });
}

/** By time, because the lines of a new connection have new numbers. */
function after(last: LogLine | undefined, lines: LogLine[]): LogLine[] {
  return last ? lines.filter(({ at }) => at > last.at) : lines;
}
