// Who waits, for what, why, and for how long still.

import { house } from "../house/api";
import { line, stale } from "../house/live";
import type { Ticket } from "../house/shapes";
import { Action } from "../parts/actions";
import { Card, Page } from "../parts/frame";
import { type Column, Table } from "../parts/table";
import { counted, duration, orDash } from "../words";

export function LinePage() {
  const waiting = line.value;
  const models = new Set(waiting.map(({ model }) => model));
  return (
    <Page
      title="Line"
      about={
        waiting.length
          ? `${counted(waiting.length, "request waits", "requests wait")} for ${counted(models.size, "model")}.`
          : "Requests to a ready model pass at once; the others stand here until it is their model's turn."
      }
    >
      <Card title="Waiting" note="oldest first">
        <Table
          caption="Requests that wait"
          columns={COLUMNS}
          rows={waiting}
          keyOf={({ ticket }) => ticket}
          empty="Nobody waits."
        />
      </Card>
    </Page>
  );
}

const waited = ({ waited_s }: Ticket) => waited_s + stale.value;

const left = (seconds: number | null | undefined) =>
  seconds === null || seconds === undefined ? null : Math.max(0, seconds - stale.value);

const COLUMNS: Column<Ticket>[] = [
  { name: "model", by: ({ model }) => model, cell: ({ model }) => model },
  { name: "why", cell: ({ why }) => why, kind: "long" },
  { name: "has waited", by: waited, cell: (ticket) => duration(waited(ticket)), kind: "number" },
  {
    name: "expected in",
    by: ({ expected_s }) => expected_s ?? Number.MAX_VALUE,
    cell: ({ expected_s }) => orDash(left(expected_s), duration),
    kind: "number",
  },
  {
    name: "at most",
    by: ({ at_most_s }) => at_most_s ?? Number.MAX_VALUE,
    cell: ({ at_most_s }) => orDash(left(at_most_s), duration),
    kind: "number",
  },
  { name: "client", by: ({ client }) => client, cell: ({ client }) => client },
  { name: "ticket", by: ({ ticket }) => ticket, cell: ({ ticket }) => ticket, kind: "number" },
  {
    name: "cancel",
    cell: ({ ticket }) => (
      <Action label={`Cancel ticket ${ticket}`} act={() => house.dismiss(ticket)}>
        Cancel
      </Action>
    ),
    kind: "action",
  },
];
