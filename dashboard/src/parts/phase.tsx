// A phase has one colour on all pages, and always a text or an accessible name beside the colour.

import type { Model, Phase } from "../data/types";
import { ADOPTED } from "../words";

export type ShownPhase = Phase | "failed";

/** A cold model that has failed is shown as failed, until it has answered a request. */
export function phaseShown({ phase, failures }: Pick<Model, "phase" | "failures">): ShownPhase {
  return phase === "cold" && failures > 0 ? "failed" : phase;
}

/** The label of a phase, where it differs from the API's value. */
export function phaseLabel(phase: ShownPhase): string {
  return phase === "backoff" ? "backing off" : phase;
}

export function PhaseDot({ phase, label }: { phase: ShownPhase; label?: string }) {
  return label ? (
    <span class={`dot ${phase}`} role="img" aria-label={label} title={label} />
  ) : (
    <span class={`dot ${phase}`} aria-hidden="true" />
  );
}

export function PhaseChip({ phase, isAdopted = false }: { phase: ShownPhase; isAdopted?: boolean }) {
  return (
    <span class="phase">
      <PhaseDot phase={phase} />
      {phaseLabel(phase)}
      {isAdopted && (
        <span class="tag" title={ADOPTED}>
          adopted
        </span>
      )}
    </span>
  );
}
