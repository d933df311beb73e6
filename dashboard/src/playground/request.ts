// PURE: a chat request, and its text as a curl command and as Python code.

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

export interface ChatRequest {
  model: string;
  messages: Message[];
  temperature: number;
  max_tokens: number;
  stream: boolean;
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

function rootOfThisPage(): string {
  return new URL("../..", document.baseURI).href;
}
