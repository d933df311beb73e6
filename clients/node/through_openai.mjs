// OpenAI's JavaScript client.
import OpenAI from "openai";
import { FETCH_LIMIT_S, fetchWithin, MESSAGES, takeCalls, HOTSEAT_URL } from "./calls.mjs";

function openai(limit_s) {
  const limits = limit_s ? { timeout: limit_s * 1000, fetch: fetchWithin(limit_s) } : {};
  return new OpenAI({ baseURL: `${HOTSEAT_URL}/v1`, apiKey: "none", ...limits });
}

await takeCalls(
  {
    limit_s: Math.min(OpenAI.DEFAULT_TIMEOUT / 1000, FETCH_LIMIT_S),
    async ask(model) {
      const answer = await openai().chat.completions.create({ model, messages: MESSAGES });
      return answer.choices[0].message.content;
    },
    async *stream(model, limit_s) {
      const stream = await openai(limit_s).chat.completions.create({ model, messages: MESSAGES, stream: true });
      for await (const chunk of stream) yield chunk.choices[0].delta.content; // leaving the loop aborts the request
    },
  },
  "openai",
);
