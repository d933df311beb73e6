// A chat to try a model. The request can be copied as a command.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { models } from "../house/live";
import { CopyButton } from "../parts/actions";
import { Card, Page } from "../parts/frame";
import { PhaseChip } from "../parts/phase";
import { Scroller } from "../parts/scroller";
import { type Heard, NOTHING_HEARD } from "../playground/heard";
import { asCurl, asPython, type ChatRequest, type Message } from "../playground/request";
import { talk } from "../playground/talk";
import { duration, firstLine, orDash } from "../words";

export function PlaygroundPage() {
  const chosen = useSignal("");
  const system = useSignal("");
  const temperature = useSignal(0.7);
  const maxTokens = useSignal(256);
  const draft = useSignal("");
  const said = useSignal<Message[]>([]);
  const heard = useSignal<Heard | null>(null);
  const over = useRef<AbortController | null>(null);
  const model = chosen.value;
  const isTalking = heard.value?.state === "waiting" || heard.value?.state === "answering";

  const request = (): ChatRequest => ({
    model,
    messages: [...(system.value ? [{ role: "system", content: system.value } as const] : []), ...said.value],
    temperature: temperature.value,
    max_tokens: maxTokens.value,
    stream: true,
  });
  const send = async () => {
    if (!draft.value.trim() || isTalking) return;
    said.value = [...settled(said.value, heard.value), { role: "user", content: draft.value }];
    draft.value = "";
    over.current = new AbortController();
    for await (const news of talk(request(), over.current.signal)) heard.value = news;
  };
  const clear = () => {
    over.current?.abort();
    said.value = [];
    heard.value = null;
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
        <Card title="Chat" note={heard.value ? <Speed heard={heard.value} /> : null}>
          <Talk messages={said.value} heard={heard.value} model={model} />
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
            {isTalking ? (
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

function settled(messages: Message[], heard: Heard | null): Message[] {
  return heard?.text ? [...messages, { role: "assistant", content: heard.text }] : messages;
}

function Talk({ messages, heard, model }: { messages: Message[]; heard: Heard | null; model: string }) {
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [heard, messages]);
  return (
    <Scroller class="talk" label="Conversation">
      {messages.length === 0 && <p class="empty">No messages yet.</p>}
      {messages.map((message, n) => (
        <div key={n} class={`said ${message.role}`}>
          <span class="muted">{message.role === "user" ? "You" : "Assistant"}</span>
          <p>{message.content}</p>
        </div>
      ))}
      {heard && (heard.state !== "over" || heard.text) && <Answer heard={heard} model={model} />}
      <div ref={end} />
    </Scroller>
  );
}

function Answer({ heard, model }: { heard: Heard; model: string }) {
  const why = models.value?.find((each) => each.model === model)?.why ?? "";
  return (
    <div class="said assistant" aria-busy={heard.state === "answering"}>
      <span class="muted">{model}</span>
      {heard.reasoning && <p class="muted reasoning">{heard.reasoning}</p>}
      {heard.text && <p>{heard.text.trimStart()}</p>}
      {heard.state === "waiting" && <p class="muted">Waiting: {firstLine(why).cause}</p>}
      {heard.trouble && <pre class="trouble">{heard.trouble}</pre>}
    </div>
  );
}

function Speed({ heard }: { heard: Heard }) {
  if (heard === NOTHING_HEARD) return null;
  const told = [`first token ${orDash(heard.firstTokenS, duration)}`];
  if (heard.tokens) told.push(`${heard.tokens} tokens`);
  if (heard.tokensPerS) told.push(`${heard.tokensPerS.toFixed(1)} tokens/s`);
  return <span class="speed">{told.join(" · ")}</span>;
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
