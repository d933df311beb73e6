// Phases look the same everywhere: one colour each, and always with the word beside it or as its name.

import type { Phase } from "../house/shapes";

export function PhaseDot({ phase, label }: { phase: Phase; label?: string }) {
  return label ? (
    <span class={`dot ${phase}`} role="img" aria-label={label} title={label} />
  ) : (
    <span class={`dot ${phase}`} aria-hidden="true" />
  );
}

export function PhaseChip({ phase }: { phase: Phase }) {
  return (
    <span class="phase">
      <PhaseDot phase={phase} />
      {phase}
    </span>
  );
}
