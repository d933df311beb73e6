import assert from "node:assert/strict";
import { test } from "node:test";
import type { Conversations } from "../data/types";
import { keptInWords, pastInWords } from "./conversations";

const NONE: Conversations = {
  kept: 0,
  bytes: 0,
  saved: 0,
  restored: 0,
  reused: 0,
  gained_s: 0,
  problem: "",
};
const SOME: Conversations = {
  ...NONE,
  kept: 3,
  bytes: 210 * 1024 * 1024,
  saved: 9,
  restored: 5,
  reused: 4,
  gained_s: 42,
};
const USELESS = "its server restores conversations but does not reuse them, so they are not saved any more";

test("the conversations of a model are one sentence, and none as long as there are none", () => {
  assert.equal(keptInWords(SOME, "ready"), "Conversations kept: 3, 210\u00a0MiB; 42\u00a0s saved");
  assert.equal(keptInWords({ ...SOME, gained_s: 0 }, ""), "Conversations kept: 3, 210\u00a0MiB");
  assert.equal(keptInWords({ ...SOME, kept: 0, bytes: 0 }, ""), "Conversations kept: 0; 42\u00a0s saved");
  assert.equal(keptInWords(NONE, "ready"), "");
  assert.equal(keptInWords(null, "ready"), "");
  assert.equal(keptInWords(undefined, "ready"), "");
});

test("why they are not kept any more is said once", () => {
  const given = { ...NONE, problem: USELESS };

  assert.equal(keptInWords(given, "ready"), `Conversations kept: 0; ${USELESS}`);
  assert.equal(keptInWords(given, `ready since 19:39; ${USELESS}`), "Conversations kept: 0");
});

test("what became of conversations is a sentence of its own", () => {
  assert.equal(pastInWords(SOME), "9 saved, 5 restored, 4 of them continued");
  assert.equal(pastInWords(NONE), "none saved so far");
});
