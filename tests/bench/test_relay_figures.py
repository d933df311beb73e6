"""Samples become medians with their spread, and delays become what a proxy adds."""

from __future__ import annotations

from bench.relay.comparison import rows as comparison_rows
from bench.relay.figures import BARE, Figure, Figures, Sample


def sample(proxy: str, number: int, **values: float) -> Sample:
    return Sample(proxy, "unary-1", number, values)


def test_a_figure_is_the_median_with_its_spread() -> None:
    """Three rounds give their middle, lowest and highest value."""
    figures = Figures([sample("nginx", number, cpu_us=value) for number, value in enumerate((30.0, 10.0, 20.0))])

    assert figures.get("nginx", "unary-1", "cpu_us") == Figure(20.0, 10.0, 30.0)


def test_what_was_not_measured_is_no_figure() -> None:
    """A missing proxy, cell or measure is distinguished from zero."""
    figures = Figures([sample("nginx", 0, cpu_us=0.0)])

    assert figures.get("nginx", "unary-1", "cpu_us") == Figure(0.0, 0.0, 0.0)
    assert figures.get("nginx", "unary-1", "per_s") is None
    assert figures.get("nginx", "unary-16", "cpu_us") is None
    assert figures.get("go", "unary-1", "cpu_us") is None


def test_an_added_delay_is_taken_within_its_round() -> None:
    """A slow round slows the bare server too, so the difference is taken before the median."""
    figures = Figures(
        [
            sample(BARE, 0, p50_us=10.0),
            sample("go", 0, p50_us=60.0),
            sample(BARE, 1, p50_us=1000.0),
            sample("go", 1, p50_us=1070.0),
        ]
    )

    assert figures.get("go", "unary-1", "p50_added_us") == Figure(60.0, 50.0, 70.0)
    assert figures.get(BARE, "unary-1", "p50_added_us") is None


def test_the_share_of_the_bare_rate_is_taken_within_its_round() -> None:
    """Throughput is compared with the bare server of the same round."""
    figures = Figures([sample("go", 0, per_s=90.0), sample(BARE, 0, per_s=100.0)])

    assert figures.get("go", "unary-1", "share_of_bare") == Figure(0.9, 0.9, 0.9)


def test_without_the_bare_server_nothing_is_compared() -> None:
    """A comparison without the bare server is left out."""
    figures = Figures([sample("go", 0, p50_us=60.0, per_s=90.0)])

    assert figures.get("go", "unary-1", "p50_added_us") is None
    assert figures.get("go", "unary-1", "share_of_bare") is None


def test_a_comparison_with_an_earlier_revision_takes_the_ratio_of_each_round() -> None:
    """A round in which the machine was half as fast does not change the ratio; what was not measured has no row."""
    figures = Figures(
        [
            sample("hotseat-v1", 0, cpu_us=100.0),
            sample("hotseat", 0, cpu_us=90.0),
            sample("hotseat-v1", 1, cpu_us=200.0),
            sample("hotseat", 1, cpu_us=180.0),
        ]
    )

    head, *rows = comparison_rows(figures, "hotseat-v1")

    assert head == ["", "", "hotseat-v1", "now", "now / before"]
    assert rows == [["unary-1", "CPU-µs", "150 [100–200]", "135 [90–180]", "0.9 [0.9–0.9]"]]
