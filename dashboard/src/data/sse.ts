// Server-sent events over fetch. EventSource needs the name of every event in advance, cannot send a POST, and does not
// report why it failed.

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** Splits text that arrives in pieces into events. */
export class EventParser {
  private rest = "";

  *feed(piece: string): Generator<ServerEvent> {
    this.rest += piece;
    const blocks = this.rest.split(/\r?\n\r?\n/);
    this.rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = read(block);
      if (event !== null) yield event;
    }
  }
}

function read(block: string): ServerEvent | null {
  const event = { id: "", event: "message", data: "" };
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const name = line.slice(0, colon);
    if (name === "data") data.push(value);
    else if (name === "id" || name === "event") event[name] = value;
  }
  return data.length ? { ...event, data: data.join("\n") } : null;
}

/** All events of one response. */
export async function* eventsOf(response: Response): AsyncGenerator<ServerEvent> {
  const parser = new EventParser();
  const body = response.body as ReadableStream<BufferSource>;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.feed(value);
    }
  } finally {
    await reader.cancel();
  }
}
