// The hosts of the fleet, prepared once for each answer of the API.

import { computed } from "@preact/signals";
import { fleet } from "../data/state";
import { type Configurations, configurationsOf, listed, type ListedHost } from "./hosts";

export const listedHosts = computed<ListedHost[]>(() => (fleet.value ? listed(fleet.value) : []));
export const configurations = computed<Configurations>(() =>
  fleet.value ? configurationsOf(fleet.value) : new Map(),
);
