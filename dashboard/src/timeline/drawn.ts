// The lanes of all models, from the journal and the observed phases.

import { computed } from "@preact/signals";
import { journal, observations } from "../data/state";
import { lanes } from "./lanes";

export const drawn = computed(() => lanes(journal.value, observations.value));
