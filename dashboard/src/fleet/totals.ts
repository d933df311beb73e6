// PURE: the figures of the whole fleet.

import { addUse, HOST_STATES, type HostState, type ListedHost, type MemoryByKind } from "./hosts";

export interface Totals {
  hosts: number;
  states: Map<HostState, number>;
  /** Counted on each host that has them. */
  ready: number;
  loading: number;
  memory: MemoryByKind;
  inFlight: number;
  waiting: number;
}

export function totalsOf(hosts: ListedHost[]): Totals {
  const residents = hosts.flatMap((host) => host.residents);
  const inPhase = (phase: string) => residents.filter((resident) => resident.phase === phase).length;
  return {
    hosts: hosts.length,
    states: stateCounts(hosts),
    ready: inPhase("ready"),
    loading: inPhase("loading"),
    memory: memorySum(hosts),
    inFlight: residents.reduce((sum, { in_flight }) => sum + in_flight, 0),
    waiting: residents.reduce((sum, { waiting }) => sum + waiting, 0),
  };
}

function stateCounts(hosts: ListedHost[]): Map<HostState, number> {
  return new Map(
    HOST_STATES.map((state) => [state, hosts.filter(({ states }) => states.includes(state)).length]),
  );
}

function memorySum(hosts: ListedHost[]): MemoryByKind {
  const sums: MemoryByKind = new Map();
  for (const { memory } of hosts) for (const [kind, use] of memory) addUse(sums, kind, use);
  return sums;
}
