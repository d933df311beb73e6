// The chat with one model: its state, the messages, and why an answer waits.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { models, queue, stale } from "../data/state";
import type { Model } from "../data/types";
import { Card } from "../parts/frame";
import { LoadingBar } from "../parts/loading";
import { PhaseChip, phaseShown } from "../parts/phase";
import { Prose } from "../parts/prose";
import { Scroller } from "../parts/scroller";
import { duration, firstLine, orDash } from "../words";
import { EMPTY_REPLY, type Reply } from "./reply";
import { imagesOf, type Message, textOf } from "./request";
import type { Conversation } from "./conversation";

interface ColumnProps {
  conversation: Conversation;
  /** Asks for another reply to the last message. */
  again: () => void;
  isCompared: boolean;
}

export function Column({ conversation, again, isCompared }: ColumnProps) {
  const name = conversation.model.value;
  const model = models.value?.find((each) => each.model === name);
  const reply = conversation.reply.value;
  return (
    <Card
      title={name || "Chat"}
      note={model && !isCompared && <PhaseChip phase={phaseShown(model)} />}
      tools={<Tools conversation={conversation} again={again} isCompared={isCompared} />}
    >
      <Messages label={`Conversation with ${name}`} conversation={conversation}>
        {reply && isShown(reply) && <Answer reply={reply} name={name} model={model} />}
      </Messages>
      <p class="speed muted">{reply && reply !== EMPTY_REPLY ? speedOf(reply) : ""}</p>
    </Card>
  );
}

function Tools({ conversation, again, isCompared }: ColumnProps) {
  if (conversation.isResponding.value) {
    // Beside the message is one button that stops all.
    return isCompared ? (
      <button
        type="button"
        aria-label={`Stop ${conversation.model.value}`}
        onClick={() => conversation.stop()}
      >
        Stop
      </button>
    ) : null;
  }
  const verb = conversation.reply.value ? "Regenerate" : "Ask";
  return conversation.canAskAgain.value ? (
    <button type="button" aria-label={`${verb} ${conversation.model.value}`} onClick={again}>
      {verb}
    </button>
  ) : null;
}

const NO_MODELS = "There are no models to chat with. The page Models says how to get one.";

/** An aborted reply without text shows nothing. */
function isShown({ state, text, reasoning, trouble }: Reply): boolean {
  return state !== "over" || Boolean(text || reasoning || trouble);
}

function Messages({
  label,
  conversation,
  children,
}: {
  label: string;
  conversation: Conversation;
  children: ComponentChildren;
}) {
  const end = useRef<HTMLDivElement>(null);
  const messages = conversation.said.value;
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [conversation.reply.value, messages]);
  return (
    <Scroller class="conversation" label={label}>
      {messages.length === 0 && (
        <p class="empty">{models.value?.length === 0 ? NO_MODELS : "No messages yet."}</p>
      )}
      {messages.map((message, n) => (
        <Said key={n} message={message} />
      ))}
      {children}
      <div ref={end} />
    </Scroller>
  );
}

function Said({ message }: { message: Message }) {
  return (
    <div class={`said ${message.role}`}>
      <span class="muted">{message.role === "user" ? "You" : "Assistant"}</span>
      {imagesOf(message).map((url, n) => (
        <img key={n} src={url} alt={`Image ${n + 1} of this message`} />
      ))}
      {textOf(message) && <p>{textOf(message)}</p>}
    </div>
  );
}

function Answer({ reply, name, model }: { reply: Reply; name: string; model: Model | undefined }) {
  return (
    <div class="said assistant" aria-busy={reply.state === "answering"}>
      <span class="muted">{name}</span>
      {reply.wait && (
        <p class="muted wait">
          {duration(reply.wait.seconds)}: <Prose text={reply.wait.why} />
        </p>
      )}
      {reply.reasoning && <p class="muted reasoning">{reply.reasoning}</p>}
      {reply.text && <p>{reply.text.trimStart()}</p>}
      {reply.state === "waiting" && model && <Waiting model={model} />}
      {reply.trouble && (
        <pre class="trouble">
          <Prose text={reply.trouble} />
        </pre>
      )}
    </div>
  );
}

/** Why there is no answer yet: the request waits for its model, or the model reads the prompt. */
function Waiting({ model }: { model: Model }) {
  const ticket = queue.value.filter((each) => each.model === model.model).at(-1); // ours is the newest
  if (!ticket) {
    const isServed = model.phase === "ready";
    return <p class="muted wait">{isServed ? "Waiting for the first token" : "Waiting"}</p>;
  }
  const left = ticket.expected_s ? Math.max(0, ticket.expected_s - stale.value) : null;
  const waited = duration(ticket.waited_s + stale.value);
  return (
    <>
      <p class="muted wait">
        Waiting for {waited}: <Prose text={firstLine(ticket.why).cause} />
        {left !== null && `; about ${duration(left)} left`}
      </p>
      {model.phase === "loading" && <LoadingBar model={model} />}
    </>
  );
}

function speedOf(reply: Reply): string {
  const parts = [`first token ${orDash(reply.firstTokenS, duration)}`];
  if (reply.tokens) parts.push(`${reply.tokens}\u00a0tokens`);
  if (reply.tokensPerS) parts.push(`${reply.tokensPerS.toFixed(1)}\u00a0tokens/s`);
  return parts.join(" · ");
}
