// Buttons that call the API, and the notice bar that shows results and errors.

import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { refreshNow } from "../data/state";
import { firstLine } from "../words";
import { Prose } from "./prose";

export interface Notice {
  kind: "done" | "trouble";
  text: string;
}

export const notice = signal<Notice | null>(null);
const DONE_SHOWN_MS = 5000;

export function tell(text: string): void {
  const news: Notice = { kind: "done", text };
  notice.value = news;
  setTimeout(() => notice.value === news && dismissNotice(), DONE_SHOWN_MS);
}

/** Shows the first line only; the pages show the server output that may follow it. */
export function showError(problem: unknown): void {
  const text = problem instanceof Error ? problem.message : String(problem);
  notice.value = { kind: "trouble", text: firstLine(text).cause };
}

export function dismissNotice(): void {
  notice.value = null;
}

interface ActionProps {
  children: ComponentChildren;
  /** null: no request was sent. */
  act: () => Promise<{ message: string } | null>;
  label?: string;
  kind?: "primary" | "danger";
  disabled?: boolean;
  /** Of a button that shows whether something is chosen. */
  isPressed?: boolean;
}

/** Sends one request at a time, is disabled while it waits, and shows the result. */
export function Action({ children, act, label, kind, disabled = false, isPressed }: ActionProps) {
  const isAsking = useSignal(false);
  const ask = async () => {
    isAsking.value = true;
    try {
      const asked = act();
      void refreshNow();
      const answer = await asked;
      if (answer) tell(answer.message);
    } catch (problem) {
      showError(problem);
    } finally {
      isAsking.value = false;
      void refreshNow();
    }
  };
  return (
    <button
      type="button"
      class={kind}
      aria-label={label}
      aria-busy={isAsking.value}
      aria-pressed={isPressed}
      disabled={disabled || isAsking.value}
      onClick={ask}
    >
      {children}
    </button>
  );
}

/** Copies a text to the clipboard, or shows the text if the browser denies access. */
export function CopyButton({ children, text }: { children: ComponentChildren; text: () => string }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      tell("Copied");
    } catch {
      notice.value = {
        kind: "trouble",
        text: `The browser denied access to the clipboard. Copy this text:\n${text()}`,
      };
    }
  };
  return (
    <button type="button" onClick={copy}>
      {children}
    </button>
  );
}

export function download(name: string, kind: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function NoticeBar() {
  const news = notice.value;
  return (
    <div class="notices" role="status" aria-live="polite">
      {news && (
        <div class={`notice ${news.kind}`}>
          <pre>
            <Prose text={news.text} />
          </pre>
          <button type="button" class="quiet" aria-label="Dismiss" onClick={dismissNotice}>
            ✕
          </button>
        </div>
      )}
    </div>
  );
}
