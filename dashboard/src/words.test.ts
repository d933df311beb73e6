import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, commandLine, duration, firstLine } from "./words";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

test("a duration has at most two units", () => {
  const shown = [0.004, 0.25, 9.94, 9.96, 59.4, 59.6, 61, 3600, 3720, 90_000].map(duration).map(plain);

  assert.deepEqual(shown, [
    "4 ms",
    "0.3 s",
    "9.9 s",
    "10 s",
    "59 s",
    "1 min",
    "1 min 1 s",
    "1 h",
    "1 h 2 min",
    "1 d 1 h",
  ]);
});

test("sizes use binary units, as the configuration does", () => {
  const shown = [512, 14 * 2 ** 30, 1.5 * 2 ** 30, 300 * 2 ** 20].map(bytes).map(plain);

  assert.deepEqual(shown, ["512 B", "14 GiB", "1.5 GiB", "300 MiB"]);
});

test("the cause of a failure is separated from the server output", () => {
  for (const heading of ["last output:", "its last output was:"]) {
    const shown = firstLine(`it exited with code 1; ${heading}\nline one\nline two`);

    assert.deepEqual(shown, { cause: "it exited with code 1", output: "line one\nline two" });
  }
});

test("a command line can be pasted into a shell", () => {
  const shown = commandLine(["sh", "-c", "exit 3", "--port", "${PORT}", "it's", ""]);

  assert.equal(shown, "sh -c 'exit 3' --port ${PORT} 'it'\\''s' ''");
});
