// The hosts of the fleet: state, memory and models of each, and buttons to cordon, drain and move.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type Order } from "../data/api";
import { fleet, membership, refresh, stale } from "../data/state";
import type { OrderedHost, Fleet, FleetHost, FleetResident } from "../data/types";
import { Action } from "../parts/actions";
import { Dialog } from "../parts/dialog";
import { Card, Page } from "../parts/frame";
import { PhaseChip } from "../parts/phase";
import { type Column, Table } from "../parts/table";
import { bytes, counted, duration } from "../words";

export function FleetPage() {
  useEffect(() => void refresh(), []);
  const seen = fleet.value;
  return (
    <Page title="Fleet" about={about(seen)}>
      {membership.value?.connection === "disconnected" && (
        <p role="status">
          {membership.value.host} is disconnected from the fleet{because(seen)}. It still serves requests, and
          forwards them according to the last known state. Cordon, drain and move are unavailable until it is
          connected again.
        </p>
      )}
      {seen?.hosts.map((host) => (
        <Host key={host.host} host={host} />
      ))}
      {seen?.absent.map((host) => (
        <Absent key={host.host} host={host} />
      ))}
    </Page>
  );
}

function because(seen: Fleet | null): string {
  return seen?.problem ? `: ${seen.problem.replace(/\.$/, "")}` : "";
}

function about(seen: Fleet | null): string {
  if (seen) return `${counted(seen.hosts.length, "host")}, as seen by ${seen.host}.`;
  return membership.value
    ? "Loading…"
    : "This host does not belong to a fleet. Set `fleet` in its configuration to join one.";
}

function Host({ host }: { host: FleetHost }) {
  return (
    <Card title={host.host} note={noteOf(host)} tools={<Orders host={host} />}>
      {host.devices.map(({ device, budget, free }) => (
        <MemoryBar key={device} host={host} device={device} budget={budget} free={free} />
      ))}
      <Table
        caption={`Models on ${host.host}`}
        columns={columnsFor(host)}
        rows={host.residents}
        keyOf={({ model }) => model}
        empty="No models on this host."
      />
    </Card>
  );
}

/** A host that is offline: its cordon and drain still apply when it returns, and can be undone here. */
function Absent({ host }: { host: OrderedHost }) {
  return (
    <Card title={host.host} note={<>offline {tagsOf(host)}</>} tools={<Orders host={host} />}>
      <p class="empty">These settings apply when the host comes back.</p>
    </Card>
  );
}

function tagsOf({ cordoned, drained }: OrderedHost) {
  return (
    <>
      {cordoned && <span class="tag">cordoned</span>} {drained && <span class="tag">drained</span>}
    </>
  );
}

function noteOf(host: FleetHost) {
  const labels = Object.entries(host.labels).map(([label, value]) => `${label}=${value}`);
  const config = `configuration ${host.config_digest}`;
  const said = [stateOf(host), host.address, host.version, config, ...labels].filter(Boolean);
  return (
    <>
      {said.join(" · ")} {tagsOf(host)} {deviates(host) && <DeviatesTag />}
    </>
  );
}

function DeviatesTag() {
  return (
    <span class="tag" title="Its models are not defined as on most hosts, or it has another secret.">
      other configuration
    </span>
  );
}

/** Whether fewer than half of the hosts, or just half, have the configuration of this one. */
function deviates({ config_digest }: FleetHost): boolean {
  const hosts = fleet.value?.hosts ?? [];
  const alike = hosts.filter((host) => host.config_digest === config_digest);
  return alike.length < hosts.length && alike.length * 2 <= hosts.length;
}

const STATES = { unreachable: "refuses connections, avoided for now", leaving: "leaving" };

function stateOf({ state, last_seen_s }: FleetHost): string {
  if (state === "this_host") return "this host";
  const lastSeen = `last seen ${duration(last_seen_s + stale.value)} ago`;
  return state === "reachable" ? lastSeen : `${STATES[state]}, ${lastSeen}`;
}

function Orders({ host }: { host: OrderedHost }) {
  return (
    <>
      <OrderButton host={host.host} order="cordon" isGiven={host.cordoned} />
      <OrderButton host={host.host} order="drain" isGiven={host.drained} />
    </>
  );
}

const VERBS: Record<Order, { give: string; takeBack: string }> = {
  cordon: { give: "Cordon", takeBack: "Uncordon" },
  drain: { give: "Drain", takeBack: "Undrain" },
};

function OrderButton({ host, order, isGiven }: { host: string; order: Order; isGiven: boolean }) {
  const verb = isGiven ? VERBS[order].takeBack : VERBS[order].give;
  return (
    <Action
      label={`${verb} ${host}`}
      act={() => (isGiven ? api.takeBack(host, order) : api.give(host, order))}
    >
      {verb}
    </Action>
  );
}

interface MemoryBarProps {
  host: FleetHost;
  device: string;
  budget: number;
  free: number;
}

function MemoryBar({ host, device, budget, free }: MemoryBarProps) {
  const shares = host.residents
    .map(({ model, phase, memory }) => ({ model, phase, size: memory[device] ?? 0 }))
    .filter(({ size }) => size > 0);
  const parts = [...shares.map(({ model, size }) => `${model} ${bytes(size)}`), `free ${bytes(free)}`];
  return (
    <div class="memory-bar" role="img" aria-label={`${device} on ${host.host}: ${parts.join(", ")}`}>
      {shares.map(({ model, phase, size }) => (
        <div
          key={model}
          title={model}
          class={`share ${phase}`}
          style={{ width: `${(size / Math.max(budget, 1)) * 100}%` }}
        >
          <strong>{model}</strong>
          <span>{bytes(size)}</span>
        </div>
      ))}
      <div class="free">
        {device}: {bytes(free)} of {bytes(budget)} free
      </div>
    </div>
  );
}

function columnsFor(host: FleetHost): Column<FleetResident>[] {
  return [
    { name: "Model", by: ({ model }) => model, cell: ({ model }) => model },
    { name: "Phase", by: ({ phase }) => phase, cell: ({ phase }) => <PhaseChip phase={phase} /> },
    {
      name: "In flight",
      by: ({ in_flight }) => in_flight,
      cell: ({ in_flight }) => in_flight,
      kind: "number",
    },
    { name: "Waiting", by: ({ waiting }) => waiting, cell: ({ waiting }) => waiting, kind: "number" },
    { name: "Move", cell: ({ model }) => <Move model={model} from={host.host} />, kind: "action" },
  ];
}

/** Asks for the target host. The API rejects a host that cannot run the model, and gives the reason. */
function Move({ model, from }: { model: string; from: string }) {
  const isAsked = useSignal(false);
  const others = (fleet.value?.hosts ?? []).filter(({ host }) => host !== from);
  const move = (to: string) => {
    isAsked.value = false;
    return api.move(model, to);
  };
  return (
    <>
      <button
        type="button"
        aria-label={`Move ${model} from ${from}`}
        disabled={others.length === 0}
        onClick={() => (isAsked.value = true)}
      >
        Move
      </button>
      {isAsked.value && (
        <Dialog title={`Move ${model} from ${from}?`} close={() => (isAsked.value = false)}>
          <p>
            The model loads on the new host first. It stops on {from} once the new host is ready, so no
            request waits.
          </p>
          <div class="tools">
            <button type="button" onClick={() => (isAsked.value = false)}>
              Cancel
            </button>
            {others.map(({ host }) => (
              <Action key={host} label={`Move ${model} to ${host}`} act={() => move(host)}>
                Move to {host}
              </Action>
            ))}
          </div>
        </Dialog>
      )}
    </>
  );
}
