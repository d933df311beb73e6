// PURE: the state of a streamed response, chunk by chunk.

export interface Heard {
  state: "waiting" | "answering" | "over";
  text: string;
  reasoning: string;
  trouble: string;
  firstTokenS: number | null;
  tokens: number;
  tokensPerS: number | null;
}

export const NOTHING_HEARD: Heard = {
  state: "waiting",
  text: "",
  reasoning: "",
  trouble: "",
  firstTokenS: null,
  tokens: 0,
  tokensPerS: null,
};

export interface Chunk {
  choices?: { delta?: { content?: string | null; reasoning_content?: string | null } }[];
  error?: string | { message: string };
  timings?: { predicted_n: number; predicted_per_second: number };
}

/** The state after one more chunk; `elapsed` is the time since the request in seconds. */
export function grown(heard: Heard, chunk: Chunk, elapsed: number): Heard {
  if (chunk.error) {
    return { ...heard, trouble: typeof chunk.error === "string" ? chunk.error : chunk.error.message };
  }
  const delta = chunk.choices?.[0]?.delta ?? {};
  const isToken = Boolean(delta.content || delta.reasoning_content);
  const firstTokenS = heard.firstTokenS ?? (isToken ? elapsed : null);
  const tokens = chunk.timings?.predicted_n ?? heard.tokens + (isToken ? 1 : 0);
  return {
    ...heard,
    state: "answering",
    text: heard.text + (delta.content ?? ""),
    reasoning: heard.reasoning + (delta.reasoning_content ?? ""),
    firstTokenS,
    tokens,
    tokensPerS: chunk.timings?.predicted_per_second ?? speed(tokens, firstTokenS, elapsed),
  };
}

function speed(tokens: number, firstTokenS: number | null, elapsed: number): number | null {
  return firstTokenS === null || elapsed <= firstTokenS ? null : (tokens - 1) / (elapsed - firstTokenS);
}
