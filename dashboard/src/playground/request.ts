// PURE: a chat request, and its text as a curl command and as Python and JavaScript code.

export interface TextPart {
  type: "text";
  text: string;
}

export interface ImagePart {
  type: "image_url";
  /** A `data:` URL, so that the request needs no other server. */
  image_url: { url: string };
}

export interface Message {
  role: "system" | "user" | "assistant";
  content: string | (TextPart | ImagePart)[];
}

export interface ChatRequest {
  model: string;
  messages: Message[];
  temperature: number;
  max_tokens: number;
  stream: boolean;
}

/** Plain text without images: some servers accept nothing else. */
export function userMessage(text: string, images: readonly string[]): Message {
  if (!images.length) return { role: "user", content: text };
  const shown = images.map((url): ImagePart => ({ type: "image_url", image_url: { url } }));
  return { role: "user", content: [{ type: "text", text }, ...shown] };
}

export function textOf({ content }: Message): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part.text : "")).join("");
}

export function imagesOf({ content }: Message): string[] {
  if (typeof content === "string") return [];
  return content.flatMap((part) => (part.type === "image_url" ? [part.image_url.url] : []));
}

export function asCurl(request: ChatRequest, root: string = rootOfThisPage()): string {
  const body = JSON.stringify(request, null, 2).replaceAll("'", "'\\''");
  return `curl -N ${root}v1/chat/completions \\\n  --json '${body}'\n`;
}

export function asPython(request: ChatRequest, root: string = rootOfThisPage()): string {
  const { model, messages, temperature, max_tokens } = request;
  return `from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(`${root}v1`)}, api_key="none")
stream = client.chat.completions.create(
    model=${JSON.stringify(model)},
    messages=${JSON.stringify(messages)},
    temperature=${temperature},
    max_tokens=${max_tokens},
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
`;
}

export function asJavaScript(request: ChatRequest, root: string = rootOfThisPage()): string {
  return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${JSON.stringify(`${root}v1`)}, apiKey: "none" });
const stream = await client.chat.completions.create(${JSON.stringify(request, null, 2)});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
}
`;
}

function rootOfThisPage(): string {
  return new URL("../..", document.baseURI).href;
}
