// When each model ran, and why that changed.

import { useSignal } from "@preact/signals";
import { finished, journal, models, now, inProgress } from "../data/state";
import { download } from "../parts/actions";
import { Card, Page } from "../parts/frame";
import type { Phase } from "../data/types";
import { PhaseChip } from "../parts/phase";
import { type Column, Table } from "../parts/table";
import { Chart } from "../timeline/chart";
import { drawn } from "../timeline/drawn";
import { type ReportedSwap, type Segment, swapReports } from "../timeline/lanes";
import { chromeTrace } from "../timeline/trace";
import { moved, type Stretch, zoomed } from "../timeline/window";
import { clock, counted, duration, firstLine, orDash } from "../words";

const LENGTHS: [name: string, seconds: number][] = [
  ["1 min", 60],
  ["5 min", 300],
  ["30 min", 1800],
  ["3 h", 10_800],
];
const AHEAD = 0.03;

export function TimelinePage() {
  const length = useSignal(300);
  const held = useSignal<Stretch | null>(null);
  const { segments, swaps } = drawn.value;
  const present = now.value;
  const seen = held.value ?? ending(present, length.value);
  const look = (stretch: Stretch) => {
    length.value = stretch.to - stretch.from;
    const isNow = stretch.to >= present && stretch.from <= present;
    held.value = isNow ? null : stretch;
  };
  const follow = (seconds: number) => {
    length.value = seconds;
    held.value = null;
  };
  const names = (models.value ?? []).map(({ model }) => model);
  return (
    <Page
      title="Timeline"
      about={`When each model ran, and why that changed: ${counted(changes(segments).length, "change")}, ${counted(swaps.length, "swap")}.`}
      tools={<ExportButton />}
    >
      <Card
        title="Model phases"
        note={held.value ? `${clock(seen.from)} to ${clock(seen.to)}` : "following live"}
        tools={
          <>
            <fieldset class="choice">
              <legend class="unseen">Time range</legend>
              {LENGTHS.map(([name, seconds]) => (
                <button
                  key={name}
                  type="button"
                  aria-pressed={held.value === null && length.value === seconds}
                  onClick={() => follow(seconds)}
                >
                  {name}
                </button>
              ))}
            </fieldset>
            <fieldset class="choice">
              <legend class="unseen">Zoom and pan</legend>
              <button type="button" aria-label="Earlier" onClick={() => look(moved(seen, -0.5))}>
                ←
              </button>
              <button type="button" aria-label="Later" onClick={() => look(moved(seen, 0.5))}>
                →
              </button>
              <button type="button" aria-label="Zoom in" onClick={() => look(zoomed(seen, 0.5, 0.5))}>
                +
              </button>
              <button type="button" aria-label="Zoom out" onClick={() => look(zoomed(seen, 2, 0.5))}>
                −
              </button>
            </fieldset>
          </>
        }
      >
        <Chart
          names={names}
          lanes={drawn.value}
          finished={finished.value}
          inProgress={inProgress.value}
          seen={seen}
          now={present}
          look={look}
          follow={() => follow(length.value)}
        />
        <Legend />
      </Card>
      <Card title="Swaps" note="cause and duration of each swap, newest first">
        <Table
          caption="Swaps"
          columns={SWAP_COLUMNS}
          rows={swapReports(journal.value).toReversed()}
          keyOf={({ n, model }) => `${n} ${model}`}
          empty="No swaps yet."
        />
      </Card>
      <Card title="Changes" note="the same data as a table, newest first">
        <Table
          caption="Changes"
          columns={COLUMNS}
          rows={changes(segments).toReversed()}
          keyOf={(segment) => `${segment.model} ${segment.phase} ${segment.from}`}
          empty="No model has been started or stopped yet."
        />
      </Card>
    </Page>
  );
}

const DRAWN: Phase[] = ["loading", "ready", "draining", "unloading", "asleep", "backoff"];

function Legend() {
  return (
    <ul class="legend" aria-label="Legend">
      {DRAWN.map((phase) => (
        <li key={phase}>
          <PhaseChip phase={phase} />
        </li>
      ))}
      <li class="muted">Thin line: a request waits. Bar: it is served. Red: it failed.</li>
    </ul>
  );
}

function ending(at: number, length: number): Stretch {
  return { from: at - length * (1 - AHEAD), to: at + length * AHEAD };
}

function changes(segments: readonly Segment[]): Segment[] {
  return segments.filter(({ phase, reason }) => phase !== "ready" && reason);
}

const COLUMNS: Column<Segment>[] = [
  { name: "Time", by: ({ from }) => from, cell: ({ from }) => clock(from, true) },
  { name: "Model", by: ({ model }) => model, cell: ({ model }) => model },
  { name: "Phase", by: ({ phase }) => phase, cell: ({ phase }) => <PhaseChip phase={phase} /> },
  {
    name: "Cause",
    by: ({ cause }) => cause,
    cell: ({ cause, phase }) => cause || (phase === "loading" ? "request" : "–"),
    isMinor: true,
  },
  { name: "Reason", cell: reason, kind: "long" },
  { name: "Duration", by: took, cell: (segment) => duration(took(segment)), kind: "number" },
];

const SWAP_COLUMNS: Column<ReportedSwap>[] = [
  { name: "Time", by: ({ at }) => at, cell: ({ at }) => clock(at, true) },
  { name: "Loaded", by: ({ model }) => model, cell: ({ model }) => model },
  { name: "Client", by: ({ client }) => client ?? "", cell: ({ client }) => client ?? "–", isMinor: true },
  { name: "Evicted", cell: ({ evicted }) => evicted.map(wentBy).join("; ") || "–", kind: "long" },
  {
    name: "Waited",
    by: ({ waited_s }) => waited_s,
    cell: ({ waited_s }) => duration(waited_s),
    kind: "number",
  },
  {
    name: "Predicted",
    by: ({ predicted_s }) => predicted_s ?? Number.MAX_VALUE,
    cell: ({ predicted_s }) => orDash(predicted_s, duration),
    kind: "number",
  },
  {
    name: "Duration",
    by: ({ measured_s }) => measured_s,
    cell: ({ measured_s }) => duration(measured_s),
    kind: "number",
  },
];

function wentBy({ model, age_s, served }: ReportedSwap["evicted"][number]): string {
  return `${model} (ready for ${duration(age_s)}, served ${counted(served, "request")})`;
}

function reason({ reason, conversations, outcome, said }: Segment) {
  return [reason, conversations, outcome && `${outcome}: ${firstLine(said).cause}`]
    .filter(Boolean)
    .join("; ");
}

function took({ from, to }: Segment): number {
  return (to ?? now.value) - from;
}

function ExportButton() {
  const save = () => {
    const trace = chromeTrace(drawn.value.segments, finished.value, now.value);
    download("hotseat-trace.json", "application/json", trace);
  };
  return (
    <button type="button" title="Opens in Perfetto or chrome://tracing" onClick={save}>
      Export trace
    </button>
  );
}
