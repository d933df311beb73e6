// What the resident models take of each device, against what they may take.

import { available, budgets, makingWay, models } from "../house/live";
import type { ByDevice, Model } from "../house/shapes";
import { Card, Page } from "../parts/frame";
import { PhaseChip } from "../parts/phase";
import { type Column, Table } from "../parts/table";
import { bytes, orDash } from "../words";

const TAKES_ROOM = ["loading", "ready", "draining", "unloading", "asleep"];

export function MemoryPage() {
  const all = models.value ?? [];
  const devices = devicesOf(all, budgets.value);
  return (
    <Page title="Memory" about={about(devices.length, Object.keys(budgets.value).length)}>
      {makingWay.value && <p role="status">Models make way: {makingWay.value}.</p>}
      {devices.map((device) => (
        <Device key={device} name={device} all={all} budget={budgets.value[device] ?? null} />
      ))}
      <Card title="Models" note="what is measured is of the present process">
        <Table
          caption="Memory of the models"
          columns={COLUMNS}
          rows={all}
          keyOf={(model) => model.model}
          empty="No models are configured."
        />
      </Card>
    </Page>
  );
}

function about(devices: number, budgeted: number): string {
  if (budgeted) return "What resident models take, against what they may take together.";
  if (devices) return "No budget is configured, so models take turns by their groups. `devices` sets one.";
  return "Nothing is known of any device. With `devices: auto` in the configuration, models that fit run together.";
}

function devicesOf(all: Model[], budgeted: ByDevice): string[] {
  const named = all.flatMap((model) => Object.keys(sizes(model) ?? {}));
  return [...new Set([...Object.keys(budgeted), ...named])].sort();
}

/** What counts. */
function sizes({ footprint, memory }: Model): ByDevice | null {
  return footprint?.counts_as ?? memory ?? null;
}

interface DeviceWishes {
  name: string;
  all: Model[];
  budget: number | null;
}

function Device({ name, all, budget }: DeviceWishes) {
  const residents = all.filter((model) => TAKES_ROOM.includes(model.phase));
  const shares = residents.map((model) => ({
    model,
    size: sizes(model)?.[name] ?? (sizes(model) ? 0 : (budget ?? 0)),
  }));
  const taken = shares.reduce((sum, { size }) => sum + size, 0);
  const whole = Math.max(budget ?? 0, taken, 1);
  const limit = budget === null ? null : (available.value[name] ?? budget);
  const free = limit === null ? null : limit - taken;
  return (
    <Card title={name} note={note(taken, budget, limit)}>
      <div class="room" role="img" aria-label={told(name, shares, free)}>
        {shares
          .filter(({ size }) => size > 0)
          .map(({ model, size }) => (
            <div
              key={model.model}
              title={model.model}
              class={`share ${model.phase}`}
              style={{ width: `${(size / whole) * 100}%` }}
            >
              <strong>{model.model}</strong>
              <span>{sizes(model) ? bytes(size) : "unknown, so all of it"}</span>
            </div>
          ))}
        {free !== null && free > 0 && <div class="free">{bytes(free)} free</div>}
      </div>
    </Card>
  );
}

function note(taken: number, budget: number | null, limit: number | null): string {
  if (budget === null || limit === null) return `${bytes(taken)} taken`;
  const others = limit < budget ? `; others leave ${bytes(limit)}` : "";
  return `${bytes(taken)} taken of ${bytes(budget)}${others}`;
}

function told(name: string, shares: { model: Model; size: number }[], free: number | null): string {
  const each = shares.map(({ model, size }) => `${model.model} ${bytes(size)}`);
  return `${name}: ${[...each, ...(free === null ? [] : [`free ${bytes(free)}`])].join(", ") || "nothing is taken"}`;
}

const COLUMNS: Column<Model>[] = [
  { name: "model", by: ({ model }) => model, cell: ({ model }) => model },
  { name: "phase", by: ({ phase }) => phase, cell: ({ phase }) => <PhaseChip phase={phase} /> },
  sizeColumn("configured", ({ memory }) => memory),
  sizeColumn("estimated", ({ footprint }) => footprint?.estimated),
  sizeColumn("measured", ({ footprint }) => footprint?.measured),
  sizeColumn("counts as", sizes),
  { name: "by", by: sourceOf, cell: sourceOf },
];

function sizeColumn(name: string, of: (model: Model) => ByDevice | null | undefined): Column<Model> {
  const sum = (model: Model) => {
    const found = of(model);
    return found ? Object.values(found).reduce((total, each) => total + each, 0) : null;
  };
  return {
    name,
    by: (model) => sum(model) ?? -1,
    cell: (model) => orDash(of(model) ?? null, perDevice),
    kind: "number",
  };
}

/** `1 GiB`, or each device by its name where there are several. */
function perDevice(found: ByDevice): string {
  const each = Object.entries(found);
  if (each.length === 1) return each.map(([, size]) => bytes(size)).join();
  return each.map(([device, size]) => `${device} ${bytes(size)}`).join(", ") || "–";
}

function sourceOf({ footprint }: Model): string {
  return footprint ? footprint.source : "–";
}
