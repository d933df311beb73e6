"""The tables about a fleet of some size."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bench.fleet.programs import PARTS
from bench.fleet.size import ALONE, Outcome, Return, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.report import Rows

PART_NAMES = ("nats-py receives it", "hotseat's watch", "… with its signature", "the whole host")


def tables(outcome: Outcome) -> dict[str, Rows]:
    return {
        "A quiet fleet": steady_table(outcome),
        "Parts of the cost of a record": parts_table(outcome),
        "NATS": nats_table(outcome),
        "Start": start_table(outcome),
        "Return of NATS": return_table(outcome),
    }


def steady_table(outcome: Outcome) -> Rows:
    def row(title: str, cell: Callable[[int], str]) -> list[str]:
        return [title, *map(cell, outcome.sizes())]

    def rate(figure: Callable[[Window], float], times: Callable[[int], int] = lambda _: 1) -> Callable[[int], str]:
        return lambda hosts: count(outcome.at(hosts, lambda window: figure(window) / window.seconds) * times(hosts))

    def everybody(hosts: int) -> int:
        return hosts

    memory = {window.hosts: window.resident_mb for window in reversed(outcome.windows)}
    return [
        row("hosts", lambda hosts: f"{hosts:,}"),
        row("messages received by a host, per second", rate(lambda window: window.traffic.messages_in)),
        row("bytes received by a host, per second", rate(lambda window: window.traffic.bytes_in)),
        row("messages sent by a host, per second", rate(lambda window: window.traffic.messages_out)),
        row("bytes sent by a host, per second", rate(lambda window: window.traffic.bytes_out)),
        row("processor time of a host, of one core", lambda n: percent(outcome.at(n, lambda each: each.host_share))),
        row("resident memory of a host", lambda hosts: f"{memory[hosts]:.0f} MB"),
        row("… beyond that of a host alone", lambda hosts: f"{memory[hosts] - memory[1]:.1f} MB"),
        row("messages sent by NATS, per second", rate(lambda window: window.traffic.messages_in, everybody)),
        row("bytes sent by NATS to hosts, per second", rate(lambda window: window.traffic.bytes_in, everybody)),
    ]


def parts_table(outcome: Outcome) -> Rows:
    sizes = [hosts for hosts in outcome.sizes() if hosts > 1]
    shares: list[Callable[[Window], float]] = [
        *((lambda window, part=part: window.part_share(part)) for part in PARTS),
        lambda window: window.host_share,
    ]
    rows = [["processor time per record", *(f"{hosts:,} hosts" for hosts in sizes)]]
    for title, share in zip(PART_NAMES, shares, strict=True):
        rows.append([title, *(spread(outcome.per_record_us(hosts, share)) for hosts in sizes)])
    return rows


def nats_table(outcome: Outcome) -> Rows:
    largest, sent = outcome.sizes()[-1], outcome.fan_out
    records = outcome.at(largest, lambda window: window.records_per_s)
    routed = outcome.at(largest, lambda window: window.routed_per_s)
    return [
        ["", f"{outcome.servers} servers together"],
        [
            f"processor time for {largest:,} hosts that write and four that listen",
            percent(outcome.at(largest, lambda window: window.nats_share)),
        ],
        [f"… for each message to one of {sent.listeners} more listeners", f"{sent.us_per_message:.1f} µs"],
        ["bytes between the servers, for each record", f"{routed / records:,.0f}"],
    ]


def start_table(outcome: Outcome) -> Rows:
    rows = [["models", "hosts", "processor time until it answers", "answers after", "knows all hosts after"]]
    for models, hosts in dict.fromkeys((start.models, start.hosts) for start in outcome.starts):
        same = [start for start in outcome.starts if (start.models, start.hosts) == (models, hosts)]
        known = f"{median(start.known_s for start in same):.1f} s" if hosts != ALONE else ""
        processor, ready = (
            median(figures) for figures in zip(*((s.processor_s, s.ready_s) for s in same), strict=True)
        )
        fleet = "no fleet" if hosts == ALONE else f"{hosts:,}"
        rows.append([f"{models:,}", fleet, f"{processor:.1f} s", f"{ready:.1f} s", known])
    return rows


def return_table(outcome: Outcome) -> Rows:
    def row(title: str, cell: Callable[[Return], str]) -> list[str]:
        return [title, *map(cell, outcome.returns)]

    return [
        row("hosts", lambda each: f"{each.hosts:,}"),
        row("until the host has heard of all others", lambda each: f"{each.knows_s:.1f} s"),
        row("messages received by the host until then", lambda each: f"{each.received.messages_in:,}"),
        row("bytes received by the host until then", lambda each: count(each.received.bytes_in)),
        row("… in the busiest second", lambda each: count(each.busiest_bytes)),
        row("bytes sent by NATS to all hosts until then", lambda each: count(each.received.bytes_in * each.hosts)),
    ]


def count(number: float) -> str:
    """With three digits."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def spread(values: Sequence[float]) -> str:
    return f"{median(values):.0f} ({min(values):.0f} – {max(values):.0f}) µs"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
