"""PURE: the roster as operators see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.fleet.view import AbsentView, ClaimView, DeviceMemory, FleetView, HostState, HostView, Order, Resident

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.fleet.counters import FleetCounters
    from hotseat.fleet.member import Member
    from hotseat.fleet.records import HostOrder, Residence
    from hotseat.fleet.roster import Roster
    from hotseat.fleet.view import FleetConnection
    from hotseat.identifiers import Instant, Seconds

DIGITS_SHOWN = 8
"""Of the digest of a host's catalog: enough to compare a few by eye."""


def snapshot(roster: Roster, counters: FleetCounters, connection: FleetConnection, now: Instant) -> FleetView:
    """Hosts by name, including this one."""
    members = sorted(roster.hosts, key=lambda member: member.name)
    return FleetView(
        me=roster.me,
        connection=connection,
        hosts=tuple(_host(member, roster, counters, now) for member in members),
        claims=tuple(claim for member in members for claim in _claims(member, roster, now)),
        absent=tuple(AbsentView(name, orders_in(roster.orders.of(name))) for name in sorted(roster.orders.awaited())),
        agreements=dict(counters.agreements),
        malformed=roster.malformed,
    )


def _host(member: Member, roster: Roster, counters: FleetCounters, now: Instant) -> HostView:
    record = member.record
    return HostView(
        name=record.name,
        address=record.address,
        version=record.version,
        labels=record.labels,
        state=_state(member, roster, now),
        problem=member.problem if member.is_shunned(now) else "",
        last_seen_s=max(0.0, now - member.received_at),
        orders=orders_in(roster.orders.of(record.name)),
        devices=tuple(DeviceMemory(device, memory.budget, memory.free) for device, memory in record.devices.items()),
        residents=tuple(_resident(residence, now - member.received_at) for residence in record.residents),
        passed_on=counters.passed_on[record.name],
        turned_away=counters.turned_away[record.name],
        config_digest=record.catalog[:DIGITS_SHOWN],
        missing_files=record.missing_files,
        unreachable=record.unreachable,
        certificate_ends=member.path.certificate_ends,
        clock_ahead_s=member.path.clock_ahead_s,
    )


def _state(member: Member, roster: Roster, now: Instant) -> HostState:
    if member.record.is_leaving:
        return HostState.LEAVING
    if member.name == roster.me:
        return HostState.THIS_HOST
    return HostState.UNREACHABLE if member.is_shunned(now) else HostState.REACHABLE


def orders_in(order: HostOrder) -> frozenset[Order]:
    given = {Order.CORDON: order.cordoned, Order.DRAIN: order.drained}
    return frozenset(order for order, is_given in given.items() if is_given)


def _resident(residence: Residence, age_s: Seconds) -> Resident:
    return Resident(
        model=residence.model,
        phase=residence.phase,
        memory=residence.memory,
        in_flight=residence.in_flight,
        waiting=residence.waiting,
        oldest_wait_s=residence.oldest_wait_s,
        pinned=residence.pinned,
        phase_s=None if residence.phase_s is None else round(residence.phase_s + age_s, 1),
    )


def _claims(member: Member, roster: Roster, now: Instant) -> Iterator[ClaimView]:
    for held in roster.claims.on_host(member.name, now):
        claim = held.claim
        yield ClaimView(claim.model, claim.host, claim.by, claim.reason)
