import assert from "node:assert/strict";
import { test } from "node:test";
import { asText, beginsDay, insert, levelOf, type LogLine, matching, parsed } from "./lines";

let written = 0;
const line = (at: number, text: string, more: Partial<LogLine> = {}): LogLine => ({
  n: (written += 1),
  at,
  model: "qwen",
  level: null,
  text,
  ...more,
});

test("a line that arrives late is inserted where it belongs", () => {
  const lines: LogLine[] = [];
  for (const [at, text] of [
    [1, "a"],
    [3, "d"],
    [2, "b"],
    [2, "c"],
    [3, "e"],
  ] as const)
    insert(lines, line(at, text));

  assert.equal(lines.map(({ text }) => text).join(""), "abcde");
});

test("model servers state their level in different ways", () => {
  const shown = [
    "0.00.062.513 W srv  llama_server: no API key is set",
    "0.00.062.513 I srv  operator(): error = 0",
    "E llama_init: out of memory",
    "WARNING 11-16 12:00:00 [scheduler.py:12] slow",
    "INFO:     Application startup complete. No errors.",
    "CUDA error: out of memory",
    "Traceback (most recent call last):",
    "UserWarning: deprecated",
    "warning: deprecated",
    "We have loaded the model",
  ].map(levelOf);

  assert.deepEqual(shown, [
    "warning",
    null,
    "error",
    "warning",
    null,
    "error",
    "error",
    null,
    "warning",
    null,
  ]);
});

test("hotseat's own level counts, whatever the text says", () => {
  const sent = { at: 1, model: null, level: "info", text: "request failed error=..." };

  assert.equal(parsed(1, JSON.stringify(sent)).level, "info");
});

test("the filter looks at text and level", () => {
  const lines = [line(1, "Loading"), line(2, "loading failed", { level: "error" }), line(3, "ready")];
  const shown = (words: string, troubleOnly: boolean) =>
    matching(lines, { words, troubleOnly }).map(({ at }) => at);

  assert.deepEqual(shown("LOADING", false), [1, 2]);
  assert.deepEqual(shown("", true), [2]);
});

test("the list shows the day where it changes, and first if it is not today", () => {
  const yesterday = new Date(2026, 10, 15, 23, 59).getTime() / 1000;
  const lines = [line(yesterday, "a"), line(yesterday + 30, "b"), line(yesterday + 90, "c")];
  const now = yesterday + 600;
  const begins = (some: LogLine[]) => some.map((each, place) => beginsDay(each, some[place - 1], now));

  assert.deepEqual(begins(lines), [true, false, true]);
  assert.deepEqual(begins(lines.slice(2)), [false]);
});

test("a saved line has the form of the command line", () => {
  const lines = [line(1.5, "hello", { level: "warning" }), line(2, "ready", { model: null, level: "info" })];

  assert.deepEqual(lines.map(asText), [
    "1970-01-01T00:00:01.500Z qwen | hello",
    "1970-01-01T00:00:02.000Z hotseat | INFO ready",
  ]);
});
