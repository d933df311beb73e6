// PURE: where the time of a request went, and why.

import type { Finished, RequestInProgress, SwapReport } from "../data/types";
import { counted, duration, rate, tokens } from "../words";

export interface Share {
  name: "waited" | "until the first byte" | "answering";
  seconds: number;
}

export interface Explanation {
  shares: Share[];
  /** The largest share first in words, then what contributed to it. */
  sentences: string[];
}

/** A swap, with the time at which its model was ready. */
export type Swapped = SwapReport & { at: number };

/** The journal entry of a swap and the end of a wait for it are one moment. */
const SAME_MOMENT_S = 1;

export function sharesOf({ waited_s, first_byte_s, seconds }: Finished): Share[] {
  const answered = first_byte_s ?? seconds;
  return [
    { name: "waited", seconds: Math.min(waited_s, seconds) },
    { name: "until the first byte", seconds: Math.max(0, answered - waited_s) },
    { name: "answering", seconds: Math.max(0, seconds - answered) },
  ];
}

export function explained(
  request: Finished,
  finished: readonly Finished[],
  inProgress: readonly RequestInProgress[],
  swaps: readonly Swapped[],
  now: number,
): Explanation {
  const shares = sharesOf(request);
  const [largest] = [...shares].sort((one, other) => other.seconds - one.seconds);
  const others = besides(request, finished, inProgress, now);
  const sentences = [
    request.status >= 400 && failure(request),
    largest ? mostly(request, largest) : "",
    cached(request),
    request.why && `Its wait of ${duration(request.waited_s)}: ${request.why}.`,
    ...swapsFor(request.model, request.at - request.seconds, request.waited_s, swaps),
    others > 0 &&
      `${request.model} served ${counted(others, "other request")} at the same time; they shared its speed.`,
  ];
  return {
    shares,
    sentences: sentences.filter((each) => typeof each === "string" && each !== "") as string[],
  };
}

function failure({ status, model }: Finished): string {
  if (status === 499) return "The client closed the connection before the answer was complete.";
  return `It failed with status ${status}; the last error of ${model} or its log may say why.`;
}

function mostly(request: Finished, { name, seconds }: Share): string {
  const share = request.seconds ? Math.round((seconds / request.seconds) * 100) : 0;
  const part = `${duration(seconds)} of ${duration(request.seconds)} (${share} %)`;
  if (name === "waited") return `Most of the time it waited for ${request.model}: ${part}.`;
  if (name === "answering")
    return `Most of the time the server generated the answer: ${part}${speed(request)}.`;
  const prompt =
    request.prompt_tokens === null ? "" : `, a prompt of ${counted(request.prompt_tokens, "token")}`;
  return `Most of the time the server worked before its first byte, on the prompt or on the whole answer: ${part}${prompt}.`;
}

function cached({ prompt_tokens, cached_tokens }: Finished): string {
  if (prompt_tokens === null || cached_tokens === null) return "";
  const some = cached_tokens ? `${tokens(cached_tokens)} were` : "none was";
  return `Of its ${tokens(prompt_tokens)} prompt tokens, ${some} in the server's cache.`;
}

function speed({ completion_tokens, tokens_per_s }: Finished): string {
  if (completion_tokens === null) return "";
  return `, ${counted(completion_tokens, "token")}${tokens_per_s === null ? "" : ` at ${rate(tokens_per_s)} tokens/s`}`;
}

/** Requests that the same server worked on while it worked on this one. */
function besides(
  request: Finished,
  finished: readonly Finished[],
  inProgress: readonly RequestInProgress[],
  now: number,
): number {
  const from = request.at - request.seconds + request.waited_s;
  const overlaps = (began: number, ended: number) => began < request.at && ended > from;
  const done = finished.filter(
    ({ n, model, at, seconds, waited_s }) =>
      n !== request.n && model === request.model && overlaps(at - seconds + waited_s, at),
  );
  const going = inProgress.filter(
    ({ model, state, seconds, waited_s }) =>
      model === request.model && state !== "waiting" && overlaps(now - seconds + waited_s, now),
  );
  return done.length + going.length;
}

/** The swaps that a request waited for, in words. */
export function swapsFor(
  model: string,
  began: number,
  waited_s: number,
  swaps: readonly Swapped[],
): string[] {
  const until = began + waited_s + SAME_MOMENT_S;
  const isIts = (swap: Swapped) => swap.model === model && swap.at > began && swap.at <= until;
  return waited_s > 0 ? swaps.filter(isIts).map(swapInWords) : [];
}

function swapInWords({ model, measured_s, predicted_s, evicted }: Swapped): string {
  const gone = evicted.map((each) => `${each.model} (${each.reason})`).join(", ");
  const predicted = predicted_s === null ? "" : `, predicted ${duration(predicted_s)}`;
  return `The swap to ${model} took ${duration(measured_s)}${predicted}${gone && `; evicted: ${gone}`}.`;
}
