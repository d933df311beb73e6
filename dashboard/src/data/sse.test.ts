import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser } from "./sse";

const TEXT = 'id: 7\nevent: UpstreamReady\ndata: {"n":7}\n\n: still here\n\ndata: one\ndata: two\n\n';
const EVENTS = [
  { id: "7", event: "UpstreamReady", data: '{"n":7}' },
  { id: "", event: "message", data: "one\ntwo" },
];

test("events do not depend on where the text is split", () => {
  for (let cut = 0; cut <= TEXT.length; cut += 1) {
    const parser = new EventParser();
    const found = [...parser.feed(TEXT.slice(0, cut)), ...parser.feed(TEXT.slice(cut))];

    assert.deepEqual(found, EVENTS, `cut at ${cut}`);
  }
});

test("lines may end with CR LF", () => {
  assert.deepEqual([...new EventParser().feed(TEXT.replaceAll("\n", "\r\n"))], EVENTS);
});

test("an incomplete event is not returned yet", () => {
  assert.deepEqual([...new EventParser().feed("data: half")], []);
});
