import assert from "node:assert/strict";
import { test } from "node:test";
import { loadCurve, quantile } from "./load";
import type { Finished, RequestInProgress } from "./types";

const tokens = { prompt_tokens: null, cached_tokens: null, completion_tokens: null, tokens_per_s: null };
const request = {
  id: "r",
  model: "m",
  client: "c",
  method: "POST",
  path: "/",
  status: 200,
  why: "",
  first_byte_s: null,
  ...tokens,
};

function finished(began: number, waited_s: number, at: number): Finished {
  return { ...request, n: at, at, waited_s, seconds: at - began };
}

test("a request counts as waiting until it is granted, then as served until it ends", () => {
  const curve = loadCurve([finished(10, 5, 20)], [], 0, 30);

  assert.deepEqual(curve, { at: [0, 10, 15, 20, 30], waiting: [0, 1, 0, 0, 0], served: [0, 0, 1, 0, 0] });
});

test("a request that is granted immediately never counts as waiting", () => {
  assert.deepEqual(loadCurve([finished(10, 0.001, 20)], [], 0, 30).waiting, [0, 0, 0, 0]);
});

test("a request that began before the time range counts from the start of the range", () => {
  const curve = loadCurve([finished(-10, 0, 20)], [], 0, 30);

  assert.deepEqual([curve.at[0], curve.served[0]], [0, 1]);
});

test("a request in progress counts until now", () => {
  const going: RequestInProgress = {
    ...request,
    ticket: 1,
    state: "waiting",
    waited_s: 5,
    seconds: 5,
    host: null,
  };

  assert.deepEqual(loadCurve([], [going], 0, 30).waiting, [0, 1, 1]);
});

test("the quantile of no values is null", () => {
  assert.equal(quantile([], 0.5), null);
  assert.equal(quantile([3, 1, 2], 0.5), 2);
  assert.equal(quantile([1, 2, 3, 4], 0.95), 4);
});
