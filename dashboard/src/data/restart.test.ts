import assert from "node:assert/strict";
import { test } from "node:test";
import { continued } from "./restart";

const entry = (n: number, at: number) => ({ n, at, event: { type: "ClockReached" }, commands: [] });
const EARLIER = [entry(1, 10), entry(2, 20), entry(3, 30)];

test("a process that has taken over goes on with the numbers, and the history stays", () => {
  assert.deepEqual(continued(EARLIER, entry(4, 40)), EARLIER);
  assert.deepEqual(continued(EARLIER, entry(7, 40)), EARLIER);
});

test("entries of the new process that had arrived before are not shown twice", () => {
  assert.deepEqual(continued(EARLIER, entry(3, 30)), EARLIER.slice(0, 2));
});

test("a process that counts from one again has a history of its own", () => {
  assert.deepEqual(continued(EARLIER, entry(1, 40)), []);
  assert.deepEqual(continued([], entry(1, 40)), []);
});
