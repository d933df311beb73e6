import assert from "node:assert/strict";
import { test } from "node:test";
import { loadProgress } from "./progress";

const FIRST = { progress: null, load_s: null, phase_s: 30 };

test("of a first load without files nothing is known", () => {
  assert.deepEqual(loadProgress(FIRST, 5), { share: null, said: "usual time not known" });
});

test("the share of the files that were read is shown before the share of the usual time", () => {
  assert.deepEqual(loadProgress({ ...FIRST, progress: 0.25, load_s: 40 }, 0), { share: 0.25, said: "25 %" });
  assert.deepEqual(loadProgress({ ...FIRST, load_s: 40 }, 2), { share: 0.8, said: "80 %" });
});

test("when the files are read, only the usual time tells more", () => {
  assert.deepEqual(loadProgress({ ...FIRST, progress: 1 }, 0), { share: null, said: "read, warming up" });
  assert.deepEqual(loadProgress({ ...FIRST, progress: 1, load_s: 40 }, 0), { share: 0.75, said: "75 %" });
});

test("a load that takes longer than usual does not stay at 99 %", () => {
  assert.deepEqual(loadProgress({ ...FIRST, load_s: 30 }, 5), { share: null, said: "longer than usual" });
  assert.deepEqual(loadProgress({ ...FIRST, progress: 1, load_s: 20 }, 0), {
    share: null,
    said: "longer than usual",
  });
});
