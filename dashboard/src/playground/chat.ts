// Sends a chat request and yields the state of the streamed response.

import { call, ROOT } from "../data/api";
import { eventsOf } from "../data/sse";
import { type Chunk, withChunk, type Reply, EMPTY_REPLY } from "./reply";
import type { ChatRequest } from "./request";

export async function* chat(request: ChatRequest, over: AbortSignal): AsyncGenerator<Reply> {
  let reply = EMPTY_REPLY;
  const began = performance.now();
  yield reply;
  try {
    for await (const chunk of chunksOf(request, over)) {
      reply = withChunk(reply, chunk, (performance.now() - began) / 1000);
      yield reply;
    }
  } catch (problem) {
    const trouble = over.aborted ? "" : problem instanceof Error ? problem.message : String(problem);
    reply = { ...reply, trouble: reply.trouble || trouble };
  }
  yield { ...reply, state: "over" };
}

async function* chunksOf(request: ChatRequest, over: AbortSignal): AsyncGenerator<Chunk> {
  const response = await call(new URL("v1/chat/completions", ROOT), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
    signal: over,
  });
  for await (const { data } of eventsOf(response)) {
    if (data === "[DONE]") return;
    yield JSON.parse(data);
  }
}
