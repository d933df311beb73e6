"""A swap is divided into parts that add up, and is judged by what was measured."""

from __future__ import annotations

import mmap
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import pytest
from bench.swap.cache import make_cold, make_warm, resident_share
from bench.swap.cases import Noticed
from bench.swap.results import Record, verdicts
from bench.swap.sides import PARTS, Swap, cut, spans_from_journal
from tests.support.llama import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

BARE = Swap("tiny-warm", "bare", {"stop": 0.01, "start": 0.002, "load": 0.1, "first byte": 0.003})
OURS = Swap("tiny-warm", "hotseat", dict.fromkeys(PARTS, 0.02))


def record(*swaps: Swap) -> Record:
    return Record("2026-11-15", 0.5, swaps)


def entry(n: int, at: float, event: tuple[str, str], *commands: tuple[str, str]) -> dict[str, Any]:
    facts = [{"type": kind, "model": model} for kind, model in (event, *commands)]
    return {"n": n, "at": at, "event": facts[0], "commands": facts[1:]}


@pytest.fixture
def weights() -> Iterator[Path]:
    """A file on a disk, because a file on tmpfs cannot be dropped from the page cache."""
    with NamedTemporaryFile(dir=REPOSITORY / ".cache") as file:
        path = Path(file.name)
        path.write_bytes(bytes(64 * mmap.PAGESIZE))
        yield path


def test_a_file_is_put_out_of_the_page_cache_and_into_it(weights: Path) -> None:
    """The kernel reports the residency of every page."""
    make_cold(weights)
    assert resident_share(weights) == 0.0

    make_warm(weights)
    assert resident_share(weights) == 1.0


def test_the_journal_says_where_the_time_of_a_swap_went() -> None:
    """Entries of earlier swaps do not count, and the parts add up to the client's wait."""
    history = [
        entry(1, 1.0, ("RequestArrived", "big"), ("StartUpstream", "big")),
        entry(2, 2.0, ("UpstreamReady", "big"), ("Grant", "big")),
        entry(3, 10.1, ("RequestArrived", "big")),
        entry(4, 13.0, ("RequestLeft", ""), ("StopUpstream", "beta")),
        entry(5, 13.5, ("UpstreamExited", "beta"), ("StartUpstream", "big")),
        entry(6, 15.0, ("UpstreamReady", "big"), ("Grant", "big")),
    ]

    spans = spans_from_journal(history, "big", sent=10.0, began=13.6, first_byte=15.2)

    expected = {"decide": 0.1, "drain": 2.9, "stop": 0.5, "start": 0.1, "load": 1.4, "first byte": 0.2}
    assert spans == pytest.approx(expected)
    swap = Swap("big-cold", "hotseat", spans)
    assert (swap.total, swap.after_drain) == pytest.approx((5.2, 2.2))


def test_moments_that_clocks_order_otherwise_give_no_negative_part() -> None:
    """Two processes may read the clock in a different order."""
    assert cut(["decide", "drain"], [1.0, 2.0, 1.99]) == {"decide": 1.0, "drain": 0.0}


def test_a_swap_that_costs_too_much_falls_short() -> None:
    """The bound follows the bare engine of the same run."""
    held = [*verdicts(record(BARE, BARE, OURS, OURS))]
    broken = [*verdicts(record(BARE, Swap("tiny-warm", "hotseat", dict.fromkeys(PARTS, 0.1))))]

    assert [verdict.holds for verdict in held + broken] == [True, False]
    assert "120 ms, allowed 147 ms" in str(held[0])


def test_what_reading_ahead_is_worth_is_judged_after_the_drain() -> None:
    """The length of the drain does not depend on read-ahead."""
    slow = Swap("big-drain", "waits for the drain", {"decide": 0.1, "drain": 3.0, "load": 4.0}, words=100.0)
    fast = Swap("big-drain", "reads ahead", {"decide": 0.1, "drain": 3.0, "load": 2.0}, words=97.0)
    dear = Swap("big-drain", "reads ahead", {"decide": 0.1, "drain": 3.0, "load": 3.5}, words=90.0)

    assert [verdict.measured for verdict in verdicts(record(slow, fast))] == ["50%", "3.0%"]
    assert [verdict.holds for verdict in verdicts(record(slow, fast))] == [True, True]
    assert [verdict.holds for verdict in verdicts(record(slow, dear))] == [False, False]


def test_readiness_is_judged_by_the_load() -> None:
    """The limit is ten milliseconds or 2 % of the load time."""
    quick, slow = Noticed(load_s=0.1, late_s=0.011), Noticed(load_s=2.0, late_s=0.039)
    found = replace(record(BARE, OURS), noticed=(quick, slow))

    assert [each.is_prompt for each in (quick, slow)] == [False, True]
    assert [(each.measured, each.holds) for each in verdicts(found)][-1] == ("50.0%", False)
