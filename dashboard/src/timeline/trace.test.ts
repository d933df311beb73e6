import assert from "node:assert/strict";
import { test } from "node:test";
import type { Finished } from "../data/types";
import type { Segment } from "./lanes";
import { chromeTrace } from "./trace";

const LOADING: Segment = {
  model: "qwen",
  phase: "loading",
  from: 10,
  to: null,
  reason: "started for 1 request",
  cause: "",
  outcome: null,
  said: "",
  conversations: "",
};
const REQUEST: Finished = {
  n: 3,
  id: "r",
  at: 12,
  model: "qwen",
  client: "me",
  method: "POST",
  path: "/v1/chat/completions",
  status: 200,
  waited_s: 1,
  why: "",
  first_byte_s: 1.5,
  seconds: 2,
  prompt_tokens: 4,
  cached_tokens: null,
  completion_tokens: 3,
  tokens_per_s: 3,
};

test("a trace has a named thread per model, phases in microseconds, and requests that may overlap", () => {
  const { traceEvents } = JSON.parse(chromeTrace([LOADING], [REQUEST], 14));

  assert.deepEqual(traceEvents[1], { name: "thread_name", ph: "M", pid: 1, tid: 1, args: { name: "qwen" } });
  assert.deepEqual(traceEvents[2], {
    name: "loading",
    cat: "phase",
    ph: "X",
    ts: 10e6,
    dur: 4e6,
    pid: 1,
    tid: 1,
    args: { reason: "started for 1 request" },
  });
  assert.deepEqual(
    traceEvents.slice(3).map(({ ph, ts, id }: { ph: string; ts: number; id: number }) => [ph, ts, id]),
    [
      ["b", 10e6, 3],
      ["e", 12e6, 3],
    ],
  );
});
