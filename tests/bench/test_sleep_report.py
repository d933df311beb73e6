"""The sleep report shows what was measured."""

from __future__ import annotations

from bench.sleep.__main__ import RESTART, SLEEP, Trip, page, rows

TRIPS = [
    trip
    for n in range(1, 4)
    for trip in (
        Trip("alpha", SLEEP, 1.0, 0.02 * n, 0.01, kept=11, before=44),
        Trip("alpha", RESTART, 0.01, 0.2, 0.01 * n),
    )
]


def test_each_way_has_its_row() -> None:
    """A row has the medians of the parts and of the whole, and the memory kept asleep."""
    _, sleep, restart = rows(TRIPS)

    assert sleep == ["6.7 MB", "sleep and wake", "1,000", "40.0", "10.0", "1,050", "1,018–1,082", "25%", "3"]
    assert restart[:6] == ["6.7 MB", "stop and start", "10.0", "200", "20.0", "230"]


def test_the_page_says_under_what_conditions() -> None:
    """The page names the machine on which it was measured."""
    text = page(TRIPS)

    assert "| 6.7 MB | sleep and wake | 1,000 |" in text
    assert "llama-server" in text.partition("## Conditions")[2]
