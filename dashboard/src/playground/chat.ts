// Sends a chat request and yields the state of the streamed response.

import { call, ROOT } from "../data/api";
import { eventsOf } from "../data/sse";
import { EMPTY_REPLY, type Reply, type Wait, withChunk } from "./reply";
import type { ChatRequest } from "./request";

export async function* chat(request: ChatRequest, over: AbortSignal): AsyncGenerator<Reply> {
  let reply = EMPTY_REPLY;
  const began = performance.now();
  yield reply;
  try {
    const response = await post(request, over);
    reply = { ...reply, wait: waitOf(response.headers) };
    for await (const { data } of eventsOf(response)) {
      if (data === "[DONE]") break;
      reply = withChunk(reply, JSON.parse(data), (performance.now() - began) / 1000);
      yield reply;
    }
  } catch (problem) {
    const trouble = over.aborted ? "" : problem instanceof Error ? problem.message : String(problem);
    reply = { ...reply, trouble: reply.trouble || trouble };
  }
  yield { ...reply, state: "over" };
}

function post(request: ChatRequest, over: AbortSignal): Promise<Response> {
  return call(new URL("v1/chat/completions", ROOT), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
    signal: over,
  });
}

/** hotseat names the reason of every wait that is worth mentioning. */
function waitOf(headers: Headers): Wait | null {
  const [seconds, why] = [headers.get("Hotseat-Waited"), headers.get("Hotseat-Why")];
  return seconds && why ? { seconds: Number(seconds), why } : null;
}
