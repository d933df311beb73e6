// The settings of one model: those that can be changed here, and what the configuration says about the rest.

import { useAnswer } from "../data/answer";
import { api } from "../data/api";
import type { Model, ResolvedConfig } from "../data/types";
import { Fact, Section } from "../parts/frame";
import { linkTo } from "../route";
import { KeepingFacts } from "./keeping";

export function ModelSettings({ model }: { model: Model }) {
  const { answer, trouble } = useAnswer(() => api.config(), [model.model]);
  const resolved = answer?.resolved;
  const keys = resolved?.models?.[model.model];
  return (
    <Section
      title="Settings"
      note={
        <>
          {resolved?.files && `from ${resolved.files.join(", ")} · `}
          <a href={linkTo("config")}>View configuration</a>
        </>
      }
    >
      <dl class="facts wide">
        <KeepingFacts model={model} />
      </dl>
      {trouble && <p class="muted">{trouble}</p>}
      {keys && (
        <dl class="facts">
          <Fact name="Group" value={groupOf(model.model, resolved) ?? "none"} />
          <Fact name="Concurrent requests" value={String(keys.concurrencyLimit || "as its server reports")} />
          <Fact name="Urgency" value={String(keys.urgency)} />
          <Fact name="Sleeps" value={keys.sleep ? "yes" : "no"} />
        </dl>
      )}
    </Section>
  );
}

function groupOf(model: string, resolved: ResolvedConfig | undefined): string | undefined {
  return resolved?.groups?.find(({ members }) => members.includes(model))?.name;
}
