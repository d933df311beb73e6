// PURE: formats figures as text, the same way on every page.

/** No line break between a figure and its unit. */
const NB = "\u00a0";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function duration(seconds: number): string {
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)}${NB}ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)}${NB}s`;
  if (seconds < 59.5) return `${Math.round(seconds)}${NB}s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86_400) return pair(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return pair(Math.floor(whole / 86_400), "d", Math.floor((whole % 86_400) / 3600), "h");
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small ? `${large}${NB}${largeUnit} ${small}${NB}${smallUnit}` : `${large}${NB}${largeUnit}`;
}

/** A dash for an unknown value. */
export function orDash<Value>(value: Value | null | undefined, tell: (value: Value) => string): string {
  return value === null || value === undefined ? "–" : tell(value);
}

export function bytes(count: number): string {
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 || Number.isInteger(value) ? 0 : 1;
  return `${value.toFixed(digits)}${NB}${UNITS[unit]}`;
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** What adopted means. */
export const ADOPTED = "started by an earlier process of hotseat";

export function clock(at: number, withTenths = false): string {
  const moment = new Date(at * 1000);
  const [hours, minutes, seconds] = [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(
    twoDigits,
  );
  const tenths = withTenths ? `.${Math.floor(moment.getMilliseconds() / 100)}` : "";
  return `${hours}:${minutes}:${seconds}${tenths}`;
}

/** `2026-11-16`, in local time. */
export function day(at: number): string {
  const moment = new Date(at * 1000);
  return [moment.getFullYear(), moment.getMonth() + 1, moment.getDate()].map(twoDigits).join("-");
}

function twoDigits(number: number): string {
  return String(number).padStart(2, "0");
}

const ESCAPES = new RegExp(`${String.fromCharCode(27)}(\\[[0-9;?]*[A-Za-z]|\\][^\\u0007]*\\u0007)`, "g");

/** Without the escape sequences by which programs colour their output. */
export function withoutEscapes(text: string): string {
  return text.replace(ESCAPES, "");
}

/** `8,192`. */
export function tokens(count: number): string {
  return count.toLocaleString("en");
}

export function rate(perSecond: number): string {
  return perSecond.toFixed(perSecond < 10 ? 1 : 0);
}

/** Separates the cause of a failure from the server output that follows it. */
export function firstLine(text: string): { cause: string; output: string } {
  const [cause = "", ...rest] = text.split("\n");
  return { cause: cause.replace(/; (its )?last output( was)?:$/, ""), output: rest.join("\n") };
}

/** Words of a command as a shell reads them; macros such as `${PORT}` stay as they are in the configuration. */
export function commandLine(words: string[]): string {
  return words.map((word) => (/^[\w@%+=:,./${}-]+$/.test(word) ? word : quoted(word))).join(" ");
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
