// Models on hosts, and the dialog that moves one to another host.

import { useSignal } from "@preact/signals";
import { api } from "../data/api";
import { Action } from "../parts/actions";
import { Dialog } from "../parts/dialog";
import { PhaseChip } from "../parts/phase";
import { type Column, Table } from "../parts/table";
import { bytes } from "../words";
import type { ListedHost } from "./hosts";
import { listedHosts } from "./listed";
import { linkToFleet } from "./query";
import type { Place } from "./search";

/** The models of one host. */
export function ModelsOnHost({ host }: { host: ListedHost }) {
  return (
    <Table
      caption={`Models on ${host.name}`}
      columns={[MODEL, ...COLUMNS]}
      rows={host.residents.map((resident) => ({ host: host.name, resident }))}
      keyOf={({ resident }) => resident.model}
      empty="No models on this host."
    />
  );
}

/** The hosts that have one model. */
export function HostsOfModel({ model, places }: { model: string; places: Place[] }) {
  return (
    <Table
      caption={`Hosts with ${model}`}
      columns={[HOST, ...COLUMNS]}
      rows={places}
      keyOf={({ host }) => host}
      empty=""
    />
  );
}

const MODEL: Column<Place> = {
  name: "Model",
  by: ({ resident }) => resident.model,
  cell: ({ resident }) => resident.model,
};

const HOST: Column<Place> = {
  name: "Host",
  by: ({ host }) => host,
  cell: ({ host }) => <a href={linkToFleet({ words: host, state: null, list: "hosts" })}>{host}</a>,
};

const COLUMNS: Column<Place>[] = [
  {
    name: "Phase",
    by: ({ resident }) => resident.phase,
    cell: ({ resident }) => <PhaseChip phase={resident.phase} />,
  },
  {
    name: "In flight",
    by: ({ resident }) => resident.in_flight,
    cell: ({ resident }) => resident.in_flight,
    kind: "number",
  },
  {
    name: "Waiting",
    by: ({ resident }) => resident.waiting,
    cell: ({ resident }) => resident.waiting,
    kind: "number",
  },
  {
    name: "Move",
    cell: ({ host, resident }) => <Move model={resident.model} from={host} />,
    kind: "action",
  },
];

function Move({ model, from }: { model: string; from: string }) {
  const isAsked = useSignal(false);
  return (
    <>
      <button
        type="button"
        aria-label={`Move ${model} from ${from}`}
        disabled={listedHosts.value.length < 2}
        onClick={() => (isAsked.value = true)}
      >
        Move
      </button>
      {isAsked.value && <MoveDialog model={model} from={from} close={() => (isAsked.value = false)} />}
    </>
  );
}

/** Asks for the target host. The API rejects a host that cannot run the model, and gives the reason. */
function MoveDialog({ model, from, close }: { model: string; from: string; close: () => void }) {
  const others = listedHosts.value.filter(({ name, present }) => present && name !== from);
  const chosen = useSignal(others.find(takesModels)?.name ?? "");
  const move = () => {
    close();
    return api.move(model, chosen.value);
  };
  return (
    <Dialog title={`Move ${model} from ${from}?`} close={close}>
      <p>
        The model loads on the new host first. It stops on {from} once the new host is ready, so no request
        waits.
      </p>
      <p>
        <select
          aria-label="New host"
          value={chosen.value}
          onChange={(event) => (chosen.value = event.currentTarget.value)}
        >
          {others.map((host) => (
            <option key={host.name} value={host.name} disabled={!takesModels(host)}>
              {asTarget(host)}
            </option>
          ))}
        </select>
      </p>
      <div class="tools">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <Action label={`Move ${model} to ${chosen.value}`} disabled={chosen.value === ""} act={move}>
          Move
        </Action>
      </div>
    </Dialog>
  );
}

function takesModels({ orders }: ListedHost): boolean {
  return !orders.cordoned && !orders.drained;
}

/** The name first, because a letter on the keyboard chooses an option by its beginning. */
function asTarget(host: ListedHost): string {
  if (!takesModels(host)) return `${host.name}: ${host.states.join(", ")}`;
  const free = [...host.memory].map(([kind, { used, budget }]) => `${kind} ${bytes(budget - used)} free`);
  return free.length ? `${host.name}: ${free.join(", ")}` : host.name;
}
