// The current page, taken from the URL fragment: every page has a link, and the server needs no route for it.

import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

/** `#/logs?model=qwen` is the page "logs" with one query parameter. */
export const route = computed(() => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?");
  return { page: path || "models", query: new URLSearchParams(query) };
});

export function linkTo(page: string, query: Record<string, string> = {}): string {
  const asked = new URLSearchParams(query).toString();
  return `#/${page}${asked && `?${asked}`}`;
}

/** Replaces the current address, without an entry in the history. */
export function rewrite(link: string): void {
  history.replaceState(null, "", link);
  hash.value = location.hash;
}
