// A chat to try a model. The request can be copied as a command.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { models } from "../data/state";
import { CopyButton } from "../parts/actions";
import { Card, Page } from "../parts/frame";
import { PhaseChip } from "../parts/phase";
import { Scroller } from "../parts/scroller";
import { type Reply, EMPTY_REPLY } from "../playground/reply";
import { asCurl, asPython, type ChatRequest, type Message } from "../playground/request";
import { chat } from "../playground/chat";
import { duration, firstLine, orDash } from "../words";

export function PlaygroundPage() {
  const chosen = useSignal("");
  const system = useSignal("");
  const temperature = useSignal(0.7);
  const maxTokens = useSignal(256);
  const draft = useSignal("");
  const said = useSignal<Message[]>([]);
  const reply = useSignal<Reply | null>(null);
  const over = useRef<AbortController | null>(null);
  const model = chosen.value;
  const isResponding = reply.value?.state === "waiting" || reply.value?.state === "answering";

  const request = (): ChatRequest => ({
    model,
    messages: [...(system.value ? [{ role: "system", content: system.value } as const] : []), ...said.value],
    temperature: temperature.value,
    max_tokens: maxTokens.value,
    stream: true,
  });
  const send = async () => {
    if (!draft.value.trim() || isResponding) return;
    said.value = [...settled(said.value, reply.value), { role: "user", content: draft.value }];
    draft.value = "";
    over.current = new AbortController();
    for await (const news of chat(request(), over.current.signal)) reply.value = news;
  };
  const clear = () => {
    over.current?.abort();
    said.value = [];
    reply.value = null;
  };
  useEffect(() => () => over.current?.abort(), []);
  // Chosen once: the default depends on which models are ready, and must not change while the user types.
  const isKnown = models.value !== null;
  useEffect(() => {
    chosen.value ||= firstModel();
  }, [isKnown]);

  return (
    <Page
      title="Playground"
      about="Chat with a model through the same API that other clients use."
      tools={
        <>
          <CopyButton text={() => asCurl(request())}>Copy as curl</CopyButton>
          <CopyButton text={() => asPython(request())}>Copy as Python</CopyButton>
          <button type="button" onClick={clear}>
            Clear
          </button>
        </>
      }
    >
      <div class="playground">
        <Card title="Chat" note={reply.value ? <Speed reply={reply.value} /> : null}>
          <Conversation messages={said.value} reply={reply.value} model={model} />
          <form
            class="composer"
            onSubmit={(event) => {
              event.preventDefault();
              void send();
            }}
          >
            <textarea
              rows={2}
              aria-label="Your message"
              placeholder="Type a message"
              value={draft.value}
              onInput={(event) => (draft.value = event.currentTarget.value)}
              onKeyDown={(event) => {
                if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
                event.preventDefault();
                void send();
              }}
            />
            {isResponding ? (
              <button type="button" onClick={() => over.current?.abort()}>
                Stop
              </button>
            ) : (
              <button type="submit" class="primary" disabled={!draft.value.trim()}>
                Send
              </button>
            )}
          </form>
        </Card>
        <Card title="Settings">
          <div class="fields">
            <label>
              Model
              <select value={model} onChange={(event) => (chosen.value = event.currentTarget.value)}>
                {(models.value ?? []).map((each) => (
                  <option key={each.model} value={each.model}>
                    {each.model}
                  </option>
                ))}
              </select>
            </label>
            <ModelState name={model} />
            <label>
              System prompt
              <textarea
                rows={3}
                value={system.value}
                onInput={(event) => (system.value = event.currentTarget.value)}
              />
            </label>
            <label>
              Temperature
              <input
                type="number"
                min={0}
                max={2}
                step={0.1}
                value={temperature.value}
                onInput={(event) => (temperature.value = event.currentTarget.valueAsNumber || 0)}
              />
            </label>
            <label>
              Max tokens
              <input
                type="number"
                min={1}
                value={maxTokens.value}
                onInput={(event) => (maxTokens.value = event.currentTarget.valueAsNumber || 1)}
              />
            </label>
          </div>
        </Card>
      </div>
    </Page>
  );
}

function firstModel(): string {
  const all = models.value ?? [];
  return (all.find(({ phase }) => phase === "ready") ?? all[0])?.model ?? "";
}

function settled(messages: Message[], reply: Reply | null): Message[] {
  return reply?.text ? [...messages, { role: "assistant", content: reply.text }] : messages;
}

function Conversation({
  messages,
  reply,
  model,
}: {
  messages: Message[];
  reply: Reply | null;
  model: string;
}) {
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [reply, messages]);
  return (
    <Scroller class="conversation" label="Conversation">
      {messages.length === 0 && <p class="empty">No messages yet.</p>}
      {messages.map((message, n) => (
        <div key={n} class={`said ${message.role}`}>
          <span class="muted">{message.role === "user" ? "You" : "Assistant"}</span>
          <p>{message.content}</p>
        </div>
      ))}
      {reply && (reply.state !== "over" || reply.text || reply.trouble) && (
        <Answer reply={reply} model={model} />
      )}
      <div ref={end} />
    </Scroller>
  );
}

function Answer({ reply, model }: { reply: Reply; model: string }) {
  const why = models.value?.find((each) => each.model === model)?.why ?? "";
  return (
    <div class="said assistant" aria-busy={reply.state === "answering"}>
      <span class="muted">{model}</span>
      {reply.reasoning && <p class="muted reasoning">{reply.reasoning}</p>}
      {reply.text && <p>{reply.text.trimStart()}</p>}
      {reply.state === "waiting" && <p class="muted">Waiting: {firstLine(why).cause}</p>}
      {reply.trouble && <pre class="trouble">{reply.trouble}</pre>}
    </div>
  );
}

function Speed({ reply }: { reply: Reply }) {
  if (reply === EMPTY_REPLY) return null;
  const parts = [`first token ${orDash(reply.firstTokenS, duration)}`];
  if (reply.tokens) parts.push(`${reply.tokens} tokens`);
  if (reply.tokensPerS) parts.push(`${reply.tokensPerS.toFixed(1)} tokens/s`);
  return <span class="speed">{parts.join(" · ")}</span>;
}

function ModelState({ name }: { name: string }) {
  const model = models.value?.find((each) => each.model === name);
  if (!model) return null;
  return (
    <p class="muted">
      <PhaseChip phase={model.phase} /> {model.phase === "cold" && " · loads when you send a message"}
    </p>
  );
}
