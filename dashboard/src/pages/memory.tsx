// The memory that resident models use on each device, against its budget.

import { available, budgets, yielding, models } from "../data/state";
import type { ByDevice, Model } from "../data/types";
import { Card, Page } from "../parts/frame";
import { PhaseChip, phaseShown } from "../parts/phase";
import { type Column, Table } from "../parts/table";
import { bytes, orDash } from "../words";

const TAKES_ROOM = ["loading", "ready", "draining", "unloading", "asleep"];

export function MemoryPage() {
  const all = models.value ?? [];
  const devices = devicesOf(all, budgets.value);
  return (
    <Page title="Memory" about={about(devices.length, Object.keys(budgets.value).length)}>
      {yielding.value && <p role="status">Yielding memory: {yielding.value}.</p>}
      {devices.map((device) => (
        <Device key={device} name={device} all={all} budget={budgets.value[device] ?? null} />
      ))}
      <Card title="Models" note="what each counts as against the budget, and where the figure comes from">
        <Table
          caption="Memory by model"
          columns={COLUMNS}
          rows={all}
          keyOf={(model) => model.model}
          empty="No models configured."
        />
      </Card>
    </Page>
  );
}

function about(devices: number, budgeted: number): string {
  if (budgeted) return "Memory used by resident models, against the budget of each device.";
  if (devices)
    return "No memory budget is configured, so models swap according to their groups. Set `devices` to configure a budget.";
  return "No devices are known. Set `devices: auto` in the configuration to run models at the same time if they fit.";
}

function devicesOf(all: Model[], budgeted: ByDevice): string[] {
  const named = all.flatMap((model) => Object.keys(sizes(model) ?? {}));
  return [...new Set([...Object.keys(budgeted), ...named])].sort();
}

/** The sizes that the scheduler uses. */
function sizes({ footprint, memory }: Model): ByDevice | null {
  return footprint?.reserved ?? memory ?? null;
}

interface DeviceProps {
  name: string;
  all: Model[];
  budget: number | null;
}

function Device({ name, all, budget }: DeviceProps) {
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
      <div class="memory-bar" role="img" aria-label={barLabel(name, shares, free)}>
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
              <span>{sizes(model) ? bytes(size) : "unknown, full budget"}</span>
            </div>
          ))}
        {free !== null && free > 0 && <div class="free">{bytes(free)} free</div>}
      </div>
    </Card>
  );
}

function note(taken: number, budget: number | null, limit: number | null): string {
  if (budget === null || limit === null) return `${bytes(taken)} used`;
  const others = limit < budget ? `; other programs leave ${bytes(limit)}` : "";
  return `${bytes(taken)} of ${bytes(budget)} used${others}`;
}

function barLabel(name: string, shares: { model: Model; size: number }[], free: number | null): string {
  const each = shares.map(({ model, size }) => `${model.model} ${bytes(size)}`);
  return `${name}: ${[...each, ...(free === null ? [] : [`free ${bytes(free)}`])].join(", ") || "empty"}`;
}

const COLUMNS: Column<Model>[] = [
  { name: "Model", by: ({ model }) => model, cell: ({ model }) => model },
  { name: "Phase", by: ({ phase }) => phase, cell: (model) => <PhaseChip phase={phaseShown(model)} /> },
  { ...sizeColumn("Declared", ({ memory }) => memory), isMinor: true },
  { ...sizeColumn("Estimated", ({ footprint }) => footprint?.estimated), isMinor: true },
  { ...sizeColumn("Measured", ({ footprint }) => footprint?.measured), isMinor: true },
  sizeColumn("Counts as", sizes),
  { name: "Source", by: sourceOf, cell: sourceOf },
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

/** `1 GiB`, or a list with device names for several devices. */
function perDevice(found: ByDevice): string {
  const each = Object.entries(found);
  if (each.length === 1) return each.map(([, size]) => bytes(size)).join();
  return each.map(([device, size]) => `${device} ${bytes(size)}`).join(", ") || "–";
}

function sourceOf({ footprint }: Model): string {
  return footprint ? footprint.source : "–";
}
