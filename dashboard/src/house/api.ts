// How the dashboard speaks to hotseat: like any other client. Addresses are relative to this page, so a reverse proxy
// may put hotseat under a path of its own.

import type { ConfigReport, ModelStory, Models, Queue, Requests, Result } from "./shapes";

const HOTSEAT = new URL("..", document.baseURI);
export const ROOT = new URL("..", HOTSEAT);

/** What went wrong, in hotseat's own sentence where it said one. */
export class Trouble extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

export const house = {
  models: () => json<Models>("GET", "models"),
  story: (model: string) => json<ModelStory>("GET", `models/${encoded(model)}`),
  queue: () => json<Queue>("GET", "queue"),
  requests: (after: number) => json<Requests>("GET", `requests?after=${after}`),
  config: () => json<ConfigReport>("GET", "config"),
  reload: () => json<Result>("POST", "reload"),
  load: (model: string) => json<Result>("GET", new URL(`upstream/${encoded(model)}/load`, ROOT)),
  stop: (model: string, force: boolean) =>
    json<Result>("DELETE", new URL(`upstream/${encoded(model)}${force ? "?force=true" : ""}`, ROOT)),
  dismiss: (ticket: number) => json<Result>("DELETE", `requests/${ticket}`),
};

/** Under hotseat's own paths, or anywhere with a whole URL. */
export async function call(path: string | URL, options: RequestInit = {}): Promise<Response> {
  const response = await fetch(new URL(path, HOTSEAT), options);
  if (!response.ok) throw new Trouble(await complaint(response), response.status);
  return response;
}

async function json<Shape>(method: string, path: string | URL): Promise<Shape> {
  return (await call(path, { method })).json();
}

async function complaint(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error, complaints } = JSON.parse(text);
    const said = typeof error === "string" ? error : error.message;
    return [said, ...(complaints ?? [])].join("\n");
  } catch {
    return text || `${response.status} ${response.statusText}`;
  }
}

function encoded(model: string): string {
  return model.split("/").map(encodeURIComponent).join("/");
}
