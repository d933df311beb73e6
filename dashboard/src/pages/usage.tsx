// Requests and tokens of each day, by model or by API key.

import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../data/api";
import type { Usage, Used } from "../data/types";
import { showError } from "../parts/actions";
import { Card, Figure, Page } from "../parts/frame";
import { type Column, Table } from "../parts/table";
import { barsOf, type By, dayOf, daysUntil, type Sum, sumsOf, tokensOf } from "../usage/bars";
import { Chart, DayTable, Legend, shownName } from "../usage/chart";
import { tokens } from "../words";

const REFRESH_MS = 10_000;
const SPANS: [name: string, days: number][] = [
  ["7 days", 7],
  ["30 days", 30],
  ["90 days", 90],
];
const GROUPINGS: [name: string, by: By][] = [
  ["By model", "model"],
  ["By key", "key"],
];

export function UsagePage() {
  const days = useSignal(30);
  const by = useSignal<By>("model");
  const usage = useUsage(days.value, by.value);
  return (
    <Page
      title="Usage"
      about="Tokens of the prompts and of the answers, as the model servers report them. Days are in UTC."
      tools={
        <>
          <Choice title="Time range" entries={SPANS} chosen={days} />
          <Choice title="Grouping" entries={GROUPINGS} chosen={by} />
        </>
      }
    >
      {usage && <Shown usage={usage} by={by.value} days={days.value} />}
    </Page>
  );
}

/** Null until the first answer, and while another question is not answered yet. */
function useUsage(days: number, by: By): Usage | null {
  const found = useSignal<{ usage: Usage; by: By; days: number } | null>(null);
  useEffect(() => {
    let isCurrent = true;
    const keep = (usage: Usage) => {
      if (isCurrent) found.value = { usage, by, days };
    };
    const ask = () => {
      const until = dayOf(Date.now());
      const [since = until] = daysUntil(until, days);
      return api.usage(since, until, by).then(keep);
    };
    ask().catch(showError);
    // The connection status says that the server is gone; once is enough.
    const timer = setInterval(() => ask().catch(() => {}), REFRESH_MS);
    return () => {
      isCurrent = false;
      clearInterval(timer);
    };
  }, [days, by]);
  const isAnswer = found.value?.by === by && found.value.days === days;
  return isAnswer ? (found.value?.usage ?? null) : null;
}

interface ChoiceProps<Value> {
  title: string;
  entries: [name: string, value: Value][];
  chosen: Signal<Value>;
}

function Choice<Value>({ title, entries, chosen }: ChoiceProps<Value>) {
  return (
    <fieldset class="choice">
      <legend class="unseen">{title}</legend>
      {entries.map(([name, value]) => (
        <button
          key={name}
          type="button"
          aria-pressed={chosen.value === value}
          onClick={() => (chosen.value = value)}
        >
          {name}
        </button>
      ))}
    </fieldset>
  );
}

function unreported({ unknown, estimated_tokens }: Used): string {
  const estimate = estimated_tokens ? `: about ${tokens(estimated_tokens)} tokens more` : "";
  return `${tokens(unknown)} without token counts${estimate}`;
}

interface ShownProps {
  usage: Usage;
  by: By;
  days: number;
}

function Shown({ usage, by, days }: ShownProps) {
  const drawn = barsOf(usage.usage, by, daysUntil(usage.until, days));
  const { total: sum } = usage;
  return (
    <>
      <dl class="figures">
        <Figure name="Requests" value={tokens(sum.requests)} note={unreported(sum)} />
        <Figure name="Prompt tokens" value={tokens(sum.prompt_tokens)} note={cachedShare(sum)} />
        <Figure name="Completion tokens" value={tokens(sum.completion_tokens)} />
      </dl>
      <Card title="Tokens per day" note={<Legend drawn={drawn} />}>
        <Chart drawn={drawn} />
        <details>
          <summary>Show as table</summary>
          <DayTable drawn={drawn} />
        </details>
      </Card>
      <Card title={by === "model" ? "Models" : "Keys"}>
        <Table
          caption={`Usage by ${by}`}
          columns={columnsFor(by)}
          rows={sumsOf(usage.usage, by)}
          keyOf={({ name }) => name}
          empty="Nothing was used in this time."
        />
      </Card>
    </>
  );
}

function cachedShare({ prompt_tokens, cached_tokens }: Usage["total"]): string {
  return prompt_tokens ? `${Math.round((cached_tokens / prompt_tokens) * 100)} % cached` : "";
}

function columnsFor(by: By): Column<Sum>[] {
  const number = (name: string, of: (sum: Sum) => number, isMinor = false): Column<Sum> => ({
    name,
    by: of,
    cell: (sum) => tokens(of(sum)),
    kind: "number",
    isMinor,
  });
  return [
    {
      name: by === "model" ? "Model" : "Key",
      by: ({ name }) => name,
      cell: ({ name }) => shownName(name),
    },
    number("Requests", ({ requests }) => requests),
    number("Unknown", ({ unknown }) => unknown, true),
    number("Prompt", ({ prompt_tokens }) => prompt_tokens, true),
    number("Cached", ({ cached_tokens }) => cached_tokens, true),
    number("Completion", ({ completion_tokens }) => completion_tokens, true),
    number("Tokens", tokensOf),
  ];
}
