// All models: phase and reason, requests, speed, memory, and buttons to load and stop; each opens to its details.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api } from "../data/api";
import { models, stale } from "../data/state";
import type { Model } from "../data/types";
import { keptInWords } from "../models/conversations";
import { Details } from "../models/details";
import { Action } from "../parts/actions";
import { Dialog } from "../parts/dialog";
import { Page } from "../parts/frame";
import { LoadingBar } from "../parts/loading";
import { PhaseChip, phaseShown } from "../parts/phase";
import { Prose } from "../parts/prose";
import { Scroller } from "../parts/scroller";
import { linkTo, route } from "../route";
import { bytes, counted, duration, firstLine, orDash, rate, tokens } from "../words";

export function ModelsPage() {
  const wanted = useSignal("");
  const all = models.value;
  const found = (all ?? []).filter((model) => isFound(model, wanted.value.toLowerCase()));
  return (
    <Page
      title="Models"
      about={all ? summary(all) : "Loading…"}
      tools={
        <input
          type="search"
          placeholder="Search models"
          aria-label="Search models"
          onInput={(event) => (wanted.value = event.currentTarget.value)}
        />
      }
    >
      <ul class="card rows">
        {found.map((model) => (
          <ModelRow key={model.model} model={model} />
        ))}
        {all && found.length === 0 && (
          <li class="empty">
            <Prose text={all.length ? "No matching models." : NO_MODELS} />
          </li>
        )}
      </ul>
    </Page>
  );
}

const NO_MODELS =
  "No models yet. `hotseat pull ORG/REPO` downloads one to the folder of modelsDir, and `hotseat init` finds those that are on this machine.";

function summary(all: Model[]): string {
  const inPhase = (phase: string) => all.filter((model) => model.phase === phase).length;
  const flying = all.reduce((sum, model) => sum + model.in_flight, 0);
  const waiting = all.reduce((sum, model) => sum + model.waiting, 0);
  const said = [`${inPhase("ready")} of ${counted(all.length, "model")} ready`];
  if (inPhase("loading")) said.push(`${inPhase("loading")} loading`);
  return [...said, `${flying} in flight`, `${waiting} waiting`].join(" · ");
}

function isFound(model: Model, wanted: string): boolean {
  return [model.model, model.name, ...model.aliases].some((name) => name.toLowerCase().includes(wanted));
}

function ModelRow({ model }: { model: Model }) {
  const isOpen = useSignal(false);
  const details = `details-of-${model.model}`;
  const element = useRef<HTMLLIElement>(null);
  const asked = route.value.query.get("model");
  useEffect(() => {
    if (asked !== model.model) return;
    isOpen.value = true;
    element.current?.scrollIntoView({ block: "nearest" });
  }, [asked]);
  return (
    <li ref={element} class="model" data-model={model.model} data-phase={model.phase}>
      <div class="model-head">
        <button
          type="button"
          class="quiet model-name"
          aria-expanded={isOpen.value}
          aria-controls={details}
          onClick={() => (isOpen.value = !isOpen.value)}
        >
          <span class="twist" aria-hidden="true" />
          <strong>{model.model}</strong>
          {model.name && <span class="muted">{model.name}</span>}
          {model.pinned && <span class="tag">pinned</span>}
          {model.overrides && <span class="tag">override</span>}
          {model.unlisted && <span class="tag">unlisted</span>}
        </button>
        <PhaseChip phase={phaseShown(model)} isAdopted={model.adopted ?? false} />
        <Figures model={model} />
        <Buttons model={model} />
      </div>
      <p class="muted why">
        <Prose text={reasonOf(model)} />
      </p>
      <Conversations model={model} />
      {model.phase === "loading" && <LoadingBar model={model} />}
      {model.last_error && <LastError model={model} />}
      <div id={details} hidden={!isOpen.value}>
        {isOpen.value && <Details model={model} />}
      </div>
    </li>
  );
}

/** Empty where it would repeat the error that is shown below. */
function reasonOf({ why, last_error }: Model): string {
  const sentence = (text: string) => firstLine(text).cause.replace(/\.$/, "");
  return sentence(why) === sentence(last_error) ? "" : why;
}

function Conversations({ model }: { model: Model }) {
  const kept = keptInWords(model.conversations, model.why);
  return kept ? <p class="muted why">{kept}</p> : null;
}

function Figures({ model }: { model: Model }) {
  const ttl = model.ttl_left_s === null ? null : Math.max(0, model.ttl_left_s - stale.value);
  return (
    <dl class="inline">
      <Pair name="In flight" value={String(model.in_flight)} isQuiet={model.in_flight === 0} />
      <Pair name="Waiting" value={String(model.waiting)} isQuiet={model.waiting === 0} />
      <Pair name="Tokens/s" value={orDash(model.tokens_per_s, rate)} isQuiet={!model.tokens_per_s} />
      <Pair name="Context" value={orDash(model.context, tokens)} isQuiet={!model.context} />
      <Pair name="Memory" value={orDash(memoryOf(model), bytes)} isQuiet={memoryOf(model) === null} />
      <Pair name="Unloads in" value={orDash(ttl, duration)} isQuiet={ttl === null} />
    </dl>
  );
}

function Pair({ name, value, isQuiet }: { name: string; value: string; isQuiet: boolean }) {
  return (
    <div class={isQuiet ? "quiet" : ""}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** The sum over all devices, from the most accurate source. */
function memoryOf({ memory, footprint }: Model): number | null {
  const best = footprint?.measured ?? footprint?.reserved ?? memory;
  return best ? Object.values(best).reduce((sum, each) => sum + each, 0) : null;
}

function LastError({ model }: { model: Model }) {
  const { cause, output } = firstLine(model.last_error);
  return (
    <div class="last-error">
      <p>
        <strong>{failureOf(model)}:</strong> <Prose text={cause} />
      </p>
      {output && (
        <Scroller class="output" label={`Last output of ${model.model}`} frame={toItsEnd}>
          <pre>{output.split("\n").slice(-20).join("\n")}</pre>
        </Scroller>
      )}
      <a href={linkTo("logs", { model: model.model })}>View full log</a>
    </div>
  );
}

function failureOf({ failures, retry_in_s }: Model): string {
  const title = failures > 1 ? `Failed ${failures} times in a row` : "Last error";
  const left = retry_in_s === null ? 0 : retry_in_s - stale.value;
  return left > 0 ? `${title}, next try in ${duration(left)}` : title;
}

/** Scrolls to the last line, which usually states the error. */
function toItsEnd(element: HTMLElement | null): void {
  element?.scrollTo({ top: element.scrollHeight });
}

function Buttons({ model }: { model: Model }) {
  const isAsked = useSignal(false);
  const name = model.model;
  const load = (
    <Action label={`Load ${name}`} act={() => api.load(name)}>
      Load
    </Action>
  );
  if (model.phase === "cold" || model.phase === "backoff") return load;
  const isInUse = model.in_flight + model.waiting > 0;
  // The button looks the same with and without requests; the click decides whether to ask for confirmation.
  const stop = async () => {
    if (!isInUse) return api.stop(name, false);
    isAsked.value = true;
    return null;
  };
  return (
    <>
      {model.phase === "asleep" && load}
      <Action label={`Stop ${name}`} disabled={model.phase === "unloading"} act={stop}>
        Stop
      </Action>
      {isAsked.value && <AskToStop model={model} close={() => (isAsked.value = false)} />}
    </>
  );
}

function AskToStop({ model, close }: { model: Model; close: () => void }) {
  const stop = (force: boolean) => {
    close();
    return api.stop(model.model, force);
  };
  return (
    <Dialog title={`Stop ${model.model}?`} close={close}>
      <p>
        {counted(model.in_flight, "request is", "requests are")} in flight and {model.waiting} waiting.
        Requests in flight can finish within the drain timeout; waiting requests are rejected.
      </p>
      <div class="tools">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <Action act={() => stop(false)}>Drain, then stop</Action>
        <Action kind="danger" act={() => stop(true)}>
          Abort and stop
        </Action>
      </div>
    </Dialog>
  );
}
