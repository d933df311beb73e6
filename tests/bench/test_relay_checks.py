"""A target is met, missed or not measured; only the first passes."""

from __future__ import annotations

import pytest
from bench.relay.chart import PANELS
from bench.relay.figures import BOUNDS, Bound, Figure, Figures, Outcome, Sample, Side, verdict, verdicts
from bench.relay.measure import CELLS
from bench.relay.proxies import PROXIES
from bench.relay.tables import TABLES

RELATIVE = Bound("CPU", "unary-16", "cpu_us", Side.AT_MOST, 0.5, "go")
ABSOLUTE = Bound("rate kept", "llama-8", "share_of_bare", Side.AT_LEAST, 0.9)


def figures(**cpu_us: float) -> Figures:
    return Figures(Sample(proxy, "unary-16", 0, {"cpu_us": value}) for proxy, value in cpu_us.items())


@pytest.mark.parametrize(("ours", "outcome"), [(50.0, Outcome.HOLDS), (50.1, Outcome.FALLS_SHORT)])
def test_a_relative_bound_is_a_multiple_of_the_other_proxy(ours: float, outcome: Outcome) -> None:
    """Half of Go's 100 is 50, and exactly 50 still meets the target."""
    assert verdict(RELATIVE, figures(hotseat=ours, go=100.0)).outcome is outcome


def test_proxies_are_compared_within_a_round() -> None:
    """A slow round slows both proxies, so the ratio is taken within a round."""
    cpu_us = {"hotseat": (40.0, 45.0, 130.0), "go": (100.0, 100.0, 300.0)}
    samples = [
        Sample(proxy, "unary-16", number, {"cpu_us": value})
        for proxy, values in cpu_us.items()
        for number, value in enumerate(values)
    ]

    assert verdict(RELATIVE, Figures(samples)).measured == Figure(130 / 300, 0.4, 0.45)


@pytest.mark.parametrize(("share", "outcome"), [(0.9, Outcome.HOLDS), (0.89, Outcome.FALLS_SHORT)])
def test_a_lower_bound_is_kept_from_above(share: float, outcome: Outcome) -> None:
    """At least means at least."""
    found = verdict(ABSOLUTE, Figures([Sample("hotseat", "llama-8", 0, {"share_of_bare": share})]))

    assert found.outcome is outcome


def test_a_bound_without_its_other_proxy_was_not_measured() -> None:
    """A comparison needs both sides."""
    assert verdict(RELATIVE, figures(hotseat=1.0)).outcome is Outcome.NOT_MEASURED
    assert verdict(RELATIVE, figures(go=1.0)).outcome is Outcome.NOT_MEASURED


def test_only_bounds_of_measured_cells_are_judged() -> None:
    """A run of some measurements is judged by the targets for them."""
    found = verdicts(figures(hotseat=1.0, go=100.0, nginx=100.0), ["unary-16"])

    assert [found_one.bound.cell for found_one in found] == ["unary-16", "unary-16"]
    assert {found_one.outcome for found_one in found} == {Outcome.HOLDS}


def test_a_verdict_names_its_figure() -> None:
    """A failure names the figure, the measured value and the limit."""
    text = str(verdict(RELATIVE, figures(hotseat=80.0, go=100.0)))

    assert text == "unary-16 cpu_us ≤ 0.5 × go: missed (measured 0.8 [0.8–0.8])"


def test_every_promise_is_about_something_that_is_measured() -> None:
    """No bound names a cell or a proxy that does not exist."""
    assert {bound.cell for bound in BOUNDS} <= {cell.key for cell in CELLS}
    assert {bound.of for bound in BOUNDS if bound.of} <= set(PROXIES)


def test_a_quick_run_judges_every_promise() -> None:
    """The short version leaves out no measurement that a target needs."""
    assert {bound.cell for bound in BOUNDS} <= {cell.key for cell in CELLS if cell.in_quick}


def test_every_column_and_panel_is_about_something_that_is_measured() -> None:
    """No table or panel names a cell that does not exist."""
    named = {column.cell for table in TABLES for column in table.columns} | {panel.cell for panel in PANELS}

    assert named <= {cell.key for cell in CELLS}
