// A chat to try a model, or to compare two. The request can be copied as a command or as code.

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { api } from "../data/api";
import { models } from "../data/state";
import { CopyButton, showError } from "../parts/actions";
import { Card, Page } from "../parts/frame";
import { PhaseChip, phaseShown } from "../parts/phase";
import { Column } from "../playground/column";
import { Composer } from "../playground/composer";
import { asCurl, asJavaScript, asPython, type Message } from "../playground/request";
import { Conversation, type Sampling } from "../playground/conversation";

export function PlaygroundPage() {
  const first = useMemo(() => new Conversation(), []);
  const second = useMemo(() => new Conversation(), []);
  const sampling = useSignal<Sampling>({ system: "", temperature: 0.7, maxTokens: 256 });
  const isCompared = second.model.value !== "";
  const conversations = isCompared ? [first, second] : [first];
  const withoutVision = useModelsWithoutVision();
  const stop = () => [first, second].forEach((conversation) => conversation.stop());
  const send = (message: Message) =>
    conversations.forEach((conversation) => conversation.send(message, sampling.value));
  const clear = () => [first, second].forEach((conversation) => conversation.clear());
  useEffect(() => stop, []);
  // Chosen once: the default depends on which models are ready, and must not change while the user types.
  const isKnown = models.value !== null;
  useEffect(() => {
    first.model.value ||= firstModel();
  }, [isKnown]);
  return (
    <Page
      title="Playground"
      about="Chat with a model through the same API that other clients use."
      tools={
        <>
          <CopyButton text={() => asCurl(first.request(sampling.value))}>Copy as curl</CopyButton>
          <CopyButton text={() => asPython(first.request(sampling.value))}>Copy as Python</CopyButton>
          <CopyButton text={() => asJavaScript(first.request(sampling.value))}>Copy as JavaScript</CopyButton>
          <button type="button" onClick={clear}>
            Clear
          </button>
        </>
      }
    >
      <div class="playground">
        <div class={isCompared ? "chats compared" : "chats"}>
          {conversations.map((conversation, n) => (
            <Column
              key={n}
              conversation={conversation}
              again={() => void conversation.ask(sampling.value)}
              isCompared={isCompared}
            />
          ))}
          <Composer
            takesImages={!conversations.some(({ model }) => withoutVision.has(model.value))}
            isResponding={conversations.some(({ isResponding }) => isResponding.value)}
            send={send}
            stop={stop}
          />
        </div>
        <Card title="Settings">
          <div class="fields">
            <ModelChoice label="Model" chosen={first.model} />
            <CompareChoice first={first} second={second} />
            <SamplingFields sampling={sampling} />
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

/** Models that declare what they take, without images. Most declare nothing and may take them. */
function useModelsWithoutVision(): Set<string> {
  const withoutVision = useSignal(new Set<string>());
  useEffect(() => {
    api.listed().then(({ data }) => {
      const known = data.filter(({ capabilities }) => capabilities && !capabilities.vision);
      withoutVision.value = new Set(known.map(({ id }) => id));
    }, showError);
  }, []);
  return withoutVision.value;
}

function CompareChoice({ first, second }: { first: Conversation; second: Conversation }) {
  const choose = (name: string) => {
    if (!name) second.clear();
    else if (!second.model.value) second.startFrom(first);
    second.model.value = name;
  };
  return <ModelChoice label="Compare with" chosen={second.model} none="no other model" choose={choose} />;
}

interface ModelChoiceProps {
  label: string;
  chosen: Signal<string>;
  /** The choice of no model, if that is allowed. */
  none?: string;
  choose?: (name: string) => void;
}

function ModelChoice({
  label,
  chosen,
  none,
  choose = (name) => {
    chosen.value = name;
  },
}: ModelChoiceProps) {
  const model = models.value?.find((each) => each.model === chosen.value);
  return (
    <>
      <label>
        {label}
        <select value={chosen.value} onChange={(event) => choose(event.currentTarget.value)}>
          {none && <option value="">{none}</option>}
          {(models.value ?? []).map((each) => (
            <option key={each.model} value={each.model}>
              {each.model}
            </option>
          ))}
        </select>
      </label>
      {model && (
        <p class="muted">
          <PhaseChip phase={phaseShown(model)} />{" "}
          {model.phase === "cold" && " · loads when you send a message"}
        </p>
      )}
    </>
  );
}

function SamplingFields({ sampling }: { sampling: Signal<Sampling> }) {
  const { system, temperature, maxTokens } = sampling.value;
  const change = (news: Partial<Sampling>) => (sampling.value = { ...sampling.value, ...news });
  return (
    <>
      <label>
        System prompt
        <textarea
          rows={3}
          value={system}
          onInput={(event) => change({ system: event.currentTarget.value })}
        />
      </label>
      <label>
        Temperature
        <input
          type="number"
          min={0}
          max={2}
          step={0.1}
          value={temperature}
          onInput={(event) => change({ temperature: event.currentTarget.valueAsNumber || 0 })}
        />
      </label>
      <label>
        Max tokens
        <input
          type="number"
          min={1}
          value={maxTokens}
          onInput={(event) => change({ maxTokens: event.currentTarget.valueAsNumber || 1 })}
        />
      </label>
    </>
  );
}
