import assert from "node:assert/strict";
import { test } from "node:test";
import type { Finished } from "../data/types";
import { explained, sharesOf, type Swapped, swapsFor } from "./explanation";

const REQUEST: Finished = {
  n: 1,
  id: "box-1",
  at: 100,
  model: "beta",
  client: "me",
  method: "POST",
  path: "/v1/chat/completions",
  status: 200,
  waited_s: 6,
  why: "waited for beta to load after evicting alpha",
  first_byte_s: 7,
  seconds: 10,
  prompt_tokens: 12,
  cached_tokens: null,
  completion_tokens: 30,
  tokens_per_s: 10,
};
const SWAP: Swapped = {
  type: "ReportSwap",
  at: 96,
  model: "beta",
  client: "me",
  waited_s: 6,
  predicted_s: 5,
  measured_s: 5.5,
  evicted: [{ model: "alpha", age_s: 30, served: 2, reason: "idle" }],
};

test("the shares of a request add up to its duration", () => {
  assert.deepEqual(
    sharesOf(REQUEST).map(({ seconds }) => seconds),
    [6, 1, 3],
  );
  assert.deepEqual(
    sharesOf({ ...REQUEST, first_byte_s: null }).map(({ seconds }) => seconds),
    [6, 4, 0],
  );
});

test("a wait has its reason and its swap", () => {
  const { sentences } = explained(REQUEST, [REQUEST], [], [SWAP, { ...SWAP, at: 50 }], 200);

  assert.match(sentences[0] ?? "", /Most of the time it waited for beta: 6\.0\ss of 10\ss \(60 %\)/);
  assert.match(sentences[1] ?? "", /waited for beta to load after evicting alpha/);
  assert.match(sentences[2] ?? "", /The swap to beta took 5\.5\ss.*evicted: alpha \(idle\)/);
  assert.equal(sentences.length, 3);
});

test("a request that failed says so first", () => {
  const { sentences } = explained({ ...REQUEST, status: 503 }, [REQUEST], [], [], 200);

  assert.equal(sentences[0], "It failed with status 503; the last error of beta or its log may say why.");
});

test("a slow answer has its speed and those who shared the server", () => {
  const slow = { ...REQUEST, waited_s: 0, why: "", first_byte_s: 1 };
  const beside = { ...slow, n: 2, at: 95, seconds: 2 };
  const before = { ...slow, n: 3, at: 80 };
  const elsewhere = { ...beside, n: 4, model: "alpha" };
  const { sentences } = explained(slow, [slow, beside, before, elsewhere], [], [], 200);

  assert.match(
    sentences[0] ?? "",
    /generated the answer: 9\.0\ss of 10\ss \(90 %\), 30 tokens at 10 tokens\/s/,
  );
  assert.equal(sentences[1], "beta served 1 other request at the same time; they shared its speed.");
  assert.equal(sentences.length, 2);
});

test("a prompt says how much of it was computed before", () => {
  const told = (cached_tokens: number | null) =>
    explained({ ...REQUEST, cached_tokens }, [REQUEST], [], [], 200).sentences[1];

  assert.equal(told(11), "Of its 12 prompt tokens, 11 were in the server's cache.");
  assert.equal(told(0), "Of its 12 prompt tokens, none was in the server's cache.");
  assert.match(told(null) ?? "", /^Its wait/);
});

test("a request in progress has waited for the swap that ended while it waited", () => {
  const told = "The swap to beta took 5.5\u00a0s, predicted 5.0\u00a0s; evicted: alpha (idle).";
  assert.deepEqual(swapsFor("beta", 90, 6, [SWAP]), [told]);
  const first = "The swap to beta took 5.5\u00a0s; evicted: alpha (idle).";
  assert.deepEqual(swapsFor("beta", 90, 6, [{ ...SWAP, predicted_s: null }]), [first]);
  assert.deepEqual(swapsFor("beta", 97, 6, [SWAP]), []);
  assert.deepEqual(swapsFor("alpha", 90, 6, [SWAP]), []);
  assert.deepEqual(swapsFor("beta", 95.9, 0, [SWAP]), []);
});
