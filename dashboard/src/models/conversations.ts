// PURE: the conversations of a model that outlive its server, in words.

import type { Conversations } from "../data/types";
import { bytes, duration } from "../words";

/** Empty if none is kept and nothing was gained so far; `why` is the sentence beside it, which may name the problem. */
export function keptInWords(conversations: Conversations | null | undefined, why: string): string {
  if (!conversations) return "";
  const { kept, bytes: size, gained_s, problem } = conversations;
  if (!kept && !gained_s && !problem) return "";
  const parts = [
    `Conversations kept: ${kept}${kept ? `, ${bytes(size)}` : ""}`,
    gained_s ? `${duration(gained_s)} saved` : "",
    why.includes(problem) ? "" : problem,
  ];
  return parts.filter((part) => part !== "").join("; ");
}

export function pastInWords({ saved, restored, reused }: Conversations): string {
  if (!saved) return "none saved so far";
  return `${saved} saved, ${restored} restored, ${reused} of them continued`;
}
