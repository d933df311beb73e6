// The output of the model servers and hotseat's own log, live.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { follow } from "../data/feed";
import { models } from "../data/state";
import { download } from "../parts/actions";
import { Page } from "../parts/frame";
import { Scroller } from "../parts/scroller";
import { linkTo, route } from "../route";
import { clock, counted } from "../words";

const MOST_KEPT = 5000;
const MOST_SHOWN = 1000;
const PAST = 500;
const NEAR_THE_END_PX = 40;
const SHOWN_EVERY_MS = 100;

export function LogsPage() {
  const model = route.value.query.get("model") ?? "";
  const isPaused = useSignal(false);
  const wanted = useSignal("");
  const lines = useLines(model, isPaused.value);
  const matching = useMemo(
    () => lines.filter(({ text }) => text.toLowerCase().includes(wanted.value.toLowerCase())),
    [lines, wanted.value],
  );
  const save = () =>
    download(`hotseat-${model || "all"}.log`, "text/plain", matching.map(({ text }) => `${text}\n`).join(""));
  return (
    <Page
      title="Logs"
      about={`${counted(matching.length, "line")}${isPaused.value ? ", paused" : ""}`}
      tools={
        <>
          <select
            aria-label="Model"
            value={model}
            onChange={(event) => {
              const chosen = event.currentTarget.value;
              location.hash = linkTo("logs", chosen ? { model: chosen } : {});
            }}
          >
            <option value="">All models</option>
            {(models.value ?? []).map((each) => (
              <option key={each.model} value={each.model}>
                {each.model}
              </option>
            ))}
          </select>
          <input
            type="search"
            placeholder="Filter"
            aria-label="Filter lines"
            onInput={(event) => (wanted.value = event.currentTarget.value)}
          />
          <button
            type="button"
            aria-pressed={isPaused.value}
            onClick={() => (isPaused.value = !isPaused.value)}
          >
            Pause
          </button>
          <button type="button" onClick={save}>
            Download
          </button>
        </>
      }
    >
      <Lines lines={matching.slice(-MOST_SHOWN)} isPaused={isPaused.value} />
    </Page>
  );
}

interface Line {
  n: number;
  text: string;
}

/** The last lines of one model or of all models. While paused, new lines are kept but not shown. */
function useLines(model: string, isPaused: boolean): Line[] {
  const shown = useSignal<Line[]>([]);
  const kept = useRef<Line[]>([]);
  useEffect(() => {
    kept.current = shown.value = [];
    let n = 0;
    const chosen = model ? `&model=${encodeURIComponent(model)}` : "";
    return follow(() => `logs?follow=true&lines=${PAST}${chosen}`, {
      received: ({ data }) => {
        n += 1;
        kept.current.push({ n, text: shownText(JSON.parse(data), model === "") });
        if (kept.current.length > MOST_KEPT) kept.current.splice(0, MOST_KEPT / 10);
      },
      // A new connection sends the past lines again.
      connectionChanged: (connection) => {
        if (connection === "connecting") kept.current = [];
      },
    });
  }, [model]);
  useEffect(() => {
    if (isPaused) return;
    // A loading server prints hundreds of lines at once: render them together, not one by one.
    const timer = setInterval(() => {
      if (kept.current.at(-1) !== shown.value.at(-1)) shown.value = [...kept.current];
    }, SHOWN_EVERY_MS);
    return () => clearInterval(timer);
  }, [isPaused, model]);
  return shown.value;
}

function Lines({ lines, isPaused }: { lines: Line[]; isPaused: boolean }) {
  const view = useRef<HTMLElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (isAtEnd.current && !isPaused) view.current?.scrollTo({ top: view.current.scrollHeight });
  }, [lines, isPaused]);
  const onScroll = () => {
    if (!view.current) return;
    const { scrollTop, scrollHeight, clientHeight } = view.current;
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_THE_END_PX;
  };
  return (
    <Scroller class="card log" label="Output" frame={view} onScroll={onScroll}>
      {lines.map(({ n, text }) => (
        <div key={n} class={loudness(text)}>
          {text || " "}
        </div>
      ))}
      {lines.length === 0 && <p class="empty">No output yet.</p>}
    </Scroller>
  );
}

interface SentLine {
  at: number;
  model: string | null;
  level: string | null;
  text: string;
}

function shownText({ at, model, level, text }: SentLine, hasSource: boolean): string {
  const source = hasSource ? `${model ?? "hotseat"} | ` : "";
  return `${clock(at)} ${source}${level ? `${level.toUpperCase()} ` : ""}${text}`;
}

/** llama-server marks errors and warnings with a letter, other servers with a word. */
function loudness(text: string): string {
  if (/ E |\b(error|fatal|traceback)\b/i.test(text)) return "error";
  return / W |\bwarn(ing)?\b/i.test(text) ? "warning" : "";
}
