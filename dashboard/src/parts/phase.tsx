// A phase has one colour on all pages, and always a text or an accessible name beside the colour.

import type { Phase } from "../data/types";
import { ADOPTED } from "../words";

/** The label of a phase, where it differs from the API's value. */
export function phaseLabel(phase: Phase): string {
  return phase === "backoff" ? "backing off" : phase;
}

export function PhaseDot({ phase, label }: { phase: Phase; label?: string }) {
  return label ? (
    <span class={`dot ${phase}`} role="img" aria-label={label} title={label} />
  ) : (
    <span class={`dot ${phase}`} aria-hidden="true" />
  );
}

export function PhaseChip({ phase, isAdopted = false }: { phase: Phase; isAdopted?: boolean }) {
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
