// The current state of hotseat, in signals. An event only triggers a refresh, and each refresh fetches the whole state:
// so the page cannot drift from the server, and a gap in the event stream loses history only.

import { computed, signal } from "@preact/signals";
import type { Observation } from "../timeline/lanes";
import { route } from "../route";
import { firstLine } from "../words";
import { house } from "./api";
import { follow, type FeedConnection } from "./feed";
import type {
  ByDevice,
  Finished,
  Fleet,
  JournalEntry,
  Membership,
  Model,
  Ticket,
  RequestInProgress,
} from "./shapes";
import type { ServerEvent } from "./sse";

const MOST_ENTRIES = 5000;
const MOST_REQUESTS = 5000;
const MOST_OBSERVATIONS = 500;
const BEAT_MS = 1000;
const SHORTEST_PAUSE_MS = 150;

/** Whether the page is current: both the event stream and the last refresh must have succeeded. */
export const connection = computed<FeedConnection>(() => (isPictureMissing.value ? "lost" : feed.value));
export const models = signal<Model[] | null>(null);
export const budgets = signal<ByDevice>({});
/** The memory that models may use on each device now. */
export const available = signal<ByDevice>({});
export const yielding = signal("");
/** null: this host does not belong to a fleet. */
export const membership = signal<Membership | null>(null);
/** Fetched only while the fleet page is open. */
export const fleet = signal<Fleet | null>(null);
export const line = signal<Ticket[]>([]);
export const journal = signal<JournalEntry[]>([]);
export const observations = signal<Observation[]>([]);
export const finished = signal<Finished[]>([]);
export const inProgress = signal<RequestInProgress[]>([]);
/** The server's clock in seconds, updated every second. */
export const now = signal(Date.now() / 1000);
/** Seconds since the last refresh; the pages add it to durations from the server. */
export const stale = computed(() => Math.max(0, now.value - pictureAt.value));

const feed = signal<FeedConnection>("connecting");
const isPictureMissing = signal(false);
const pictureAt = signal(Date.now() / 1000);
let clockOffset = 0;
let newest = 0;
let startedAt = 0;
let leaveFeed = () => {};

export function begin(): void {
  void refresh();
  setInterval(beat, BEAT_MS);
  document.addEventListener("visibilitychange", () => void refresh());
}

/** Fetches the whole state; calls in quick succession are combined into one. */
export async function refresh(): Promise<void> {
  if (isRefreshing || document.hidden) {
    isRefreshWished = true;
    return;
  }
  isRefreshing = true;
  try {
    await takePicture();
    await Promise.all([takeLine(), takeRequests(), takeFleet()]);
    isPictureMissing.value = false;
  } catch {
    isPictureMissing.value = true; // retried every second
  } finally {
    setTimeout(maybeAgain, SHORTEST_PAUSE_MS);
  }
}

let isRefreshing = false;
let isRefreshWished = false;

function maybeAgain(): void {
  isRefreshing = false;
  if (!isRefreshWished) return;
  isRefreshWished = false;
  void refresh();
}

function beat(): void {
  now.value = Date.now() / 1000 + clockOffset;
  void refresh();
}

async function takePicture(): Promise<void> {
  const picture = await house.models();
  if (picture.started_at !== startedAt) beginAnew(picture.started_at);
  clockOffset = picture.at - Date.now() / 1000;
  models.value = picture.models;
  budgets.value = picture.budgets ?? {};
  available.value = Object.fromEntries((picture.devices ?? []).map((each) => [each.device, each.available]));
  yielding.value = picture.yielding ?? "";
  membership.value = picture.fleet ?? null;
  pictureAt.value = now.value = picture.at;
  observe(picture.at, picture.models);
}

async function takeLine(): Promise<void> {
  line.value = (await house.queue()).waiting;
}

async function takeFleet(): Promise<void> {
  if (route.value.page !== "fleet") return;
  fleet.value = membership.value && (await house.fleet());
}

async function takeRequests(): Promise<void> {
  const last = finished.value.at(-1)?.n ?? 0;
  const news = await house.requests(last);
  inProgress.value = news.in_progress;
  if (news.finished.length) finished.value = [...finished.value, ...news.finished].slice(-MOST_REQUESTS);
}

/** The journal has no entry for the start of draining, so the refresh records each phase that it sees. */
function observe(at: number, seen: Model[]): void {
  const known = new Map(observations.value.map((each) => [each.model, each]));
  const news = seen
    .filter(({ phase_s }) => phase_s !== null)
    .map(({ model, phase, phase_s, why }) => ({
      model,
      phase,
      at: at - (phase_s ?? 0),
      why: firstLine(why).cause,
    }))
    .filter(({ model, phase, at }) => {
      const last = known.get(model);
      return last === undefined || last.phase !== phase || at - last.at > 0.25;
    });
  if (news.length) observations.value = [...observations.value, ...news].slice(-MOST_OBSERVATIONS);
}

function heard(event: ServerEvent): void {
  // A gap loses history only: the refresh below fetches the current state.
  if (event.event === "gap") newest = JSON.parse(event.data).n;
  else note(JSON.parse(event.data));
  void refresh();
}

/** A restarted hotseat counts its entries from one again, so the history of the previous process is dropped. */
function beginAnew(started: number): void {
  startedAt = started;
  newest = 0;
  journal.value = [];
  observations.value = [];
  finished.value = [];
  leaveFeed();
  leaveFeed = follow(() => `events?after=${newest}`, {
    heard,
    connectionChanged: (news) => (feed.value = news),
  });
}

function note(entry: JournalEntry): void {
  newest = entry.n;
  pending.push(entry);
  if (pending.length === 1) queueMicrotask(tellAtOnce);
}

const pending: JournalEntry[] = [];

/** The history arrives in thousands of entries: publish them together, so that the page renders once. */
function tellAtOnce(): void {
  journal.value = [...journal.value, ...pending.splice(0)].slice(-MOST_ENTRIES);
}
