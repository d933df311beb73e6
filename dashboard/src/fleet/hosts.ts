// PURE: the hosts of the fleet as the page lists them, present and offline ones alike.

import type { Fleet, FleetHost, FleetResident, OrderedHost } from "../data/types";

/** In the order in which the page lists them; a host may have several. */
export const HOST_STATES = [
  "ready",
  "cordoned",
  "drained",
  "leaving",
  "unreachable",
  "offline",
  "file missing",
  "other configuration",
] as const;
export type HostState = (typeof HOST_STATES)[number];

export interface MemoryUse {
  used: number;
  budget: number;
}

/** By kind of device: those of `gpu0` and `gpu1` are added up as `gpu`. */
export type MemoryByKind = Map<string, MemoryUse>;

export interface ListedHost {
  name: string;
  states: HostState[];
  /** null: it is offline, and only its orders are known. */
  present: FleetHost | null;
  orders: OrderedHost;
  residents: FleetResident[];
  memory: MemoryByKind;
}

export function listed(fleet: Fleet): ListedHost[] {
  const others = otherConfigurations(fleet);
  const present = fleet.hosts.map((host) => ({
    name: host.host,
    states: statesOf(host, others.has(host.config_digest)),
    present: host,
    orders: host,
    residents: host.residents,
    memory: memoryOf(host),
  }));
  return [...present, ...fleet.absent.map(listedAbsent)];
}

function listedAbsent(orders: OrderedHost): ListedHost {
  const states: HostState[] = [...ordersOf(orders), "offline"];
  return { name: orders.host, states, present: null, orders, residents: [], memory: new Map() };
}

function ordersOf({ cordoned, drained }: OrderedHost): HostState[] {
  return [...(cordoned ? ["cordoned" as const] : []), ...(drained ? ["drained" as const] : [])];
}

/** Ready is a host that gets requests and new models. */
function statesOf(host: FleetHost, isOther: boolean): HostState[] {
  const states = ordersOf(host);
  if (host.state === "unreachable" || host.state === "leaving") states.push(host.state);
  if (states.length === 0) states.push("ready");
  if (Object.keys(host.missing_files).length > 0) states.push("file missing");
  return isOther ? [...states, "other configuration"] : states;
}

/** The number of hosts by the digest of their configuration, the most frequent first. */
export type Configurations = Map<string, number>;

export function configurationsOf({ hosts }: Fleet): Configurations {
  const counts: Configurations = new Map();
  for (const { config_digest } of hosts) counts.set(config_digest, (counts.get(config_digest) ?? 0) + 1);
  return new Map([...counts].sort(([, one], [, other]) => other - one));
}

/** Those of fewer than half of the hosts, or of just half, because nobody knows then which one is right. */
function otherConfigurations(fleet: Fleet): Set<string> {
  const all = fleet.hosts.length;
  const others = [...configurationsOf(fleet)].filter(([, alike]) => alike < all && alike * 2 <= all);
  return new Set(others.map(([digest]) => digest));
}

function memoryOf({ devices }: FleetHost): MemoryByKind {
  const byKind: MemoryByKind = new Map();
  for (const { device, budget, free } of devices)
    addUse(byKind, kindOf(device), { used: budget - free, budget });
  return byKind;
}

export function addUse(byKind: MemoryByKind, kind: string, { used, budget }: MemoryUse): void {
  const sum = byKind.get(kind) ?? { used: 0, budget: 0 };
  byKind.set(kind, { used: sum.used + used, budget: sum.budget + budget });
}

/** `gpu` of `gpu0` and `gpu1.2`; `ram` of `ram`. */
function kindOf(device: string): string {
  return device.replace(/\d.*$/, "") || device;
}
