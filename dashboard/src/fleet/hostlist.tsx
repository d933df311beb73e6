// A large fleet as a table: a host opens to what the card of a host shows in a small one.

import type { Phase } from "../data/types";
import { PhaseDot } from "../parts/phase";
import { type Column, Table } from "../parts/table";
import { bytes } from "../words";
import { HostBody, HostNote, OrderButtons } from "./host";
import type { HostState, MemoryUse } from "./hosts";
import { countColumn } from "./lists";
import { type FoundHost, labelsOf } from "./search";

export function HostTable({ hosts, kinds }: { hosts: FoundHost[]; kinds: string[] }) {
  return (
    <div class="card dense">
      <Table
        caption="Hosts"
        columns={hostColumns(kinds)}
        rows={hosts}
        keyOf={({ name }) => name}
        empty="No matching hosts."
        details={(host) => <HostDetails host={host} />}
      />
    </div>
  );
}

function HostDetails({ host }: { host: FoundHost }) {
  return (
    <div class="opened">
      <div class="card-head">
        <span class="muted">
          <HostNote host={host} />
        </span>
        <div class="tools">
          <OrderButtons host={host.orders} />
        </div>
      </div>
      <HostBody host={host} />
    </div>
  );
}

function hostColumns(kinds: string[]): Column<FoundHost>[] {
  return [
    { name: "Host", by: ({ name }) => name, cell: ({ name }) => name },
    { name: "State", by: ({ states }) => states.join(), cell: ({ states }) => <States states={states} /> },
    { name: "Labels", by: labels, cell: (host) => <Labels text={labels(host)} />, isMinor: true },
    countColumn("Ready", (host) => inPhase(host, "ready")),
    { ...countColumn("Loading", (host: FoundHost) => inPhase(host, "loading")), isMinor: true },
    ...kinds.map(memoryColumn),
    countColumn("In flight", ({ present }) => present?.in_flight ?? 0),
    countColumn("Waiting", ({ present }) => present?.waiting ?? 0),
  ];
}

const labels = ({ present }: FoundHost) => labelsOf(present?.labels ?? {}).join(" ");

function Labels({ text }: { text: string }) {
  return (
    <span class="labels" title={text}>
      {text}
    </span>
  );
}

const inPhase = ({ residents }: FoundHost, phase: Phase) =>
  residents.filter((resident) => resident.phase === phase).length;

function memoryColumn(kind: string): Column<FoundHost> {
  return {
    name: `${kind} memory`,
    by: ({ memory }) => share(memory.get(kind)),
    cell: ({ memory }) => <Gauge use={memory.get(kind)} />,
    kind: "number",
  };
}

function share(use: MemoryUse | undefined): number {
  return use && use.budget > 0 ? use.used / use.budget : 0;
}

function Gauge({ use }: { use: MemoryUse | undefined }) {
  if (!use) return "–";
  const percent = `${Math.round(share(use) * 100)}%`;
  return (
    <span
      class="gauge"
      style={{ "--share": percent }}
      title={`${bytes(use.used)} of ${bytes(use.budget)} used`}
    >
      {percent}
    </span>
  );
}

/** Colours as for a phase that is similar. */
const LOOKS: Partial<Record<HostState, Phase>> = {
  ready: "ready",
  cordoned: "loading",
  drained: "draining",
  leaving: "unloading",
  unreachable: "backoff",
  offline: "cold",
};

function States({ states }: { states: HostState[] }) {
  return states.map((state) => <State key={state} state={state} look={LOOKS[state]} />);
}

function State({ state, look }: { state: HostState; look: Phase | undefined }) {
  if (!look) return <span class="tag">{state.replace("configuration", "config")}</span>;
  return (
    <span class="phase">
      <PhaseDot phase={look} />
      {state}
    </span>
  );
}
