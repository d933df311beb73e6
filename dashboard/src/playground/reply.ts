// PURE: the state of a streamed response, chunk by chunk.

/** How long a request waited before its model could serve it, and why. */
export interface Wait {
  seconds: number;
  why: string;
}

export interface Reply {
  state: "waiting" | "answering" | "over";
  text: string;
  reasoning: string;
  trouble: string;
  /** null: it was served at once. */
  wait: Wait | null;
  firstTokenS: number | null;
  tokens: number;
  tokensPerS: number | null;
}

export const EMPTY_REPLY: Reply = {
  state: "waiting",
  text: "",
  reasoning: "",
  trouble: "",
  wait: null,
  firstTokenS: null,
  tokens: 0,
  tokensPerS: null,
};

/** llama.cpp calls its reasoning `reasoning_content`, and vLLM `reasoning`. */
interface Delta {
  content?: string | null;
  reasoning_content?: string | null;
  reasoning?: string | null;
}

export interface Chunk {
  choices?: { delta?: Delta }[];
  error?: string | { message: string };
  timings?: { predicted_n: number; predicted_per_second: number };
}

/** The state after one more chunk; `elapsed` is the time since the request in seconds. */
export function withChunk(reply: Reply, chunk: Chunk, elapsed: number): Reply {
  if (chunk.error) {
    return { ...reply, trouble: typeof chunk.error === "string" ? chunk.error : chunk.error.message };
  }
  const delta = chunk.choices?.[0]?.delta ?? {};
  const reasoning = delta.reasoning_content || delta.reasoning || "";
  const isToken = Boolean(delta.content || reasoning);
  const firstTokenS = reply.firstTokenS ?? (isToken ? elapsed : null);
  const tokens = chunk.timings?.predicted_n ?? reply.tokens + (isToken ? 1 : 0);
  return {
    ...reply,
    state: "answering",
    text: reply.text + (delta.content ?? ""),
    reasoning: reply.reasoning + reasoning,
    firstTokenS,
    tokens,
    tokensPerS: chunk.timings?.predicted_per_second ?? speed(tokens, firstTokenS, elapsed),
  };
}

function speed(tokens: number, firstTokenS: number | null, elapsed: number): number | null {
  return firstTokenS === null || elapsed <= firstTokenS ? null : (tokens - 1) / (elapsed - firstTokenS);
}
