"""The soak test reports figures that grow, not those that fluctuate."""

from __future__ import annotations

from bench.soak.samples import Sample, trends


def sample(n: int, own_mb: float = 60.0, open_files: int = 30, p50_ms: float = 20.0) -> Sample:
    return Sample(n * 30.0, own_mb, open_files, 5, 12, p50_ms, 2 * p50_ms, 100)


def grown(samples: list[Sample]) -> list[str]:
    return [trend.name for trend in trends(samples) if not trend.holds]


def test_figures_that_breathe_hold() -> None:
    """A megabyte or a connection more or less is no growth."""
    assert not grown([sample(n, own_mb=60 + n % 3, open_files=30 + n % 4) for n in range(40)])


def test_what_is_taken_at_the_start_is_no_leak() -> None:
    """Caches fill at the start; only later growth counts."""
    assert not grown([sample(n, own_mb=40 + 2 * min(n, 10)) for n in range(40)])


def test_a_leak_is_named() -> None:
    """Memory, open files and response times are reported separately."""
    assert grown([sample(n, own_mb=60 + n / 2) for n in range(40)]) == ["anonymous memory, MB"]
    assert grown([sample(n, open_files=30 + n) for n in range(40)]) == ["open files"]
    assert grown([sample(n, p50_ms=20 + n) for n in range(40)]) == [
        "response time without streaming, p50, ms",
        "response time without streaming, p95, ms",
    ]
