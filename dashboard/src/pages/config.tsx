// The effective configuration, read-only: it is edited in its file.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../data/api";
import type { ConfigReport } from "../data/types";
import { Action, CopyButton, showError } from "../parts/actions";
import { Card, Page } from "../parts/frame";
import { Prose } from "../parts/prose";
import { bytes, commandLine } from "../words";

export function ConfigPage() {
  const report = useSignal<ConfigReport | null>(null);
  const ask = () => api.config().then((loaded) => (report.value = loaded), showError);
  useEffect(() => void ask(), []);
  const reload = () => api.reload().finally(ask);
  const shown = report.value;
  return (
    <Page
      title="Config"
      about={shown ? `Effective configuration${source(shown)}` : "Loading…"}
      tools={
        <>
          <CopyButton text={() => JSON.stringify(shown?.resolved, null, 2)}>Copy as JSON</CopyButton>
          <Action act={reload}>Reload config</Action>
        </>
      }
    >
      {shown && <Report report={shown} />}
    </Page>
  );
}

function source({ resolved }: ConfigReport): string {
  return resolved.files ? ` from ${resolved.files.join(", ")}` : "";
}

function Report({ report }: { report: ConfigReport }) {
  const { models = {}, settings = {}, concurrency = [], files: _, ...rest } = report.resolved;
  return (
    <>
      <Problems
        title="Errors of the last reload; the config in force is below"
        kind="trouble"
        problems={report.reload_errors}
      />
      <Problems title="Warnings" kind="warning" problems={report.warnings} />
      {concurrency.length > 0 && (
        <Card title="Concurrency">
          <ul class="sentences">
            {concurrency.map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        </Card>
      )}
      <Card title="Models" note={`${Object.keys(models).length}`}>
        {Object.entries(models).map(([name, keys]) => (
          <details key={name} class="config-model">
            <summary>
              <strong>{name}</strong> <code class="muted">{commandOf(keys)}</code>
            </summary>
            <Keys keys={keys} />
          </details>
        ))}
      </Card>
      <Card title="Settings" note="times in seconds">
        <Keys keys={{ ...rest, ...settings }} />
      </Card>
    </>
  );
}

function Problems({ title, kind, problems }: { title: string; kind: string; problems: string[] }) {
  if (!problems.length) return null;
  return (
    <Card title={title}>
      <ul class={`sentences ${kind}`}>
        {problems.map((problem) => (
          <li key={problem}>
            <Prose text={problem} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function commandOf(keys: Record<string, unknown>): string {
  return Array.isArray(keys.cmd) ? commandLine(keys.cmd) : String(keys.proxy ?? "");
}

const SIZES = /^(limits\.(header|body|jsonBody|uploads)$|budgets\.|memory\.)/;

function Keys({ keys }: { keys: Record<string, unknown> }) {
  return (
    <dl class="facts mono">
      {[...flat(keys)].map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{SIZES.test(name) && typeof value === "number" ? bytes(value) : inWords(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Flattens nested objects to dotted names, for example `scheduler.patience`; what is not set is left out. */
function* flat(keys: object, prefix = ""): Generator<[string, unknown]> {
  for (const [name, value] of Object.entries(keys)) {
    if (value === null || value === "" || (Array.isArray(value) && value.length === 0)) continue;
    if (typeof value === "object" && !Array.isArray(value)) yield* flat(value, `${prefix}${name}.`);
    else yield [prefix + name, value];
  }
}

function inWords(value: unknown): string {
  if (!Array.isArray(value)) return String(value);
  return value.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join(" ");
}
