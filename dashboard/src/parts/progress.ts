// How far a load is, in words; a share that nobody knows is null, and the bar then shows only that something happens.

import type { Model } from "../data/types";

export interface LoadProgress {
  share: number | null;
  said: string;
}

export function loadProgress(
  { progress = null, load_s, phase_s }: Pick<Model, "progress" | "load_s" | "phase_s">,
  stale: number,
): LoadProgress {
  if (progress !== null && progress < 1) return percent(progress);
  const soFar = (phase_s ?? 0) + stale;
  if (load_s && soFar >= load_s) return { share: null, said: "longer than usual" };
  if (load_s) return percent(soFar / load_s);
  return { share: null, said: progress === null ? "usual time not known" : "read, warming up" };
}

function percent(share: number): LoadProgress {
  return { share, said: `${Math.floor(share * 100)} %` };
}
