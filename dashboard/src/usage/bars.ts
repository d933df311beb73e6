// PURE: the usage of each day as stacked bars: the names with the most tokens, and all others together.

import type { Used, UsageEntry } from "../data/types";

export type By = "model" | "key";

const MOST_SERIES = 6;
const DAY_MS = 86_400_000;

export interface Bar {
  day: string;
  /** One number per series; a last one for all others, if there are any. */
  tokens: number[];
}

export interface Bars {
  series: string[];
  hasOthers: boolean;
  bars: Bar[];
  /** The height of the highest bar. */
  highest: number;
}

export type Sum = Used & { name: string };

export function tokensOf({ prompt_tokens, completion_tokens }: Used): number {
  return prompt_tokens + completion_tokens;
}

/** So many days, the last one included. */
export function daysUntil(last: string, count: number): string[] {
  const end = Date.parse(last);
  return Array.from({ length: count }, (_, n) => dayOf(end - (count - 1 - n) * DAY_MS));
}

/** `2026-11-17`, in UTC. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** One sum per name over all days, those with the most tokens first. */
export function sumsOf(entries: readonly UsageEntry[], by: By): Sum[] {
  const sums = new Map<string, Sum>();
  for (const entry of entries) {
    const name = entry[by] ?? "";
    const before = sums.get(name);
    sums.set(name, before ? { name, ...added(before, entry) } : { name, ...added(entry) });
  }
  return [...sums.values()].sort((one, other) => tokensOf(other) - tokensOf(one));
}

export function added(...all: Used[]): Used {
  const sum = (of: (used: Used) => number) => all.reduce((total, used) => total + of(used), 0);
  return {
    requests: sum(({ requests }) => requests),
    unknown: sum(({ unknown }) => unknown),
    prompt_tokens: sum(({ prompt_tokens }) => prompt_tokens),
    cached_tokens: sum(({ cached_tokens }) => cached_tokens),
    completion_tokens: sum(({ completion_tokens }) => completion_tokens),
    estimated_tokens: sum(({ estimated_tokens }) => estimated_tokens),
  };
}

export function barsOf(entries: readonly UsageEntry[], by: By, days: readonly string[]): Bars {
  const names = sumsOf(entries, by).map(({ name }) => name);
  const series = names.slice(0, MOST_SERIES);
  const hasOthers = names.length > MOST_SERIES;
  const bars = days.map((day) => ({ day, tokens: [...series, ...(hasOthers ? [""] : [])].map(() => 0) }));
  const byDay = new Map(bars.map((bar) => [bar.day, bar]));
  for (const entry of entries) {
    const at = series.indexOf(entry[by] ?? "");
    const bar = byDay.get(entry.day ?? "");
    const place = at < 0 ? series.length : at;
    if (bar) bar.tokens[place] = (bar.tokens[place] ?? 0) + tokensOf(entry);
  }
  return { series, hasOthers, bars, highest: Math.max(0, ...bars.map(total)) };
}

export function total({ tokens }: Bar): number {
  return tokens.reduce((sum, each) => sum + each, 0);
}
