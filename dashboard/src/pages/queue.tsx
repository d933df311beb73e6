// Waiting requests: for which model, why, and how much longer.

import { api } from "../data/api";
import { queue, stale } from "../data/state";
import type { Ticket } from "../data/types";
import { Action } from "../parts/actions";
import { Card, Page } from "../parts/frame";
import { Prose } from "../parts/prose";
import { type Column, Table } from "../parts/table";
import { counted, duration, orDash } from "../words";

export function QueuePage() {
  const waiting = queue.value;
  const models = new Set(waiting.map(({ model }) => model));
  return (
    <Page
      title="Queue"
      about={
        waiting.length
          ? `${counted(waiting.length, "request")} waiting for ${counted(models.size, "model")}.`
          : "Requests to a ready model are forwarded immediately. All other requests wait here until their model can serve them."
      }
    >
      <Card title="Waiting" note="oldest first">
        <Table
          caption="Waiting requests"
          columns={COLUMNS}
          rows={waiting}
          keyOf={({ ticket }) => ticket}
          empty="No waiting requests."
        />
      </Card>
    </Page>
  );
}

const waited = ({ waited_s }: Ticket) => waited_s + stale.value;

const left = (seconds: number | null | undefined) =>
  seconds === null || seconds === undefined ? null : Math.max(0, seconds - stale.value);

const COLUMNS: Column<Ticket>[] = [
  { name: "Model", by: ({ model }) => model, cell: ({ model }) => model },
  { name: "Reason", cell: ({ why }) => <Prose text={why} />, kind: "long" },
  { name: "Waited", by: waited, cell: (ticket) => duration(waited(ticket)), kind: "number" },
  {
    name: "Expected in",
    by: ({ expected_s }) => expected_s ?? Number.MAX_VALUE,
    cell: ({ expected_s }) => orDash(left(expected_s), duration),
    kind: "number",
  },
  {
    name: "At most",
    by: ({ at_most_s }) => at_most_s ?? Number.MAX_VALUE,
    cell: ({ at_most_s }) => orDash(left(at_most_s), duration),
    kind: "number",
  },
  { name: "Client", by: ({ client }) => client, cell: ({ client }) => client, isMinor: true },
  { name: "Ticket", by: ({ ticket }) => ticket, cell: ({ ticket }) => ticket, kind: "number", isMinor: true },
  {
    name: "Cancel",
    cell: ({ ticket }) => (
      <Action label={`Cancel ticket ${ticket}`} act={() => api.cancel(ticket)}>
        Cancel
      </Action>
    ),
    kind: "action",
  },
];
