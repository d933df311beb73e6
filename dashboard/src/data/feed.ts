// An event stream that reconnects with backoff and resumes where it left off. It disconnects while the tab is hidden,
// because browsers allow six connections per host and every open tab uses one.

import { call } from "./api";
import { eventsOf, type ServerEvent } from "./sse";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

export type FeedConnection = "connecting" | "live" | "lost";

export interface Listener {
  received(event: ServerEvent): void;
  connectionChanged(connection: FeedConnection): void;
}

/** Follows `path` until the returned function is called. */
export function follow(path: () => string, listener: Listener): () => void {
  const over = new AbortController();
  void keepFollowing(path, listener, over.signal);
  return () => over.abort();
}

async function keepFollowing(path: () => string, listener: Listener, over: AbortSignal): Promise<void> {
  let pause = FIRST_PAUSE_MS;
  while (!over.aborted) {
    await untilSeen(over);
    const began = Date.now();
    try {
      await followOnce(path(), listener, over);
    } catch {
      if (over.aborted) return;
    }
    if (document.hidden) continue;
    pause = Date.now() - began > LONGEST_PAUSE_MS ? FIRST_PAUSE_MS : Math.min(pause * 2, LONGEST_PAUSE_MS);
    listener.connectionChanged("lost");
    await wait(pause, over);
  }
}

async function followOnce(path: string, listener: Listener, over: AbortSignal): Promise<void> {
  const unseen = new AbortController();
  const hide = () => document.hidden && unseen.abort();
  document.addEventListener("visibilitychange", hide);
  try {
    listener.connectionChanged("connecting");
    const response = await call(path, { signal: either(over, unseen.signal) });
    listener.connectionChanged("live");
    for await (const event of eventsOf(response)) listener.received(event);
  } finally {
    document.removeEventListener("visibilitychange", hide);
  }
}

function either(...signals: AbortSignal[]): AbortSignal {
  const joint = new AbortController();
  for (const signal of signals) signal.addEventListener("abort", () => joint.abort(), { once: true });
  if (signals.some((signal) => signal.aborted)) joint.abort();
  return joint.signal;
}

function untilSeen(over: AbortSignal): Promise<void> {
  if (!document.hidden || over.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", () => resolve(), { once: true });
    over.addEventListener("abort", () => resolve(), { once: true });
  });
}

function wait(milliseconds: number, over: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    over.addEventListener("abort", () => resolve(), { once: true });
  });
}
