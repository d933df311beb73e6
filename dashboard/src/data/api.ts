// Calls of the public API. URLs are relative to this page, so that hotseat can run under a path prefix of a reverse
// proxy.

import type {
  ConfigReport,
  Estimate,
  Fleet,
  ModelList,
  Models,
  Overrides,
  Queue,
  Requests,
  Result,
  Usage,
} from "./types";

const HOTSEAT = new URL("..", document.baseURI);
export const ROOT = new URL("..", HOTSEAT);
const LONGEST_LOOK_MS = 10_000;

/** A failed call, with the error message of the API if there is one. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

export const api = {
  models: () => get<Models>("models"),
  listed: () => get<ModelList>(new URL("v1/models", ROOT)),
  estimate: (model: string) => get<Estimate>(`models/${encoded(model)}/estimate`),
  /** One JSON object per line. */
  log: async (model: string, lines: number) =>
    (await look(`logs?model=${encodeURIComponent(model)}&lines=${lines}&json=true`)).text(),
  queue: () => get<Queue>("queue"),
  requests: (after: number) => get<Requests>(`requests?after=${after}`),
  /** For each day, and model or key. */
  usage: (since: string, until: string, by: "model" | "key") =>
    get<Usage>(`usage?since=${since}&until=${until}&by=day&by=${by}`),
  config: () => get<ConfigReport>("config"),
  reload: () => send("POST", "reload"),
  load: (model: string) => send("GET", new URL(`upstream/${encoded(model)}/load`, ROOT)),
  stop: (model: string, force: boolean) =>
    send("DELETE", new URL(`upstream/${encoded(model)}${force ? "?force=true" : ""}`, ROOT)),
  override: (model: string, overrides: Overrides) =>
    send("PUT", `models/${encoded(model)}/overrides`, overrides),
  fleet: () => get<Fleet>("fleet"),
  give: (host: string, order: Order) => send("PUT", `fleet/hosts/${encodeURIComponent(host)}/${order}`),
  takeBack: (host: string, order: Order) =>
    send("DELETE", `fleet/hosts/${encodeURIComponent(host)}/${order}`),
  move: (model: string, host: string) =>
    send("POST", `fleet/models/${encoded(model)}/move?to=${encodeURIComponent(host)}`),
  cancel: (ticket: number) => send("DELETE", `requests/${ticket}`),
};

/** What an operator can set on a host of the fleet. */
export type Order = "cordon" | "drain";

/** A path is relative to /hotseat/; a URL is used as it is. */
export async function call(path: string | URL, options: RequestInit = {}): Promise<Response> {
  const response = await fetch(new URL(path, HOTSEAT), options);
  if (!response.ok) throw new ApiError(await errorText(response), response.status);
  return response;
}

/** A read has a timeout: one that hangs must not block the next refresh. */
function look(path: string | URL): Promise<Response> {
  return call(path, { signal: AbortSignal.timeout(LONGEST_LOOK_MS) });
}

async function get<Shape>(path: string | URL): Promise<Shape> {
  return (await look(path)).json();
}

/** An action has no timeout, because a load may take minutes. */
async function send(method: string, path: string | URL, body?: object): Promise<Result> {
  const json = { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await call(path, { method, ...(body && json) })).json();
}

async function errorText(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error, problems } = JSON.parse(text);
    const said = typeof error === "string" ? error : error.message;
    return [said, ...(problems ?? [])].join("\n");
  } catch {
    return text || `${response.status} ${response.statusText}`;
  }
}

function encoded(model: string): string {
  return model.split("/").map(encodeURIComponent).join("/");
}
