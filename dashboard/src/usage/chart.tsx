// The tokens of each day as stacked bars, with a legend, and the same as a table.

import { type Column, Table } from "../parts/table";
import { tokens } from "../words";
import { type Bar, type Bars, total } from "./bars";

/** Requests without an API key have an empty name. */
export function shownName(name: string): string {
  return name || "no key";
}

function namesOf({ series, hasOthers }: Bars): string[] {
  return [...series.map(shownName), ...(hasOthers ? ["others"] : [])];
}

export function Legend({ drawn }: { drawn: Bars }) {
  return (
    <span class="legend">
      {namesOf(drawn).map((name, at) => (
        <span key={at}>
          <i class={`series-${at}`} aria-hidden="true" />
          {name}
        </span>
      ))}
    </span>
  );
}

export function Chart({ drawn }: { drawn: Bars }) {
  const { bars, highest } = drawn;
  return (
    <>
      <p class="bars-scale muted">{tokens(highest)} tokens</p>
      <div
        class="bars"
        role="img"
        aria-label={`Chart of the tokens of each of ${bars.length} days. A table follows.`}
      >
        {bars.map((bar) => (
          <div key={bar.day} title={wordsFor(bar, drawn)}>
            {bar.tokens.map((count, at) => (
              <i key={at} class={`series-${at}`} style={{ height: `${(100 * count) / (highest || 1)}%` }} />
            ))}
          </div>
        ))}
      </div>
      <p class="bars-days muted">
        <span>{bars[0]?.day}</span>
        <span>{bars.at(-1)?.day}</span>
      </p>
    </>
  );
}

function wordsFor(bar: Bar, drawn: Bars): string {
  const each = namesOf(drawn).map((name, at) => [name, bar.tokens[at] ?? 0] as const);
  const used = each.filter(([, count]) => count > 0).map(([name, count]) => `${name} ${tokens(count)}`);
  return `${bar.day}: ${used.join(", ") || "nothing"}`;
}

export function DayTable({ drawn }: { drawn: Bars }) {
  const columns: Column<Bar>[] = [
    { name: "Day", by: ({ day }) => day, cell: ({ day }) => day },
    { name: "Tokens", by: total, cell: (bar) => tokens(total(bar)), kind: "number" },
    ...namesOf(drawn).map((name, at): Column<Bar> => ({
      name,
      by: (bar) => bar.tokens[at] ?? 0,
      cell: (bar) => tokens(bar.tokens[at] ?? 0),
      kind: "number",
    })),
  ];
  return (
    <Table
      caption="Tokens per day"
      columns={columns}
      rows={drawn.bars.toReversed()}
      keyOf={({ day }) => day}
      empty=""
    />
  );
}
