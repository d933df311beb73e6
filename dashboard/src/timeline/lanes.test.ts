import assert from "node:assert/strict";
import { test } from "node:test";
import type { JournalEntry, JournalThing } from "../data/types";
import { lanes, type Observation, type Segment, swapReports } from "./lanes";

function happened(at: number, event: JournalThing, ...commands: JournalThing[]): JournalEntry {
  return { n: at, at, event, commands };
}

const start = (model: string): JournalThing => ({
  type: "StartUpstream",
  model,
  reason: "started for 1 request",
});
const stop = (model: string, reason: string): JournalThing => ({
  type: "StopUpstream",
  model,
  reason,
  cause: "eviction",
});
const arrived = (model: string): JournalThing => ({ type: "RequestArrived", model });
const ready = (model: string): JournalThing => ({ type: "UpstreamReady", model });
const exited = (model: string): JournalThing => ({
  type: "UpstreamExited",
  model,
  exit_status: "it was killed",
});
const seen = (model: string, phase: Observation["phase"], at: number): Observation => ({
  model,
  phase,
  at,
  why: "as seen",
});

const shown = (segments: Segment[]) => segments.map(({ model, phase, from, to }) => [model, phase, from, to]);

const SWAP = [
  happened(10, arrived("qwen"), start("qwen")),
  happened(14, ready("qwen")),
  happened(20, arrived("gemma"), stop("qwen", "unloaded to free memory for gemma")),
  happened(21, exited("qwen"), start("gemma")),
  happened(25, ready("gemma")),
];

test("a swap is shown with its phases and its cause", () => {
  const { segments, swaps } = lanes(SWAP, []);

  assert.deepEqual(shown(segments), [
    ["qwen", "loading", 10, 14],
    ["qwen", "ready", 14, 20],
    ["qwen", "unloading", 20, 21],
    ["gemma", "loading", 21, 25],
    ["gemma", "ready", 25, null],
  ]);
  assert.deepEqual(swaps, [{ at: 21, left: "qwen", came: "gemma" }]);
  assert.deepEqual(
    [segments[2]?.reason, segments[2]?.cause],
    ["unloaded to free memory for gemma", "eviction"],
  );
});

test("saving conversations is part of an unload, and restoring them of a load", () => {
  const saved = [
    { tokens: 5985, size: 25 * 1024 * 1024, took_s: 0.03 },
    { tokens: 15, size: 1024 * 1024, took_s: 0.02 },
  ];
  const { segments } = lanes(
    [
      happened(10, arrived("qwen"), start("qwen")),
      happened(14, ready("qwen")),
      happened(20, arrived("gemma"), { type: "SaveConversations", model: "qwen", reason: "for gemma" }),
      happened(22, { type: "ConversationsSaved", model: "qwen", saved }, stop("qwen", "for gemma")),
      happened(23, exited("qwen"), start("gemma")),
      happened(30, exited("gemma"), start("qwen")),
      happened(34, ready("qwen"), { type: "RestoreConversations", model: "qwen", reason: "saved before" }),
      happened(35, {
        type: "ConversationsRestored",
        model: "qwen",
        restored: saved.slice(1),
        problem: "no time",
      }),
    ],
    [],
  );
  const own = segments.filter(({ model }) => model === "qwen");

  assert.deepEqual(shown(own), [
    ["qwen", "loading", 10, 14],
    ["qwen", "ready", 14, 20],
    ["qwen", "unloading", 20, 23],
    ["qwen", "loading", 30, 35],
    ["qwen", "ready", 35, null],
  ]);
  assert.deepEqual([own[2]?.reason, own[2]?.cause], ["for gemma", "eviction"]);
  assert.equal(own[2]?.conversations, "2 conversations saved (6,000 tokens, 26\u00a0MiB) in 50\u00a0ms");
  assert.equal(
    own[3]?.conversations,
    "1 conversation restored (15 tokens, 1\u00a0MiB) in 20\u00a0ms; no time",
  );
});

test("restored conversations are shown also if a refresh saw the ready model first", () => {
  const restored = [{ tokens: 15, size: 1024 * 1024, took_s: 0.02 }];
  const { segments } = lanes(
    [
      happened(10, arrived("qwen"), start("qwen")),
      happened(14, ready("qwen"), { type: "RestoreConversations", model: "qwen", reason: "saved before" }),
      happened(15, { type: "ConversationsRestored", model: "qwen", restored }),
    ],
    [seen("qwen", "loading", 10.001), seen("qwen", "ready", 14.999)],
  );

  assert.deepEqual(shown(segments), [
    ["qwen", "loading", 10, 14.999],
    ["qwen", "ready", 14.999, null],
  ]);
  assert.match(segments[0]?.conversations ?? "", /^1 conversation restored/);
  assert.equal(segments[1]?.reason, "started for 1 request");
});

test("a server that dies while conversations are restored has failed to load", () => {
  const { segments } = lanes(
    [
      happened(10, arrived("qwen"), start("qwen")),
      happened(14, ready("qwen"), { type: "RestoreConversations", model: "qwen", reason: "saved before" }),
      happened(15, exited("qwen")),
    ],
    [],
  );

  assert.deepEqual(
    segments.map(({ phase, to, outcome }) => [phase, to, outcome]),
    [["loading", 15, "crashed"]],
  );
});

test("a model that sleeps and wakes has a phase for each step", () => {
  const { segments } = lanes(
    [
      happened(10, arrived("qwen"), start("qwen")),
      happened(14, ready("qwen")),
      happened(20, arrived("gemma"), {
        type: "PutToSleep",
        model: "qwen",
        reason: "unloaded to free memory for gemma",
      }),
      happened(21, { type: "UpstreamAsleep", model: "qwen" }, start("gemma")),
      happened(40, exited("gemma"), { type: "WakeUp", model: "qwen", reason: "started for 1 request" }),
      happened(42, { type: "UpstreamAwake", model: "qwen" }),
    ],
    [],
  );

  assert.deepEqual(
    shown(segments)
      .filter(([model]) => model === "qwen")
      .map(([, ...rest]) => rest),
    [
      ["loading", 10, 14],
      ["ready", 14, 20],
      ["unloading", 20, 21],
      ["asleep", 21, 40],
      ["loading", 40, 42],
      ["ready", 42, null],
    ],
  );
});

test("the start of draining comes from an observation", () => {
  const { segments } = lanes(SWAP, [seen("qwen", "draining", 17)]);

  assert.deepEqual(shown(segments).slice(1, 4), [
    ["qwen", "ready", 14, 17],
    ["qwen", "draining", 17, 20],
    ["qwen", "unloading", 20, 21],
  ]);
});

test("an observation just before its journal entry is the same phase, with the reason from the journal", () => {
  const { segments } = lanes(SWAP, [seen("qwen", "unloading", 19.99)]);

  assert.equal(segments.filter(({ phase }) => phase === "unloading").length, 1);
  assert.equal(
    segments.find(({ phase }) => phase === "unloading")?.reason,
    "unloaded to free memory for gemma",
  );
});

test("a late observation does not override the journal", () => {
  assert.deepEqual(lanes(SWAP, [seen("gemma", "loading", 21.1), seen("qwen", "cold", 21)]), lanes(SWAP, []));
});

test("a model that started before the journal is drawn from the observed start of its phase", () => {
  assert.deepEqual(shown(lanes([], [seen("qwen", "ready", 5)]).segments), [["qwen", "ready", 5, null]]);
});

const adopted = (model: string, more: Partial<JournalThing>): JournalThing => ({
  type: "ServerAdopted",
  model,
  sleep_level: null,
  departure: null,
  ...more,
});

test("a server of an earlier process is drawn since it was ready, or asleep", () => {
  const departure = { cause: "eviction", reason: "unloaded to free memory for phi" };
  const { segments } = lanes(
    [
      happened(100, adopted("qwen", { ready_s: 60, phase_s: 60 })),
      happened(100, adopted("gemma", { ready_s: 80, phase_s: 30, sleep_level: 1 })),
      happened(100, adopted("llama", { ready_s: 50, phase_s: 5, departure })),
      happened(110, exited("qwen")),
    ],
    [seen("gemma", "asleep", 70.1), seen("qwen", "cold", 110)],
  );

  assert.deepEqual(shown(segments), [
    ["gemma", "asleep", 70.1, null],
    ["qwen", "ready", 40, 110],
    ["llama", "ready", 50, 95],
    ["llama", "draining", 95, null],
  ]);
  assert.equal(segments.at(-1)?.reason, "unloaded to free memory for phi");
});

test("a page that saw the load of a server before the restart goes on with its phase", () => {
  const { segments } = lanes(
    [
      happened(10, arrived("qwen"), start("qwen")),
      happened(14, ready("qwen")),
      happened(20, arrived("gemma"), start("gemma")),
      happened(100, adopted("qwen", { ready_s: 86, phase_s: 86 })),
      happened(100, adopted("gemma", { ready_s: 70, phase_s: 70 })),
    ],
    [],
  );

  assert.deepEqual(shown(segments), [
    ["qwen", "loading", 10, 14],
    ["qwen", "ready", 14, null],
    ["gemma", "loading", 20, 30],
    ["gemma", "ready", 30, null],
  ]);
});

test("a failed start and a crash are marked, a requested stop is not", () => {
  const failed: JournalThing = {
    type: "UpstreamFailed",
    model: "dud",
    error: { code: "x", message: "no such file" },
  };
  const { segments } = lanes(
    [
      happened(1, arrived("dud"), start("dud")),
      happened(2, failed),
      happened(10, arrived("qwen"), start("qwen")),
      happened(14, ready("qwen")),
      happened(15, exited("qwen")),
    ],
    [],
  );

  assert.deepEqual(
    segments.map(({ outcome, said }) => [outcome, said]),
    [
      ["failed", "no such file"],
      [null, ""],
      ["crashed", "it was killed"],
    ],
  );
  assert.ok(lanes(SWAP, []).segments.every(({ outcome }) => outcome === null));
});

test("a swap report has the time of the entry in which its model became ready", () => {
  const report = { type: "ReportSwap", model: "gemma", measured_s: 5, evicted: [] };
  const [swap] = swapReports([...SWAP, { n: 26, at: 26, event: ready("gemma"), commands: [report] }]);

  assert.deepEqual([swap?.model, swap?.at, swap?.measured_s], ["gemma", 26, 5]);
});

test("a failure is kept if a refresh saw the end of its load first", () => {
  const error = { code: "load_failed", message: "it exited with code 1" };
  const { segments } = lanes(
    [
      happened(10, arrived("qwen"), start("qwen")),
      happened(11.02, { type: "UpstreamFailed", model: "qwen", error }),
    ],
    [seen("qwen", "backoff", 11.01)],
  );

  assert.deepEqual(shown(segments), [["qwen", "loading", 10, 11.01]]);
  assert.deepEqual([segments[0]?.outcome, segments[0]?.said], ["failed", "it exited with code 1"]);
});
