"""The fleet report shows the measurements, compared round by round."""

from __future__ import annotations

import pytest
from bench.fleet.forwarding import Forwarded
from bench.fleet.measure import Outcome, median_of
from bench.fleet.page import figure, page, ratios

OUTCOME = Outcome(
    bare=[0.001, 0.002, 0.004],
    ours=[0.002, 0.002, 0.006],
    renewals=[0.001],
    renewals_per_s=1000.0,
    noticed=[0.003],
    expiries=[0.05, 0.15],
    bare_kills=[6.0],
    our_kills=[5.0],
)


def test_rounds_are_compared_with_their_own_neighbours() -> None:
    """A slow minute of the machine affects both sides of a round."""
    assert ratios(OUTCOME) == [2.0, 1.0, 1.5]


def test_the_page_has_the_figures() -> None:
    """The page shows milliseconds or seconds, and how many hosts the rate is enough for."""
    text = page(OUTCOME, placements=7, requests=[Forwarded(50.0, 45.0, 60.0), Forwarded(40.0, 44.0, 40.0)])

    assert "3 rounds of 7 placements" in text
    assert "| a placement by hotseat's store | 2.00 ms | 2.00 – 6.00 ms |" in text
    assert "| ratio, round by round | 1.50 × | 1.00 – 2.00 × |" in text
    assert "| 100 ms | 50 – 150 ms |" in text
    assert "| 5.0 s | 5.0 – 5.0 s |" in text
    assert "that is enough for 3,000 hosts" in text
    assert "| served by the host that received it | 45 | 40 – 50 |" in text
    assert "| both hosts together, relative to one | 2.10 × | 2.10 – 2.10 × |" in text


def test_a_figure_is_a_median_with_its_spread() -> None:
    """Figures are in milliseconds by default."""
    shown = figure([0.001, 0.009, 0.002])

    assert (shown.median, shown.low, shown.high) == pytest.approx((2.0, 1.0, 9.0))


async def test_each_placement_has_a_key_of_its_own() -> None:
    """Otherwise the second placement would conflict with the first."""
    keys: list[str] = []

    async def work(key: str) -> None:
        keys.append(key)

    assert await median_of(work, "bare0", 3) >= 0
    assert keys == ["bare0.0", "bare0.1", "bare0.2"]
