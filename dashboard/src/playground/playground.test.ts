import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { withChunk, EMPTY_REPLY } from "./reply";
import { asCurl, asJavaScript, type ChatRequest, imagesOf, textOf, userMessage } from "./request";

const SAID = `it's "quoted"\nand $HOME`;
const CHAT: ChatRequest = {
  model: "qwen",
  messages: [{ role: "user", content: SAID }],
  temperature: 0.7,
  max_tokens: 8,
  stream: true,
};

test("the copied command passes the request to curl unchanged", () => {
  const command = asCurl(CHAT, "http://box/").replace(/^curl/, "printf '%s\\n'");
  const words = execFileSync("bash", ["-c", command], { encoding: "utf8" });

  assert.deepEqual(JSON.parse(words.slice(words.indexOf("{"))), CHAT);
});

test("chunks extend the text, and the server's own timings take precedence", () => {
  const first = withChunk(EMPTY_REPLY, { choices: [{ delta: { content: "Hel" } }] }, 2);
  const second = withChunk(first, { choices: [{ delta: { content: "lo" } }] }, 3);
  const last = withChunk(second, { choices: [], timings: { predicted_n: 9, predicted_per_second: 4.5 } }, 4);

  assert.equal(second.text, "Hello");
  assert.deepEqual([second.firstTokenS, second.tokens, second.tokensPerS], [2, 2, 1]);
  assert.deepEqual([last.tokens, last.tokensPerS], [9, 4.5]);
});

test("the reasoning is shown by either name, and counts as tokens", () => {
  const first = withChunk(
    EMPTY_REPLY,
    { choices: [{ delta: { reasoning_content: "Hm", reasoning: "Hm" } }] },
    2,
  );
  const second = withChunk(first, { choices: [{ delta: { reasoning: "m." } }] }, 3);

  assert.deepEqual([second.reasoning, second.text, second.tokens], ["Hmm.", "", 2]);
});

test("an error within a stream keeps its message", () => {
  assert.equal(withChunk(EMPTY_REPLY, { error: { message: "qwen failed" } }, 1).trouble, "qwen failed");
  assert.equal(withChunk(EMPTY_REPLY, { error: "plain" }, 1).trouble, "plain");
});

test("the copied JavaScript passes the request to the client unchanged", () => {
  const code = asJavaScript(CHAT, "http://box/").replaceAll("\n", " ");
  const passed = /completions\.create\((.*?)\);/.exec(code)?.[1] ?? "";

  assert.deepEqual(JSON.parse(passed), CHAT);
});

test("a message with images has parts, and one without is plain text", () => {
  const message = userMessage("what is this?", ["data:image/png;base64,AA"]);

  assert.equal(userMessage("hello", []).content, "hello");
  assert.equal(textOf(message), "what is this?");
  assert.deepEqual(imagesOf(message), ["data:image/png;base64,AA"]);
});
