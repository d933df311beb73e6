// Sends a chat request and yields the state of the streamed response.

import { call, ROOT } from "../house/api";
import { eventsOf } from "../house/sse";
import { type Chunk, grown, type Heard, NOTHING_HEARD } from "./heard";
import type { ChatRequest } from "./request";

export async function* talk(request: ChatRequest, over: AbortSignal): AsyncGenerator<Heard> {
  let heard = NOTHING_HEARD;
  const began = performance.now();
  yield heard;
  try {
    for await (const chunk of chunksOf(request, over)) {
      heard = grown(heard, chunk, (performance.now() - began) / 1000);
      yield heard;
    }
  } catch (problem) {
    const trouble = over.aborted ? "" : problem instanceof Error ? problem.message : String(problem);
    heard = { ...heard, trouble: heard.trouble || trouble };
  }
  yield { ...heard, state: "over" };
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
