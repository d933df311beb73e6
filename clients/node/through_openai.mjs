// OpenAI's JavaScript client.
import OpenAI from "openai";
import { FETCH_LIMIT_S, fetchOptions, MESSAGES, takeCalls, HOTSEAT_URL } from "./calls.mjs";

const client = new OpenAI({ baseURL: `${HOTSEAT_URL}/v1`, apiKey: "none" });

await takeCalls(
  {
    limit_s: Math.min(OpenAI.DEFAULT_TIMEOUT / 1000, FETCH_LIMIT_S),
    async ask(model) {
      const answer = await client.chat.completions.create({ model, messages: MESSAGES });
      return answer.choices[0].message.content;
    },
    async *stream(model, limit_s) {
      const options = limit_s ? { timeout: limit_s * 1000, fetchOptions: fetchOptions(limit_s) } : {};
      const stream = await client.chat.completions.create({ model, messages: MESSAGES, stream: true }, options);
      for await (const chunk of stream) yield chunk.choices[0].delta.content; // leaving the loop aborts the request
    },
  },
  "openai",
);
