// The pipe to the matrix: one call per line of stdin, one outcome per line of stdout.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

export const [URL_OF_HOUSE, QUESTION] = process.argv.slice(2);
export const MESSAGES = [{ role: "user", content: QUESTION }];
const ENOUGH = 3;

// `client` has ask(model), which gives a text, and stream(model), whose pieces end when the reader breaks off.
export async function takeCalls(client, ...packages) {
  tell({ version: packages.map(versionOf).join(" + ") });
  for await (const line of createInterface({ input: process.stdin })) tell(await outcome(client, JSON.parse(line)));
}

async function outcome(client, { act, model }) {
  const pieces = [];
  let error = null;
  let left_at = null;
  try {
    if (act === "ask") pieces.push(await client.ask(model));
    else left_at = await listen(client, model, pieces, act === "leave");
  } catch (problem) {
    error = `${problem.constructor.name}: ${problem.message}`;
  }
  return { text: pieces.join(""), pieces: pieces.length, error, left_at };
}

async function listen(client, model, pieces, leave) {
  for await (const piece of client.stream(model)) {
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
