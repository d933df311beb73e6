// The hosts of the fleet: totals, a search, state, memory and models of each, and buttons to cordon, drain and move.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { fleet, membership, refreshNow } from "../data/state";
import type { Fleet } from "../data/types";
import { ConfigurationLinks, Figures, StateLinks } from "../fleet/figures";
import { HostBody, HostNote, OrderButtons } from "../fleet/host";
import { HostTable } from "../fleet/hostlist";
import type { ListedHost } from "../fleet/hosts";
import { listedHosts } from "../fleet/listed";
import { ListChoice, ModelTable } from "../fleet/lists";
import { isNarrowed, searchFor, view } from "../fleet/query";
import { type FoundHost, modelsOf, search } from "../fleet/search";
import { totalsOf } from "../fleet/totals";
import { Card, Page } from "../parts/frame";
import { counted } from "../words";

/** A larger fleet is shown as a table. */
const MOST_CARDS = 5;

export function FleetPage() {
  useEffect(() => void refreshNow(), []);
  const seen = fleet.value;
  return (
    <Page title="Fleet" about={about(seen)} tools={seen && <SearchField />}>
      {membership.value?.connection === "disconnected" && (
        <p role="status">
          {membership.value.host} is disconnected from the fleet{because(seen)}. It still serves requests, and
          forwards them according to the last known state. Cordon, drain and move are unavailable until it is
          connected again.
        </p>
      )}
      {seen && <Hosts hosts={listedHosts.value} />}
    </Page>
  );
}

function because(seen: Fleet | null): string {
  return seen?.problem ? `: ${seen.problem.replace(/\.$/, "")}` : "";
}

function about(seen: Fleet | null): string {
  if (seen) return `${counted(seen.hosts.length, "host")}, as seen by ${seen.host}.`;
  return membership.value
    ? "Loading…"
    : "This host does not belong to a fleet. Set `fleet` in its configuration to join one.";
}

function SearchField() {
  return (
    <input
      type="search"
      size={26}
      placeholder="Search hosts and models"
      aria-label="Search hosts and models"
      value={view.value.words}
      onInput={(event) => searchFor(event.currentTarget.value)}
    />
  );
}

function Hosts({ hosts }: { hosts: ListedHost[] }) {
  const isLarge = useIsLarge(hosts.length);
  const totals = useMemo(() => totalsOf(hosts), [hosts]);
  const found = useMemo(() => search(hosts, view.value), [hosts, view.value]);
  const models = useMemo(() => modelsOf(found), [found]);
  return (
    <>
      <Figures totals={totals} />
      <div class="bar">
        <StateLinks totals={totals} />
        {isLarge && <ListChoice hosts={found.length} models={models.length} />}
      </div>
      <ConfigurationLinks />
      <p class="unseen" role="status">
        {isNarrowed(view.value) &&
          `${counted(found.length, "host")} and ${counted(models.length, "model")} found`}
      </p>
      {!isLarge && <Cards hosts={found} />}
      {isLarge && view.value.list === "hosts" && (
        <HostTable hosts={found} kinds={[...totals.memory.keys()]} />
      )}
      {isLarge && view.value.list === "models" && <ModelTable models={models} />}
    </>
  );
}

/** A fleet that was large stays so: a host that restarts must not change the page twice. */
function useIsLarge(hosts: number): boolean {
  const isLarge = useRef(false);
  isLarge.current ||= hosts > MOST_CARDS;
  return isLarge.current;
}

function Cards({ hosts }: { hosts: FoundHost[] }) {
  if (hosts.length === 0) return <p class="empty">No matching hosts.</p>;
  return hosts.map((host) => (
    <Card
      key={host.name}
      title={host.name}
      note={<HostNote host={host} />}
      tools={<OrderButtons host={host.orders} />}
    >
      <HostBody host={host} />
    </Card>
  ));
}
