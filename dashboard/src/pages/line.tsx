// Who waits, for what, why, and for how long still.

import { house } from "../house/api";
import { line, models, stale } from "../house/live";
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

/** What the scheduler says, else what is left of a load that was measured before. */
function estimate({ estimate_s, model }: Ticket): number | null {
  if (estimate_s !== undefined && estimate_s !== null) return Math.max(0, estimate_s - stale.value);
  const wanted = models.value?.find((each) => each.model === model);
  if (wanted?.phase !== "loading" || wanted.load_s === null || wanted.phase_s === null) return null;
  return Math.max(0, wanted.load_s - wanted.phase_s - stale.value);
}

const COLUMNS: Column<Ticket>[] = [
  { name: "ticket", by: ({ ticket }) => ticket, cell: ({ ticket }) => ticket, kind: "number" },
  { name: "model", by: ({ model }) => model, cell: ({ model }) => model },
  { name: "client", by: ({ client }) => client, cell: ({ client }) => client },
  { name: "has waited", by: waited, cell: (ticket) => duration(waited(ticket)), kind: "number" },
  {
    name: "estimate",
    by: (ticket) => estimate(ticket) ?? 1e9,
    cell: (ticket) => orDash(estimate(ticket), duration),
    kind: "number",
  },
  { name: "why", cell: ({ why }) => why, kind: "long" },
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
