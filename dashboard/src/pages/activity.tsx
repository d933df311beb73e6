// Requests in progress and finished requests, with their timings.

import { computed, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { CurrentReason, FinishedReason } from "../activity/reasons";
import { api } from "../data/api";
import { finished, now, stale, inProgress } from "../data/state";
import { type Curve, loadCurve, median, quantile } from "../data/load";
import type { Finished, RequestInProgress } from "../data/types";
import { Action } from "../parts/actions";
import { Card, Figure, Page } from "../parts/frame";
import { Plot } from "../parts/plot";
import { type Column, Table } from "../parts/table";
import { clock, duration, orDash, rate } from "../words";

const SPAN_S = 300;
const LAST_S = 60;
const ROWS_OF_CURVE = 10;

const lately = computed(() => finished.value.filter(({ at }) => at > now.value - SPAN_S));

export function ActivityPage() {
  return (
    <Page
      title="Activity"
      about="Requests in progress, and the last 1,000 finished requests. Open one to see why it took its time."
    >
      <Figures />
      <div class="two">
        <LoadCard />
        <FirstByteCard />
      </div>
      <Card title="In progress">
        <Table
          caption="Requests in progress"
          columns={IN_PROGRESS}
          rows={inProgress.value}
          keyOf={({ ticket }) => ticket}
          empty="No requests in progress."
          details={(request) => <CurrentReason request={request} />}
        />
      </Card>
      <Recent />
    </Page>
  );
}

function Figures() {
  const lastMinute = finished.value.filter(({ at }) => at > now.value - LAST_S);
  const firstBytes = lately.value.map(({ first_byte_s }) => first_byte_s).filter((each) => each !== null);
  const rates = lately.value.map(({ tokens_per_s }) => tokens_per_s).filter((each) => each !== null);
  const failed = lately.value.filter(isFailed).length;
  const waiting = inProgress.value.filter(({ state }) => state === "waiting").length;
  return (
    <dl class="figures">
      <Figure name="In flight" value={String(inProgress.value.length - waiting)} />
      <Figure name="Waiting" value={String(waiting)} />
      <Figure name="Finished" value={String(lastMinute.length)} note="last minute" />
      <Figure
        name="First byte"
        value={orDash(median(firstBytes), duration)}
        note={`median; p95 ${orDash(quantile(firstBytes, 0.95), duration)}`}
      />
      <Figure name="Tokens/s" value={orDash(median(rates), rate)} note="median, last 5 min" />
      <Figure name="Failed" value={String(failed)} note="last 5 min" />
    </dl>
  );
}

function LoadCard() {
  const to = now.value;
  const from = to - SPAN_S;
  const curve = useMemo(() => loadCurve(lately.value, inProgress.value, from, to), [to]);
  const data = useMemo(
    (): [number[], number[], number[]] => [curve.at, curve.served, curve.waiting],
    [curve],
  );
  return (
    <Card title="Concurrent requests" note={<Legend entries={{ served: "--ready", waiting: "--loading" }} />}>
      <Plot
        label="Chart of served and waiting requests in the last 5 minutes. A table follows."
        series={[
          { name: "served", colour: "--ready", look: "steps" },
          { name: "waiting", colour: "--loading", look: "steps" },
        ]}
        data={data}
        unit="count"
        from={from}
        to={to}
      />
      <details>
        <summary>Show as table</summary>
        <CurveTable curve={curve} />
      </details>
    </Card>
  );
}

function CurveTable({ curve }: { curve: Curve }) {
  const rows = curve.at.map((at, n) => ({
    at,
    served: curve.served[n] ?? 0,
    waiting: curve.waiting[n] ?? 0,
  }));
  const columns: Column<(typeof rows)[number]>[] = [
    { name: "Time", cell: ({ at }) => clock(at, true) },
    { name: "Served", cell: ({ served }) => served, kind: "number" },
    { name: "Waiting", cell: ({ waiting }) => waiting, kind: "number" },
  ];
  return (
    <Table
      caption="Concurrent requests, latest changes"
      columns={columns}
      rows={rows.slice(-ROWS_OF_CURVE).toReversed()}
      keyOf={({ at }) => at}
      empty=""
    />
  );
}

function FirstByteCard() {
  const to = now.value;
  const data = useMemo((): [number[], (number | null)[]] => {
    const answered = lately.value.filter(({ first_byte_s }) => first_byte_s !== null);
    return [
      answered.map(({ at }) => at),
      answered.map(({ first_byte_s }) => Math.max(0.001, first_byte_s ?? 0)),
    ];
  }, [lately.value]);
  return (
    <Card title="Time to first byte" note="includes queueing and loading">
      <Plot
        label="Chart of the time to first byte of each request in the last 5 minutes. The table of recent requests shows the same data."
        series={[{ name: "first byte", colour: "--draining", look: "points" }]}
        data={data}
        unit="seconds"
        from={to - SPAN_S}
        to={to}
      />
      <p>The table of recent requests shows the same data.</p>
    </Card>
  );
}

function Legend({ entries }: { entries: Record<string, string> }) {
  return (
    <span class="legend">
      {Object.entries(entries).map(([name, colour]) => (
        <span key={name}>
          <i style={{ background: `var(${colour})` }} aria-hidden="true" />
          {name}
        </span>
      ))}
    </span>
  );
}

function Recent() {
  const wanted = useSignal("");
  const rows = useMemo(
    () =>
      finished.value
        .filter(({ model, path, client, id }) => `${model} ${path} ${client} ${id}`.includes(wanted.value))
        .toReversed(),
    [finished.value, wanted.value],
  );
  return (
    <Card
      title="Recent"
      note="newest first"
      tools={
        <input
          type="search"
          placeholder="Model, path, client or ID"
          aria-label="Search requests by model, path, client or ID"
          onInput={(event) => (wanted.value = event.currentTarget.value)}
        />
      }
    >
      <Table
        caption="Recent requests"
        columns={RECENT}
        rows={rows}
        keyOf={({ n }) => n}
        empty="No finished requests yet."
        details={(request) => <FinishedReason request={request} />}
      />
    </Card>
  );
}

function isFailed({ status }: Finished): boolean {
  return status >= 400 || status === 0;
}

const STATES = { waiting: "waiting", sent: "processing", answering: "answering" };

const IN_PROGRESS: Column<RequestInProgress>[] = [
  { name: "Ticket", by: ({ ticket }) => ticket, cell: ({ ticket }) => ticket, kind: "number" },
  {
    name: "Model",
    by: ({ model }) => model,
    cell: ({ model, host }) => (host ? `${model} on ${host}` : model),
  },
  { name: "Request", by: ({ path }) => path, cell: ({ method, path }) => `${method} ${path}`, isMinor: true },
  { name: "Client", by: ({ client }) => client, cell: ({ client }) => client, isMinor: true },
  { name: "State", by: ({ state }) => state, cell: ({ state }) => STATES[state] },
  {
    name: "Waited",
    by: ({ waited_s }) => waited_s,
    cell: ({ waited_s }) => duration(waited_s),
    kind: "number",
  },
  {
    name: "Elapsed",
    by: ({ seconds }) => seconds,
    cell: ({ seconds }) => duration(seconds + stale.value),
    kind: "number",
  },
  {
    name: "Cancel",
    cell: ({ ticket }) => (
      <Action label={`Cancel ticket ${ticket}`} act={() => api.cancel(ticket)}>
        Cancel
      </Action>
    ),
    kind: "action",
  },
];

const RECENT: Column<Finished>[] = [
  { name: "Finished", by: ({ at }) => at, cell: ({ at }) => clock(at) },
  { name: "Model", by: ({ model }) => model, cell: ({ model }) => model },
  { name: "Request", by: ({ path }) => path, cell: ({ method, path }) => `${method} ${path}`, isMinor: true },
  { name: "Client", by: ({ client }) => client, cell: ({ client }) => client, isMinor: true },
  {
    name: "Status",
    by: ({ status }) => status,
    cell: (request) => <span class={isFailed(request) ? "bad" : ""}>{statusOf(request)}</span>,
    kind: "number",
  },
  {
    name: "Waited",
    by: ({ waited_s }) => waited_s,
    cell: ({ waited_s }) => duration(waited_s),
    kind: "number",
  },
  {
    name: "First byte",
    by: ({ first_byte_s }) => first_byte_s ?? -1,
    cell: ({ first_byte_s }) => orDash(first_byte_s, duration),
    kind: "number",
  },
  {
    name: "Duration",
    by: ({ seconds }) => seconds,
    cell: ({ seconds }) => duration(seconds),
    kind: "number",
  },
  {
    name: "Tokens",
    by: ({ completion_tokens }) => completion_tokens ?? -1,
    cell: ({ prompt_tokens, completion_tokens }) =>
      `${orDash(prompt_tokens, String)} → ${orDash(completion_tokens, String)}`,
    kind: "number",
  },
  {
    name: "Tokens/s",
    by: ({ tokens_per_s }) => tokens_per_s ?? -1,
    cell: ({ tokens_per_s }) => orDash(tokens_per_s, rate),
    kind: "number",
  },
];

function statusOf({ status }: Finished): string {
  if (status === 499) return "client closed";
  return status === 0 ? "no response" : String(status);
}
