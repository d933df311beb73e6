// What is asked and how quickly it is answered.

import { computed, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { house } from "../house/api";
import { finished, now, stale, underWay } from "../house/live";
import { type Curve, loadCurve, median, quantile } from "../house/load";
import type { Finished, UnderWay } from "../house/shapes";
import { Action } from "../parts/actions";
import { Card, Figure, Page } from "../parts/frame";
import { Plot } from "../parts/plot";
import { type Column, Table } from "../parts/table";
import { clock, duration, orDash } from "../words";

const SPAN_S = 300;
const LAST_S = 60;
const ROWS_OF_CURVE = 10;

const lately = computed(() => finished.value.filter(({ at }) => at > now.value - SPAN_S));

export function ActivityPage() {
  return (
    <Page title="Activity" about="Requests under way, and the last thousand that ended.">
      <Figures />
      <div class="two">
        <LoadCard />
        <FirstByteCard />
      </div>
      <Card title="Under way">
        <Table
          caption="Requests under way"
          columns={UNDER_WAY}
          rows={underWay.value}
          keyOf={({ ticket }) => ticket}
          empty="Nothing is under way."
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
  const waiting = underWay.value.filter(({ state }) => state === "waiting").length;
  return (
    <dl class="figures">
      <Figure name="in flight" value={String(underWay.value.length - waiting)} />
      <Figure name="waiting" value={String(waiting)} />
      <Figure name="ended" value={String(lastMinute.length)} note="in the last minute" />
      <Figure
        name="first byte"
        value={orDash(median(firstBytes), duration)}
        note={`median; 95 %: ${orDash(quantile(firstBytes, 0.95), duration)}`}
      />
      <Figure name="tokens/s" value={orDash(median(rates), rate)} note="median of 5 min" />
      <Figure name="failed" value={String(failed)} note="in 5 min" />
    </dl>
  );
}

function LoadCard() {
  const to = now.value;
  const from = to - SPAN_S;
  const curve = useMemo(() => loadCurve(lately.value, underWay.value, from, to), [to]);
  const data = useMemo(
    (): [number[], number[], number[]] => [curve.at, curve.served, curve.waiting],
    [curve],
  );
  return (
    <Card title="Requests at a time" note={<Legend entries={{ served: "--ready", waiting: "--loading" }} />}>
      <Plot
        label="Requests served and waiting over the last five minutes; a table follows."
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
        <summary>As a table</summary>
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
    { name: "from", cell: ({ at }) => clock(at, true) },
    { name: "served", cell: ({ served }) => served, kind: "number" },
    { name: "waiting", cell: ({ waiting }) => waiting, kind: "number" },
  ];
  return (
    <Table
      caption="Requests at the same time, latest changes"
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
    <Card title="Time to first byte" note="loads and waiting included">
      <Plot
        label="Time to first byte of each request of the last five minutes; the table of recent requests says the same."
        series={[{ name: "first byte", colour: "--draining", look: "points" }]}
        data={data}
        unit="seconds"
        from={to - SPAN_S}
        to={to}
      />
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
          placeholder="Model, path, client or id"
          aria-label="Find requests by model, path, client or id"
          onInput={(event) => (wanted.value = event.currentTarget.value)}
        />
      }
    >
      <Table
        caption="Recent requests"
        columns={RECENT}
        rows={rows}
        keyOf={({ n }) => n}
        empty="No request has ended yet."
      />
    </Card>
  );
}

function isFailed({ status }: Finished): boolean {
  return status >= 400 || status === 0;
}

const UNDER_WAY: Column<UnderWay>[] = [
  { name: "ticket", by: ({ ticket }) => ticket, cell: ({ ticket }) => ticket, kind: "number" },
  { name: "model", by: ({ model }) => model, cell: ({ model }) => model },
  { name: "request", by: ({ path }) => path, cell: ({ method, path }) => `${method} ${path}` },
  { name: "client", by: ({ client }) => client, cell: ({ client }) => client },
  { name: "state", by: ({ state }) => state, cell: ({ state }) => state },
  {
    name: "waited",
    by: ({ waited_s }) => waited_s,
    cell: ({ waited_s }) => duration(waited_s),
    kind: "number",
  },
  { name: "first byte", cell: ({ first_byte_s }) => orDash(first_byte_s, duration), kind: "number" },
  {
    name: "so far",
    by: ({ seconds }) => seconds,
    cell: ({ seconds }) => duration(seconds + stale.value),
    kind: "number",
  },
  {
    name: "cancel",
    cell: ({ ticket }) => (
      <Action label={`Cancel ticket ${ticket}`} act={() => house.dismiss(ticket)}>
        Cancel
      </Action>
    ),
    kind: "action",
  },
];

const RECENT: Column<Finished>[] = [
  { name: "ended", by: ({ at }) => at, cell: ({ at }) => clock(at) },
  { name: "model", by: ({ model }) => model, cell: ({ model }) => model },
  { name: "request", by: ({ path }) => path, cell: ({ method, path }) => `${method} ${path}` },
  { name: "client", by: ({ client }) => client, cell: ({ client }) => client },
  {
    name: "status",
    by: ({ status }) => status,
    cell: (request) => <span class={isFailed(request) ? "bad" : ""}>{statusOf(request)}</span>,
    kind: "number",
  },
  {
    name: "waited",
    by: ({ waited_s }) => waited_s,
    cell: ({ waited_s }) => duration(waited_s),
    kind: "number",
  },
  {
    name: "first byte",
    by: ({ first_byte_s }) => first_byte_s ?? -1,
    cell: ({ first_byte_s }) => orDash(first_byte_s, duration),
    kind: "number",
  },
  { name: "took", by: ({ seconds }) => seconds, cell: ({ seconds }) => duration(seconds), kind: "number" },
  {
    name: "tokens",
    by: ({ completion_tokens }) => completion_tokens ?? -1,
    cell: ({ prompt_tokens, completion_tokens }) =>
      `${orDash(prompt_tokens, String)} → ${orDash(completion_tokens, String)}`,
    kind: "number",
  },
  {
    name: "tokens/s",
    by: ({ tokens_per_s }) => tokens_per_s ?? -1,
    cell: ({ tokens_per_s }) => orDash(tokens_per_s, rate),
    kind: "number",
  },
  { name: "id", cell: ({ id }) => id },
];

function rate(perSecond: number): string {
  return perSecond.toFixed(perSecond < 10 ? 1 : 0);
}

function statusOf({ status }: Finished): string {
  if (status === 499) return "hung up";
  return status === 0 ? "no answer" : String(status);
}
