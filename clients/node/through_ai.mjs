// Vercel's AI SDK with its provider for servers with OpenAI's API.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import { FETCH_LIMIT_S, fetchWithin, QUESTION, takeCalls, HOTSEAT_URL } from "./calls.mjs";

function hotseat(limit_s) {
  return createOpenAICompatible({ name: "hotseat", baseURL: `${HOTSEAT_URL}/v1`, fetch: fetchWithin(limit_s) });
}

await takeCalls(
  {
    limit_s: FETCH_LIMIT_S,
    async ask(model) {
      return (await generateText({ model: hotseat()(model), prompt: QUESTION })).text;
    },
    async *stream(model, limit_s) {
      const leaving = new AbortController();
      try {
        const { fullStream } = streamText({
          model: hotseat(limit_s)(model),
          prompt: QUESTION,
          abortSignal: leaving.signal,
          onError() {}, // the default would also print the stream's error part
        });
        for await (const part of fullStream) {
          if (part.type === "error") throw part.error;
          if (part.type === "text-delta") yield part.text;
        }
      } finally {
        leaving.abort();
      }
    },
  },
  "ai",
  "@ai-sdk/openai-compatible",
);
