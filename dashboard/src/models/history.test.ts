import assert from "node:assert/strict";
import { test } from "node:test";
import { lanes } from "../timeline/lanes";
import type { JournalThing } from "../data/types";
import { clock } from "../words";
import { historyOf } from "./history";

function entry(at: number, event: JournalThing, ...commands: JournalThing[]) {
  return { n: at, at, event, commands };
}

const NOTHING = { type: "ClockReached" };

test("loads have durations and evictions have reasons, newest first", () => {
  const { segments } = lanes(
    [
      entry(10, NOTHING, { type: "StartUpstream", model: "alpha", reason: "1 request waits" }),
      entry(14, { type: "UpstreamReady", model: "alpha" }),
      entry(20, NOTHING, { type: "StopUpstream", model: "alpha", reason: "for beta", cause: "eviction" }),
      entry(22, { type: "UpstreamExited", model: "alpha" }),
    ],
    [],
  );

  assert.deepEqual(
    historyOf(segments, "alpha").map(({ what, reason, seconds }) => [what, reason, seconds]),
    [
      ["evicted", "for beta", 2],
      ["loaded", "1 request waits", 4],
    ],
  );
  assert.deepEqual(historyOf(segments, "beta"), []);
});

test("a failed start and a crash say what the server said", () => {
  const error = { code: "load_failed", message: "exited with code 1; last output:\nno file" };
  const { segments } = lanes(
    [
      entry(10, NOTHING, { type: "StartUpstream", model: "alpha", reason: "asked" }),
      entry(11, { type: "UpstreamFailed", model: "alpha", error }),
      entry(20, NOTHING, { type: "StartUpstream", model: "alpha", reason: "asked" }),
      entry(23, { type: "UpstreamReady", model: "alpha" }),
      entry(30, { type: "UpstreamExited", model: "alpha", exit_status: "was killed by SIGKILL" }),
    ],
    [],
  );

  assert.deepEqual(
    historyOf(segments, "alpha").map(({ at, what, reason, isFailure }) => [at, what, reason, isFailure]),
    [
      [30, "crashed", "was killed by SIGKILL", true],
      [20, "loaded", "asked", false],
      [10, "load failed", "asked; exited with code 1", true],
    ],
  );
});

test("a server of an earlier process was adopted, and says since when it is ready", () => {
  const event = { type: "ServerAdopted", model: "alpha", sleep_level: null, departure: null };
  const { segments } = lanes(
    [
      entry(100, { ...event, ready_s: 60, phase_s: 60 }),
      entry(120, { type: "UpstreamExited", model: "alpha", exit_status: "was killed by SIGKILL" }),
    ],
    [],
  );

  assert.deepEqual(
    historyOf(segments, "alpha").map(({ at, what, reason }) => [at, what, reason]),
    [
      [120, "crashed", "was killed by SIGKILL"],
      [100, "adopted", `started by an earlier process of hotseat, ready since ${clock(40)}`],
    ],
  );
});
