// Ollama's JavaScript client.
import { Ollama } from "ollama";
import { FETCH_LIMIT_S, fetchWithin, MESSAGES, takeCalls, HOTSEAT_URL } from "./calls.mjs";

function ollama(limit_s) {
  return new Ollama({ host: HOTSEAT_URL, fetch: fetchWithin(limit_s) });
}

await takeCalls(
  {
    limit_s: FETCH_LIMIT_S,
    async ask(model) {
      return (await ollama().chat({ model, messages: MESSAGES })).message.content;
    },
    async *stream(model, limit_s) {
      const stream = await ollama(limit_s).chat({ model, messages: MESSAGES, stream: true });
      try {
        for await (const part of stream) yield part.message.content;
      } finally {
        stream.abort();
      }
    },
  },
  "ollama",
);
