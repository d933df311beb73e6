// Vercel's AI SDK with its provider for servers that speak OpenAI's dialect.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import { QUESTION, takeCalls, URL_OF_HOUSE } from "./calls.mjs";

const house = createOpenAICompatible({ name: "hotseat", baseURL: `${URL_OF_HOUSE}/v1` });

await takeCalls(
  {
    async ask(model) {
      return (await generateText({ model: house(model), prompt: QUESTION })).text;
    },
    async *stream(model) {
      const leaving = new AbortController();
      try {
        const { fullStream } = streamText({
          model: house(model),
          prompt: QUESTION,
          abortSignal: leaving.signal,
          onError() {}, // it would print what the stream's error part says as well
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
