"""The record of what happened and what was decided."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.support.scheduler_driver import arrives, keep_alive, leaves, load, upstream_of

from hotseat.dispatch.journal import BEHIND, KEPT, Entry, Gap, Journal, is_routine
from hotseat.errors import Busy
from hotseat.identifiers import ModelName, TicketId
from hotseat.scheduling.commands import Grant, Refuse, WakeAt
from hotseat.scheduling.events import ClockReached, PromptProcessed, RequestArrived, RequestLeft, ShutdownRequested

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GRANT = Grant(TicketId(1), ModelName("qwen"), upstream_of("qwen"), "ready")
REFUSE = Refuse(TicketId(1), Busy("later"), "the queue is full")
WAKE = WakeAt(30.0)


def a_journal(entries: int = 0) -> Journal:
    journal = Journal(wall_clock=lambda: 1_700_000_000.0)
    record(journal, entries)
    return journal


def record(journal: Journal, entries: int) -> None:
    for _ in range(entries):
        journal.record(ShutdownRequested(), [])


async def next_of(news: AsyncIterator[Entry | Gap]) -> Entry | Gap:
    async with asyncio.timeout(5):
        return await anext(news)


def test_an_entry_tells_what_happened_and_what_was_decided() -> None:
    """Number, time, fact and commands: enough to answer "why"."""
    journal = a_journal()
    journal.record(arrives(1, "qwen"), [REFUSE])

    assert journal.entries() == [Entry(1, 1_700_000_000.0, arrives(1, "qwen"), (REFUSE,))]


def test_a_keep_alive_is_an_entry_if_it_has_an_effect() -> None:
    """Some clients set it with every request; swaps must not be displaced by that."""
    journal = a_journal()
    journal.record(keep_alive("qwen", 60), [WAKE])
    journal.record(keep_alive("qwen", 0), [REFUSE])

    assert [entry.event for entry in journal.entries()] == [keep_alive("qwen", 0)]


def test_the_journal_is_bounded() -> None:
    """The newest entries replace the oldest; numbers continue."""
    journal = a_journal(KEPT + 5)

    assert len(journal.entries()) == KEPT
    assert (journal.entries()[0].n, journal.entries()[-1].n) == (6, KEPT + 5)


def test_entries_after_a_number() -> None:
    """A reader can fetch only what is new."""
    assert [entry.n for entry in a_journal(5).entries(after=3)] == [4, 5]


def test_ordinary_requests_are_counted_not_recorded() -> None:
    """What affects no other request does not displace the swaps."""
    journal = a_journal()
    journal.record(arrives(1, "qwen"), [GRANT])
    journal.record(leaves(1), [WAKE])

    assert journal.entries() == []
    assert (journal.n, journal.passed_by) == (0, 1)


def test_what_is_ordinary() -> None:
    """A request that is granted at once and leaves again, and a clock that changes nothing."""
    arrival, departure = arrives(1, "qwen"), leaves(1)
    assert isinstance(arrival, RequestArrived)
    assert isinstance(departure, RequestLeft)

    assert is_routine(arrival, [GRANT])
    assert is_routine(departure, [])
    assert is_routine(ClockReached(), [WAKE])
    assert is_routine(PromptProcessed(TicketId(1), 20, 900, 0.5), [])
    assert not is_routine(PromptProcessed(TicketId(1), 20, 900, 0.5), [WAKE])
    assert not is_routine(arrival, [REFUSE])
    assert not is_routine(arrival, [])
    assert not is_routine(departure, [GRANT])
    assert not is_routine(load(1, "qwen"), [])


def test_a_listener_gets_each_entry_at_once() -> None:
    """Listeners are called from within `record`."""
    numbers: list[int] = []
    journal = a_journal()
    journal.listen(lambda entry: numbers.append(entry.n))
    record(journal, 2)

    assert numbers == [1, 2]


async def test_a_follower_gets_new_entries() -> None:
    """What is written after it began to follow arrives, in order."""
    journal = a_journal(3)
    news = journal.follow()
    asyncio.get_running_loop().call_soon(record, journal, 2)

    assert [(await next_of(news)).n, (await next_of(news)).n] == [4, 5]
    await news.aclose()


async def test_a_follower_that_comes_back() -> None:
    """It continues after the last number it knows, without gaps or duplicates."""
    journal = a_journal(3)
    news = journal.follow(after=1)
    seen = [await next_of(news)]
    record(journal, 1)
    seen += [await next_of(news), await next_of(news)]

    assert [entry.n for entry in seen] == [2, 3, 4]
    await news.aclose()


async def test_a_slow_follower_gets_a_gap() -> None:
    """A slow follower delays nothing: it loses what it missed and sees a gap."""
    journal = a_journal(1)
    news = journal.follow(after=0)
    assert (await next_of(news)).n == 1
    record(journal, BEHIND + 1)

    assert await next_of(news) == Gap(BEHIND + 2)
    record(journal, 1)
    assert (await next_of(news)).n == BEHIND + 3
    await news.aclose()


async def test_a_follower_that_leaves_is_forgotten() -> None:
    """Nothing is kept for subscribers that are gone."""
    journal = a_journal(1)
    news = journal.follow(after=0)
    await next_of(news)
    assert len(journal._subscribers) == 1
    await news.aclose()

    assert journal._subscribers == []
