import assert from "node:assert/strict";
import { test } from "node:test";
import { pauseAfter } from "./pace";

test("a small fleet is fetched every second, a large one every three", () => {
  assert.ok(pauseAfter(5) < 1000);
  assert.equal(pauseAfter(150), 3000);
  assert.equal(pauseAfter(10_000), 3000);
});
