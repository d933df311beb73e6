"""The judge of the soak: what grows is named, what only breathes is not."""

from __future__ import annotations

from bench.soak.page import Outcome, page
from bench.soak.picture import picture
from bench.soak.samples import Sample, trends


def sample(n: int, own_mb: float = 60.0, open_files: int = 30, p50_ms: float = 20.0) -> Sample:
    return Sample(n * 30.0, own_mb, open_files, 5, 12, p50_ms, 2 * p50_ms, 100)


def grown(samples: list[Sample]) -> list[str]:
    return [trend.name for trend in trends(samples) if not trend.holds]


def test_figures_that_breathe_hold() -> None:
    """A megabyte up and down, a connection more or less."""
    assert not grown([sample(n, own_mb=60 + n % 3, open_files=30 + n % 4) for n in range(40)])


def test_what_is_taken_at_the_start_is_no_leak() -> None:
    """Caches fill; what counts is what comes after."""
    assert not grown([sample(n, own_mb=40 + 2 * min(n, 10)) for n in range(40)])


def test_a_leak_is_named() -> None:
    """Memory, files and slowness each by its own name."""
    assert grown([sample(n, own_mb=60 + n / 2) for n in range(40)]) == ["memory of its own, MB"]
    assert grown([sample(n, open_files=30 + n) for n in range(40)]) == ["open files"]
    assert grown([sample(n, p50_ms=20 + n) for n in range(40)]) == [
        "answer in one piece, p50, ms",
        "answer in one piece, p95, ms",
    ]


def test_an_answer_of_the_wrong_kind_fails_the_run() -> None:
    """Though nothing grew."""
    samples = [sample(n) for n in range(8)]
    outcome = Outcome(1, samples, {"whole answer": 8}, ["/health: 500 instead of 200"], trends(samples), 3, 0.1)

    assert not outcome.holds
    assert "/health: 500 instead of 200" in page(outcome)


def test_every_curve_is_drawn() -> None:
    """One line per figure."""
    assert picture([sample(n) for n in range(8)]).count("<polyline") == 4
