// The totals of the fleet. Those of host states are links to these hosts.

import { Figure } from "../parts/frame";
import { bytes, counted, tokens } from "../words";
import { HOST_STATES, type HostState } from "./hosts";
import { configurations } from "./listed";
import { linkToFleet, view } from "./query";
import type { Totals } from "./totals";

/** Always shown. The others are shown if there are such hosts: only some offline hosts are known, so 0 would mislead. */
const USUAL: HostState[] = ["ready", "cordoned", "drained", "other configuration"];
const MOST_CONFIGURATIONS = 4;

export function Figures({ totals }: { totals: Totals }) {
  return (
    <dl class="figures slim">
      <Figure name="Models ready" value={tokens(totals.ready)} note={`${tokens(totals.loading)} loading`} />
      <Figure name="In flight" value={tokens(totals.inFlight)} note={`${tokens(totals.waiting)} waiting`} />
      {[...totals.memory].map(([kind, { used, budget }]) => (
        <Figure key={kind} name={`Memory, ${kind}`} value={bytes(used)} note={`of ${bytes(budget)} used`} />
      ))}
    </dl>
  );
}

export function StateLinks({ totals }: { totals: Totals }) {
  const shown = HOST_STATES.filter((state) => USUAL.includes(state) || totals.states.get(state));
  return (
    <div class="states" role="group" aria-label="Hosts by state">
      <StateLink state={null} count={totals.hosts} />
      {shown.map((state) => (
        <StateLink key={state} state={state} count={totals.states.get(state) ?? 0} />
      ))}
    </div>
  );
}

function StateLink({ state, count }: { state: HostState | null; count: number }) {
  return (
    <a
      class={count === 0 ? "none" : ""}
      href={linkToFleet({ ...view.value, state })}
      aria-current={view.value.state === state ? "true" : undefined}
    >
      {state === null ? `all ${count}` : `${count} ${state}`}
    </a>
  );
}

/** Each side of a difference, because which one is right is the operators' decision. */
export function ConfigurationLinks() {
  const all = [...configurations.value];
  if (all.length < 2) return null;
  const more = all.length - MOST_CONFIGURATIONS;
  return (
    <p class="muted">
      Hosts differ in their configuration:{" "}
      {all.slice(0, MOST_CONFIGURATIONS).map(([digest, count], place) => (
        <span key={digest}>
          {place > 0 && ", "}
          <a href={linkToFleet({ ...view.value, state: null, words: digest })}>{digest}</a> on{" "}
          {counted(count, "host")}
        </span>
      ))}
      {more > 0 && `, and ${more} more`}.
    </p>
  );
}
