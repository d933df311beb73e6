// The current state of hotseat, in signals. An event only triggers a refresh, and each refresh fetches the whole state:
// so the page cannot drift from the server, and a gap in the event stream loses history only.

import { computed, signal } from "@preact/signals";
import type { Observation } from "../timeline/lanes";
import { route } from "../route";
import { firstLine } from "../words";
import { api } from "./api";
import { follow, type FeedConnection } from "./feed";
import { pauseAfter } from "./pace";
import { continued } from "./restart";
import type {
  ByDevice,
  Finished,
  Fleet,
  JournalEntry,
  Membership,
  Model,
  Ticket,
  RequestInProgress,
} from "./types";
import type { ServerEvent } from "./sse";

const MOST_ENTRIES = 5000;
const MOST_REQUESTS = 5000;
const MOST_OBSERVATIONS = 500;
const BEAT_MS = 1000;
const SHORTEST_PAUSE_MS = 150;

/** Whether the page is current: both the event stream and the last refresh must have succeeded. */
export const connection = computed<FeedConnection>(() => (isSnapshotMissing.value ? "lost" : feed.value));
export const models = signal<Model[] | null>(null);
export const budgets = signal<ByDevice>({});
/** The memory that models may use on each device now. */
export const available = signal<ByDevice>({});
export const yielding = signal("");
/** The last reload had errors: the configuration before is active, or only its certificate is the old one. */
export const hasReloadFailed = signal(false);
/** null: this host does not belong to a fleet. */
export const membership = signal<Membership | null>(null);
/** Fetched only while the fleet page is open; that of a large fleet every few seconds. */
export const fleet = signal<Fleet | null>(null);
export const queue = signal<Ticket[]>([]);
export const journal = signal<JournalEntry[]>([]);
export const observations = signal<Observation[]>([]);
export const finished = signal<Finished[]>([]);
export const inProgress = signal<RequestInProgress[]>([]);
/** The server's clock in seconds, updated every second. */
export const now = signal(Date.now() / 1000);
/** Seconds since the last refresh; the pages add it to durations from the server. */
export const stale = computed(() => Math.max(0, now.value - snapshotAt.value));
/** The same since the fleet was fetched. */
export const sinceFleet = computed(() => Math.max(0, now.value - fleetAt.value));

const feed = signal<FeedConnection>("connecting");
const isSnapshotMissing = signal(false);
const snapshotAt = signal(Date.now() / 1000);
const fleetAt = signal(0);
let fleetIsDueMs = 0;
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
    isRefreshRequested = true;
    return;
  }
  isRefreshing = true;
  try {
    await fetchModels();
    await Promise.all([fetchQueue(), fetchRequests(), fetchFleet()]);
    isSnapshotMissing.value = false;
  } catch {
    isSnapshotMissing.value = true; // retried every second
  } finally {
    setTimeout(maybeAgain, SHORTEST_PAUSE_MS);
  }
}

/** Also fetches what is not due yet: an operator waits for the effect of an action. */
export function refreshNow(): Promise<void> {
  fleetIsDueMs = 0;
  return refresh();
}

let isRefreshing = false;
let isRefreshRequested = false;

function maybeAgain(): void {
  isRefreshing = false;
  if (!isRefreshRequested) return;
  isRefreshRequested = false;
  void refresh();
}

function beat(): void {
  now.value = Date.now() / 1000 + clockOffset;
  void refresh();
}

async function fetchModels(): Promise<void> {
  const snapshot = await api.models();
  if (snapshot.started_at !== startedAt) beginAnew(snapshot.started_at);
  clockOffset = snapshot.at - Date.now() / 1000;
  models.value = snapshot.models;
  budgets.value = snapshot.budgets ?? {};
  available.value = Object.fromEntries((snapshot.devices ?? []).map((each) => [each.device, each.available]));
  yielding.value = snapshot.yielding ?? "";
  hasReloadFailed.value = snapshot.reload_failed ?? false;
  membership.value = snapshot.fleet ?? null;
  snapshotAt.value = now.value = snapshot.at;
  observe(snapshot.at, snapshot.models);
}

async function fetchQueue(): Promise<void> {
  queue.value = (await api.queue()).waiting;
}

async function fetchFleet(): Promise<void> {
  const began = performance.now();
  if (route.value.page !== "fleet" || began < fleetIsDueMs) return;
  fleet.value = membership.value && (await api.fleet());
  fleetAt.value = now.value;
  fleetIsDueMs = performance.now() + pauseAfter(performance.now() - began);
}

async function fetchRequests(): Promise<void> {
  const last = finished.value.at(-1)?.n ?? 0;
  const news = await api.requests(last);
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

function received(event: ServerEvent): void {
  // A gap loses history only: the refresh below fetches the current state.
  if (event.event === "gap") newest = JSON.parse(event.data).n;
  else note(JSON.parse(event.data));
  void refresh();
}

/** Whether the history of the previous process goes on is known with the first entry of the new one. */
function beginAnew(started: number): void {
  startedAt = started;
  publishPending();
  earlier = { journal: journal.value, observations: observations.value };
  newest = 0;
  journal.value = [];
  observations.value = [];
  finished.value = [];
  leaveFeed();
  leaveFeed = follow(() => `events?after=${newest}`, {
    received,
    connectionChanged: (news) => (feed.value = news),
  });
}

let earlier: { journal: JournalEntry[]; observations: Observation[] } | null = null;

function takeUp(before: NonNullable<typeof earlier>, first: JournalEntry): void {
  earlier = null;
  const kept = continued(before.journal, first);
  if (kept.length === 0) return;
  journal.value = kept;
  observations.value = [...before.observations, ...observations.value].slice(-MOST_OBSERVATIONS);
}

function note(entry: JournalEntry): void {
  if (earlier) takeUp(earlier, entry);
  newest = entry.n;
  pending.push(entry);
  if (pending.length === 1) queueMicrotask(publishPending);
}

const pending: JournalEntry[] = [];

/** The history arrives in thousands of entries: publish them together, so that the page renders once. */
function publishPending(): void {
  journal.value = [...journal.value, ...pending.splice(0)].slice(-MOST_ENTRIES);
}
