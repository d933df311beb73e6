// The progress of a load, from the share of the files that were read or from the time of earlier loads.

import { stale } from "../data/state";
import type { Model } from "../data/types";
import { loadProgress } from "./progress";

export function LoadingBar({ model }: { model: Model }) {
  const { share, said } = loadProgress(model, stale.value);
  return (
    <div class="loading-bar">
      <progress max={1} {...(share !== null && { value: share })} aria-label={`Loading ${model.model}`} />
      <span class="muted">{said}</span>
    </div>
  );
}
