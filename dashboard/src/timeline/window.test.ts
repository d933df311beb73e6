import assert from "node:assert/strict";
import { test } from "node:test";
import { marks, moved, place, zoomed } from "./window";

const SEEN = { from: 100, to: 200 };

test("zooming keeps the time under the pointer in place", () => {
  const near = zoomed(SEEN, 0.5, 0.25);

  assert.deepEqual(near, { from: 112.5, to: 162.5 });
  assert.equal(place(near, 125), place(SEEN, 125));
});

test("zooming in has a limit", () => {
  const { from, to } = zoomed({ from: 0, to: 1 }, 0.001, 0.5);

  assert.equal(to - from, 0.5);
});

test("panning moves by a fraction of the visible range", () => {
  assert.deepEqual(moved(SEEN, -0.5), { from: 50, to: 150 });
});

test("ticks are at round times, and their number is limited", () => {
  assert.deepEqual(marks({ from: 3601, to: 3659 }, 6), [3610, 3620, 3630, 3640, 3650]);
});
