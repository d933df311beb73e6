// The client's end of the pipe: one call per line of stdin, one outcome per line of stdout.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Agent, fetch as fetchOfPackage } from "undici";

export const [HOTSEAT_URL, QUESTION] = process.argv.slice(2);
export const MESSAGES = [{ role: "user", content: QUESTION }];
const ENOUGH = 3;

// Node's fetch gives up by default after so long without a head, or without a byte of the body.
export const FETCH_LIMIT_S = 300;

// Node's fetch; with limit_s that of the package, since Node's refuses an Agent of another version than its own.
export function fetchWithin(limit_s) {
  if (!limit_s) return fetch;
  const dispatcher = new Agent({ headersTimeout: limit_s * 1000, bodyTimeout: limit_s * 1000 });
  return (url, init) => fetchOfPackage(url, { ...init, dispatcher });
}

// `client` has limit_s, after which it gives up without a byte; ask(model), which returns a text; and
// stream(model, limit_s), which ends when its reader stops.
export async function takeCalls(client, ...packages) {
  tell({ version: packages.map(versionOf).join(" + "), limit_s: client.limit_s });
  for await (const line of createInterface({ input: process.stdin })) tell(await outcome(client, JSON.parse(line)));
}

async function outcome(client, { act, model, limit_s }) {
  const pieces = [];
  let error = null;
  let left_at = null;
  try {
    if (act === "ask") pieces.push(await client.ask(model));
    else left_at = await listen(client.stream(model, limit_s), pieces, act === "leave");
  } catch (problem) {
    error = `${problem.constructor.name}: ${problem.message}`;
  }
  return { text: pieces.join(""), pieces: pieces.length, error, left_at };
}

async function listen(stream, pieces, leave) {
  for await (const piece of stream) {
    if (piece) pieces.push(piece);
    if (leave && pieces.length === ENOUGH) return Number(process.hrtime.bigint()) / 1e9; // the clock of time.monotonic()
  }
  return null;
}

function tell(fact) {
  process.stdout.write(JSON.stringify(fact) + "\n");
}

function versionOf(name) {
  return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
}
