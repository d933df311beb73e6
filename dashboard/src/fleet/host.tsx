// One host: what is known about it, its orders, its memory and its models.

import { api, type Order } from "../data/api";
import { sinceFleet } from "../data/state";
import type { FleetHost, OrderedHost } from "../data/types";
import { Action } from "../parts/actions";
import { bytes, duration } from "../words";
import type { HostState, ListedHost } from "./hosts";
import { configurations } from "./listed";
import { ModelsOnHost } from "./residents";
import { labelsOf } from "./search";

/** Its memory, the files that it lacks and its models; of an offline host, what becomes of its orders. */
export function HostBody({ host }: { host: ListedHost }) {
  const { present } = host;
  if (!present) return <p class="empty">These settings apply when the host comes back.</p>;
  return (
    <>
      <div class="memory-bars">
        {present.devices.map((device) => (
          <MemoryBar key={device.device} host={present} {...device} />
        ))}
      </div>
      <MissingFiles files={present.missing_files} />
      <ModelsOnHost host={host} />
    </>
  );
}

function MissingFiles({ files }: { files: Record<string, string> }) {
  const models = Object.keys(files).sort();
  if (models.length === 0) return null;
  return (
    <ul class="sentences warning">
      {models.map((model) => (
        <li key={model}>
          {model} cannot be loaded here, file missing: {files[model]}
        </li>
      ))}
    </ul>
  );
}

export function HostNote({ host }: { host: ListedHost }) {
  return (
    <>
      {host.present ? aboutHost(host.present) : "offline"} <StateTags states={host.states} />
    </>
  );
}

/** What the text beside it does not say. */
function StateTags({ states }: { states: HostState[] }) {
  const said: HostState[] = ["ready", "offline", "unreachable", "leaving"];
  return states
    .filter((state) => !said.includes(state))
    .map((state) => (
      <span key={state} class="tag">
        {state}
      </span>
    ));
}

function aboutHost(host: FleetHost): string {
  const said = [stateOf(host), host.address, host.version, configurationOf(host), ...labelsOf(host.labels)];
  return said.filter(Boolean).join(" · ");
}

const STATES = { unreachable: "refuses connections, avoided for now", leaving: "leaving" };

function stateOf({ state, last_seen_s }: FleetHost): string {
  if (state === "this_host") return "this host";
  const lastSeen = `last seen ${duration(last_seen_s + sinceFleet.value)} ago`;
  return state === "reachable" ? lastSeen : `${STATES[state]}, ${lastSeen}`;
}

/** With how many hosts share it, if not all do. */
function configurationOf({ config_digest }: FleetHost): string {
  const said = `configuration ${config_digest}`;
  if (configurations.value.size < 2) return said;
  const all = [...configurations.value.values()].reduce((sum, count) => sum + count, 0);
  return `${said} as on ${configurations.value.get(config_digest)} of ${all} hosts`;
}

export function OrderButtons({ host }: { host: OrderedHost }) {
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
