// One model in detail: its current process, its history, its settings, its estimated memory and its last output.

import { useAnswer } from "../data/answer";
import { api } from "../data/api";
import { now, stale } from "../data/state";
import type { EstimateLine, Model } from "../data/types";
import { parsed } from "../logs/lines";
import { Fact, Section } from "../parts/frame";
import { Scroller } from "../parts/scroller";
import { type Column, Table } from "../parts/table";
import { linkTo } from "../route";
import { drawn } from "../timeline/drawn";
import { ADOPTED, bytes, clock, duration, orDash, withoutEscapes } from "../words";
import { pastInWords } from "./conversations";
import { ModelSettings } from "./settings";
import { type HistoryEntry, historyOf } from "./history";

const LOG_LINES = 20;
const LOG_EVERY_MS = 3000;

export function Details({ model }: { model: Model }) {
  return (
    <div class="details">
      <Process model={model} />
      <Section title="History" note="since the start of hotseat, newest first">
        <Table
          caption={`History of ${model.model}`}
          columns={HISTORY}
          rows={historyOf(drawn.value.segments, model.model)}
          keyOf={({ at, what }) => `${at} ${what}`}
          empty="It has not been loaded yet."
        />
      </Section>
      <ModelSettings model={model} />
      <EstimatedMemory name={model.model} />
      <LastOutput name={model.model} />
    </div>
  );
}

function Process({ model }: { model: Model }) {
  const since = model.phase_s === null ? null : now.value - model.phase_s - stale.value;
  return (
    <dl class="facts">
      {model.description && <Fact name="Description" value={model.description} />}
      <Fact name="Aliases" value={model.aliases.join(", ") || "none"} />
      <Fact name="Phase since" value={orDash(since, clock)} />
      <Fact name="Usual load time" value={orDash(model.load_s, duration)} />
      {model.conversations && <Fact name="Conversations" value={pastInWords(model.conversations)} />}
      <Fact name="PID" value={orDash(model.pid, String)} />
      {model.adopted && <Fact name="Server" value={ADOPTED} />}
      <Fact name="Address" value={model.address ?? "–"} />
      {pagesAreHere && model.label && <Fact name="Web page" value={<WebPage label={model.label} />} />}
    </dl>
  );
}

/** Elsewhere LABEL.localhost would be the reader's own machine, and certificates do not cover it. */
const pagesAreHere =
  location.protocol === "http:" && ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

/** hotseat opens the page for links from here, which it recognises by their referrer. */
function WebPage({ label }: { label: string }) {
  const host = `${label}.localhost`;
  return (
    <>
      <a
        href={`http://${host}${location.port && `:${location.port}`}/`}
        target="_blank"
        rel="noopener"
        referrerpolicy="origin"
      >
        Open its web page
      </a>{" "}
      <span class="muted">{host}</span>
    </>
  );
}

const HISTORY: Column<HistoryEntry>[] = [
  { name: "Time", cell: ({ at }) => clock(at, true) },
  { name: "Event", cell: ({ what, isFailure }) => <span class={isFailure ? "bad" : ""}>{what}</span> },
  { name: "Reason", cell: ({ reason }) => reason, kind: "long" },
  { name: "Duration", cell: ({ seconds }) => orDash(seconds, duration), kind: "number" },
];

function EstimatedMemory({ name }: { name: string }) {
  const { answer, trouble } = useAnswer(() => api.estimate(name), [name]);
  const sums = Object.entries(answer?.needed ?? {}).filter(([, size]) => size > 0);
  return (
    <Section
      title="Estimated memory"
      note={sums.map(([where, size]) => `${bytes(size)} on the ${where}`).join(", ")}
    >
      {trouble && <p class="muted">{trouble}</p>}
      {answer && (
        <Table
          caption={`Estimated memory of ${name}`}
          columns={ESTIMATE}
          rows={answer.lines}
          keyOf={({ what, where, backing }) => `${what} ${where} ${backing}`}
          empty=""
        />
      )}
      {answer?.notes.map((note) => (
        <p key={note} class="muted">
          {note}
        </p>
      ))}
    </Section>
  );
}

const ESTIMATE: Column<EstimateLine>[] = [
  { name: "Part", cell: ({ what }) => what, kind: "long" },
  { name: "Where", cell: ({ where }) => where },
  { name: "Memory", cell: ({ backing }) => (backing === "read once" ? "only to load" : backing) },
  { name: "Size", cell: ({ bytes: size }) => bytes(size), kind: "number" },
];

function outputLine(data: string): string {
  const { at, text } = parsed(0, data);
  return `${clock(at)} ${withoutEscapes(text)}`;
}

function LastOutput({ name }: { name: string }) {
  const { answer, trouble } = useAnswer(() => api.log(name, LOG_LINES), [name], LOG_EVERY_MS);
  return (
    <Section title="Last output" note={<a href={linkTo("logs", { model: name })}>View full log</a>}>
      {trouble && <p class="muted">{trouble}</p>}
      {answer === "" && <p class="muted">No output yet.</p>}
      {answer && (
        <Scroller class="output" label={`Output of ${name}`}>
          <pre>{answer.trimEnd().split("\n").map(outputLine).join("\n")}</pre>
        </Scroller>
      )}
    </Section>
  );
}
