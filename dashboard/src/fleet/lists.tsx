// The choice between a list of hosts and a list of models, and the latter.

import { type Column, Table } from "../parts/table";
import { counted } from "../words";
import { type FleetView, linkToFleet, view } from "./query";
import { HostsOfModel } from "./residents";
import type { FoundModel } from "./search";

export function ListChoice({ hosts, models }: { hosts: number; models: number }) {
  return (
    <div class="choice" role="group" aria-label="List">
      <ListLink list="hosts" text={counted(hosts, "host")} />
      <ListLink list="models" text={counted(models, "model")} />
    </div>
  );
}

function ListLink({ list, text }: { list: FleetView["list"]; text: string }) {
  return (
    <a
      href={linkToFleet({ ...view.value, list })}
      aria-current={view.value.list === list ? "true" : undefined}
    >
      {text}
    </a>
  );
}

export function ModelTable({ models }: { models: FoundModel[] }) {
  return (
    <div class="card dense">
      <Table
        caption="Models"
        columns={MODEL_COLUMNS}
        rows={models}
        keyOf={({ model }) => model}
        empty="No matching models."
        details={({ model, places }) => (
          <div class="opened">
            <HostsOfModel model={model} places={places} />
          </div>
        )}
      />
    </div>
  );
}

const MODEL_COLUMNS: Column<FoundModel>[] = [
  { name: "Model", by: ({ model }) => model, cell: ({ model }) => model },
  countColumn("Hosts", ({ places }) => places.length),
  countColumn("Ready", ({ places }) => places.filter(({ resident }) => resident.phase === "ready").length),
  countColumn(
    "Loading",
    ({ places }) => places.filter(({ resident }) => resident.phase === "loading").length,
  ),
  countColumn("In flight", ({ places }) => places.reduce((sum, { resident }) => sum + resident.in_flight, 0)),
  countColumn("Waiting", ({ places }) => places.reduce((sum, { resident }) => sum + resident.waiting, 0)),
];

export function countColumn<Row>(name: string, count: (row: Row) => number): Column<Row> {
  return { name, by: count, cell: count, kind: "number" };
}
