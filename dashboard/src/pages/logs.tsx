// The output of the model servers and hotseat's own log, in the order of time.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { models } from "../data/state";
import { useNewest } from "../logs/feed";
import { asText, type Filter, matching, shownOf } from "../logs/lines";
import { LogView } from "../logs/view";
import { download } from "../parts/actions";
import { Page } from "../parts/frame";
import { linkTo, route } from "../route";

export function LogsPage() {
  const query = route.value.query.toString();
  const isPaused = useSignal(false);
  const filter = useSignal<Filter>({ words: "", troubleOnly: false });
  useEffect(() => void (isPaused.value = false), [query]); // there is nothing to read yet
  const { lines, unseen } = useNewest(query, isPaused.value);
  const shown = useMemo(() => matching(lines, filter.value), [lines, filter.value]);
  const news = useMemo(() => matching(unseen, filter.value).length, [unseen, filter.value]);
  const source = route.value.query.get("model") ?? (query ? "hotseat" : "all");
  const save = () =>
    download(`${source}.log`, "text/plain", shown.map((line) => `${asText(line)}\n`).join(""));
  return (
    <Page
      title="Logs"
      about={shownOf(shown.length, lines.length)}
      tools={
        <>
          <SourceChoice query={query} />
          <FilterFields filter={filter.value} change={(changed) => (filter.value = changed)} />
          <button type="button" class="pause" onClick={() => (isPaused.value = !isPaused.value)}>
            {isPaused.value ? "Follow" : "Pause"}
          </button>
          <button type="button" onClick={save}>
            Download
          </button>
        </>
      }
    >
      <LogView
        lines={shown}
        news={news}
        hasOneSource={query !== ""}
        isPaused={isPaused.value}
        pause={(paused) => (isPaused.value = paused)}
      />
    </Page>
  );
}

const OWN = linkTo("logs", { own: "true" });

function SourceChoice({ query }: { query: string }) {
  return (
    <select
      aria-label="Source"
      value={`#/logs${query && `?${query}`}`}
      onChange={(event) => (location.hash = event.currentTarget.value)}
    >
      <option value={linkTo("logs")}>All sources</option>
      <option value={OWN}>hotseat itself</option>
      {(models.value ?? []).map(({ model }) => (
        <option key={model} value={linkTo("logs", { model })}>
          {model}
        </option>
      ))}
    </select>
  );
}

function FilterFields({ filter, change }: { filter: Filter; change: (filter: Filter) => void }) {
  return (
    <>
      <select
        aria-label="Level"
        onChange={(event) => change({ ...filter, troubleOnly: event.currentTarget.value !== "" })}
      >
        <option value="">All levels</option>
        <option value="trouble">Warnings and errors</option>
      </select>
      <input
        type="search"
        class="narrow"
        placeholder="Filter"
        aria-label="Filter lines"
        onInput={(event) => change({ ...filter, words: event.currentTarget.value })}
      />
    </>
  );
}
