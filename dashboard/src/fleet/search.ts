// PURE: finds hosts and models by words: names, labels, states, phases.

import type { FleetResident } from "../data/types";
import type { HostState, ListedHost } from "./hosts";

export interface Query {
  words: string;
  /** null: any. */
  state: HostState | null;
}

/** A host that was found, and those of its models that were. */
export interface FoundHost extends ListedHost {
  found: FleetResident[];
}

/** A model on all found hosts that have it. */
export interface FoundModel {
  model: string;
  places: Place[];
}

export interface Place {
  host: string;
  resident: FleetResident;
}

export function search(hosts: ListedHost[], { words, state }: Query): FoundHost[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return hosts
    .filter(({ states }) => state === null || states.includes(state))
    .map((host) => foundIn(host, wanted))
    .filter((host) => host !== null);
}

/** Words that are not about the host must all be about one of its models: `h100 qwen loading`. */
function foundIn(host: ListedHost, wanted: string[]): FoundHost | null {
  const about = textOf(host);
  const left = wanted.filter((word) => !about.includes(word));
  const found = host.residents.filter((resident) => isAbout(resident, left));
  return left.length === 0 || found.length > 0 ? { ...host, found } : null;
}

function isAbout({ model, phase }: FleetResident, words: string[]): boolean {
  const about = `${model}\n${phase}`.toLowerCase();
  return words.every((word) => about.includes(word));
}

/** Lines, so that no word is found across two of them. */
function textOf({ name, states, present }: ListedHost): string {
  if (present === null) return [name, ...states].join("\n").toLowerCase();
  const { address, version, config_digest, labels, state } = present;
  const own = state === "this_host" ? "this host" : "";
  return [name, ...states, own, address, version, config_digest, ...labelsOf(labels)]
    .join("\n")
    .toLowerCase();
}

export function labelsOf(labels: Record<string, string>): string[] {
  return Object.entries(labels).map(([label, value]) => `${label}=${value}`);
}

/** The found models by name, each with its hosts. */
export function modelsOf(hosts: FoundHost[]): FoundModel[] {
  const places = new Map<string, Place[]>();
  for (const { name, found } of hosts) {
    for (const resident of found) {
      const known = places.get(resident.model);
      if (known) known.push({ host: name, resident });
      else places.set(resident.model, [{ host: name, resident }]);
    }
  }
  return [...places]
    .map(([model, places]) => ({ model, places }))
    .sort((one, other) => one.model.localeCompare(other.model));
}
