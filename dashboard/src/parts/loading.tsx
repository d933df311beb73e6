// The progress of a load, from the share of the files that were read or from the time of earlier loads.

import { stale } from "../data/state";
import type { Model } from "../data/types";

export function LoadingBar({ model }: { model: Model }) {
  const so_far = (model.phase_s ?? 0) + stale.value;
  const share = model.progress ?? (model.load_s ? so_far / model.load_s : null);
  return (
    <div class="loading-bar">
      <progress max={1} {...(share !== null && { value: share })} aria-label={`Loading ${model.model}`} />
      <span class="muted">{share === null ? "first load" : progressOf(share)}</span>
    </div>
  );
}

/** The time of an earlier load is only an estimate, so this never shows 100 %. */
function progressOf(share: number): string {
  return share >= 1 ? "taking longer than last time" : `${Math.floor(share * 100)} %`;
}
