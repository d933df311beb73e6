import assert from "node:assert/strict";
import { test } from "node:test";
import { barsOf, daysUntil, sumsOf, total } from "./bars";

function entry(day: string, model: string, prompt_tokens: number, key = "") {
  return {
    day,
    model,
    key,
    requests: 1,
    unknown: 0,
    prompt_tokens,
    cached_tokens: 2,
    completion_tokens: 1,
    estimated_tokens: 0,
  };
}

const ENTRIES = [
  entry("2026-11-16", "qwen", 10),
  entry("2026-11-17", "qwen", 20),
  entry("2026-11-17", "llama", 100),
];

test("days end with the last one, across months", () => {
  assert.deepEqual(daysUntil("2026-03-01", 3), ["2026-02-27", "2026-02-28", "2026-03-01"]);
});

test("names with more tokens come first", () => {
  assert.deepEqual(
    sumsOf(ENTRIES, "model").map(({ name, requests, prompt_tokens }) => [name, requests, prompt_tokens]),
    [
      ["llama", 1, 100],
      ["qwen", 2, 30],
    ],
  );
  assert.equal(sumsOf(ENTRIES, "key").length, 1);
});

test("a bar has the tokens of each name, also on a day without any", () => {
  const { series, bars, highest } = barsOf(ENTRIES, "model", daysUntil("2026-11-17", 3));

  assert.deepEqual(series, ["llama", "qwen"]);
  assert.deepEqual(
    bars.map(({ day, tokens }) => [day, ...tokens]),
    [
      ["2026-11-15", 0, 0],
      ["2026-11-16", 0, 11],
      ["2026-11-17", 101, 21],
    ],
  );
  assert.equal(highest, 122);
});

test("beyond six names there is one for all others", () => {
  const many = Array.from({ length: 9 }, (_, n) => entry("2026-11-17", `m${n}`, 100 - n));
  const { series, hasOthers, bars } = barsOf(many, "model", ["2026-11-17"]);

  assert.deepEqual([series.length, hasOthers, bars[0]?.tokens.length], [6, true, 7]);
  assert.equal(bars[0]?.tokens[6], 94 + 93 + 92 + 3);
  assert.equal(
    total(bars[0] ?? { day: "", tokens: [] }),
    many.reduce((sum, { prompt_tokens }) => sum + prompt_tokens + 1, 0),
  );
});

test("entries of other days are not drawn", () => {
  assert.equal(barsOf(ENTRIES, "model", ["2026-11-15"]).highest, 0);
});
