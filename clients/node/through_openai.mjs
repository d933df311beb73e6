// OpenAI's JavaScript client.
import OpenAI from "openai";
import { MESSAGES, takeCalls, URL_OF_HOUSE } from "./calls.mjs";

const client = new OpenAI({ baseURL: `${URL_OF_HOUSE}/v1`, apiKey: "none" });

await takeCalls(
  {
    async ask(model) {
      const answer = await client.chat.completions.create({ model, messages: MESSAGES });
      return answer.choices[0].message.content;
    },
    async *stream(model) {
      const stream = await client.chat.completions.create({ model, messages: MESSAGES, stream: true });
      for await (const chunk of stream) yield chunk.choices[0].delta.content; // breaking off aborts the request
    },
  },
  "openai",
);
