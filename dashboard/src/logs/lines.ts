// PURE: log lines in the order of time, their levels, and the filter.

import { counted, day } from "../words";

export const LEVELS = ["debug", "info", "warning", "error", "critical"] as const;
export type Level = (typeof LEVELS)[number];

/** A line as the API sends it. */
interface SentLine {
  /** Seconds since 1970. */
  at: number;
  /** null: hotseat itself. */
  model: string | null;
  /** null: not known, as for every line of a model server. */
  level: Level | null;
  text: string;
}

export interface LogLine extends SentLine {
  /** The number of the line on this page. */
  n: number;
}

export interface Filter {
  words: string;
  /** Warnings and errors only. */
  troubleOnly: boolean;
}

const BY_LETTER: Record<string, Level> = { D: "debug", I: "info", W: "warning", E: "error", C: "critical" };
const STATED = /^(?:[\d.]+ )?(?:([DIWE])|(DEBUG|INFO|WARNING|ERROR|CRITICAL))[ :]/;

export function parsed(n: number, data: string): LogLine {
  const line = JSON.parse(data) as SentLine;
  return { ...line, n, level: line.level ?? levelOf(line.text) };
}

/** llama-server begins a line with a letter, Python servers with a word; others only mention the problem. */
export function levelOf(text: string): Level | null {
  const [, letter, word] = STATED.exec(text) ?? [];
  const stated = BY_LETTER[(letter ?? word ?? "").charAt(0)];
  if (stated) return isTrouble(stated) ? stated : null;
  if (/\b(error|fatal|traceback)\b/i.test(text)) return "error";
  return /\bwarn(ing)?\b/i.test(text) ? "warning" : null;
}

export function isTrouble(level: Level | null): boolean {
  return level !== null && LEVELS.indexOf(level) >= LEVELS.indexOf("warning");
}

/** Lines of different sources arrive up to a moment too late: insert each where it belongs. */
export function insert(lines: LogLine[], line: LogLine): void {
  let place = lines.length;
  while (place > 0 && (lines[place - 1] as LogLine).at > line.at) place -= 1;
  lines.splice(place, 0, line);
}

export function matching(lines: LogLine[], { words, troubleOnly }: Filter): LogLine[] {
  const wanted = words.toLowerCase();
  return lines.filter(
    (line) => (!troubleOnly || isTrouble(line.level)) && line.text.toLowerCase().includes(wanted),
  );
}

/** Whether the list shows the day above this line: not if it is today and there is no other. */
export function beginsDay(line: LogLine, previous: LogLine | undefined, now: number): boolean {
  return day(line.at) !== day(previous?.at ?? now);
}

export function sourceOf({ model }: LogLine): string {
  return model ?? "hotseat";
}

/** The form of `hotseat logs` and of the API. */
export function asText(line: LogLine): string {
  const level = line.model === null && line.level ? `${line.level.toUpperCase()} ` : "";
  return `${new Date(line.at * 1000).toISOString()} ${sourceOf(line)} | ${level}${line.text}`;
}

/** `3 lines`, or `3 of 20 lines` with a filter. */
export function shownOf(shown: number, all: number): string {
  return shown === all ? counted(all, "line") : `${shown} of ${counted(all, "line")}`;
}
