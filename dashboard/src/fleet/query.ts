// What the fleet page shows, in the URL: a link shows others the same hosts.

import { computed } from "@preact/signals";
import { linkTo, rewrite, route } from "../route";
import { HOST_STATES, type HostState } from "./hosts";
import type { Query } from "./search";

export interface FleetView extends Query {
  list: "hosts" | "models";
}

export const view = computed<FleetView>(() => {
  const { query } = route.value;
  return {
    words: query.get("search") ?? "",
    state: stateCalled(query.get("state")),
    list: query.get("list") === "models" ? "models" : "hosts",
  };
});

function stateCalled(name: string | null): HostState | null {
  return HOST_STATES.find((state) => state === name) ?? null;
}

/** Whether it leaves hosts or models out. */
export function isNarrowed({ words, state }: Query): boolean {
  return words !== "" || state !== null;
}

export function linkToFleet({ words, state, list }: FleetView): string {
  return linkTo("fleet", {
    ...(words && { search: words }),
    ...(state && { state }),
    ...(list === "models" && { list }),
  });
}

/** Without an entry in the history for each letter. */
export function searchFor(words: string): void {
  rewrite(linkToFleet({ ...view.value, words }));
}
