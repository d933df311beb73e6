// How long a model stays loaded: what counts now, what the configuration says, and buttons to change it at run time.

import { api } from "../data/api";
import type { Keeping, Model, Overrides } from "../data/types";
import { Action } from "../parts/actions";
import { Fact } from "../parts/frame";
import { duration } from "../words";

const TTLS_S = [60, 600, 3600, 0];

export function KeepingFacts({ model }: { model: Model }) {
  const { pinned = false, ttl = 0, model: name } = model;
  const said = model.configured ?? { pinned, ttl };
  const set = (news: Partial<Keeping>) =>
    api.override(name, withNews(model.overrides ?? NOTHING, news, said));
  return (
    <>
      <Fact
        name="Pinned"
        value={
          <>
            <Value
              text={pinned ? "yes, never evicted" : "no"}
              said={said.pinned ? "yes" : "no"}
              isSet={isSet(model, "pinned")}
            />
            <Action label={`${pinned ? "Unpin" : "Pin"} ${name}`} act={() => set({ pinned: !pinned })}>
              {pinned ? "Unpin" : "Pin"}
            </Action>
          </>
        }
      />
      <Fact
        name="Unload when idle"
        value={
          <>
            <Value text={after(ttl)} said={after(said.ttl)} isSet={isSet(model, "ttl")} />
            <fieldset class="choice">
              <legend class="unseen">Unload {name} when idle</legend>
              {choices(said.ttl).map((each) => (
                <Action key={each} isPressed={each === ttl} act={() => set({ ttl: each })}>
                  {each ? duration(each) : "Never"}
                </Action>
              ))}
            </fieldset>
          </>
        }
      />
    </>
  );
}

const NOTHING: Overrides = { pinned: null, ttl: null };

/** What equals the configuration is not set, so that it follows later changes of the configuration. */
function withNews(overrides: Overrides, news: Partial<Keeping>, said: Keeping): Overrides {
  const { pinned, ttl } = { ...overrides, ...news };
  return { pinned: pinned === said.pinned ? null : pinned, ttl: ttl === said.ttl ? null : ttl };
}

function isSet({ overrides }: Model, key: keyof Keeping): boolean {
  return overrides ? overrides[key] !== null : false;
}

/** The configured ttl is one of the choices. */
function choices(said: number): number[] {
  const all = [...new Set([said, ...TTLS_S])].filter((each) => each > 0).sort((one, other) => one - other);
  return [...all, 0];
}

function Value({ text, said, isSet }: { text: string; said: string; isSet: boolean }) {
  return (
    <span class="value">
      {text}
      {isSet && <span class="muted"> · set here, the configuration says {said}</span>}
    </span>
  );
}

function after(ttl: number): string {
  return ttl ? `after ${duration(ttl)}` : "never";
}
