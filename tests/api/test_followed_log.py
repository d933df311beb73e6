"""The log of another host while a client follows it, with a host that does what the test says."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

import pytest
from tests.support.waiting import PATIENCE_S

from hotseat.api.log_text import as_json
from hotseat.api.routes import fleet_logs
from hotseat.api.routes.fleet_logs import MISSED, FollowedLog, Shown
from hotseat.errors import HostUnresponsive
from hotseat.identifiers import HostName, LogLine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

T = TypeVar("T")

GPU2 = HostName("gpu2")
BREAKS_OFF = None
HEARTBEAT = ": still here"
GONE = "gpu2 is gone; its log continues here when it is back"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_logs, "AGAIN_S", 0)


class Scripted:
    """A host with one list per connection: lines, and BREAKS_OFF if the connection does not end in order."""

    def __init__(self, *connections: list[str | None], silent_for: int = 0) -> None:
        self._connections, self._silent_for = [*connections], silent_for
        self.asked: list[str] = []

    def names(self) -> list[HostName]:
        return [GPU2]

    async def read_all(
        self, hosts: Iterable[HostName], path: str, kept: Callable[[bytes], T]
    ) -> dict[HostName, T | HostUnresponsive]:
        self.asked.append(path)
        self._silent_for -= 1
        return dict.fromkeys(hosts, kept(b"") if self._silent_for < 0 else HostUnresponsive("timeout"))

    async def follow(self, host: HostName, path: str) -> AsyncGenerator[bytes, None]:
        self.asked.append(path)
        for line in self._connections.pop(0):
            if line is BREAKS_OFF:
                raise HostUnresponsive(f"{host} is gone")
            yield line.encode()


def line(at: float, text: str) -> str:
    return f"data: {as_json(LogLine(at, text))}"


async def texts(host: Scripted, count: int, lines: int = 10) -> list[str]:
    """Of the first lines that a client sees."""
    log = FollowedLog(host, GPU2, lambda lines, follow="": f"{lines}{follow and '+'}")
    async with asyncio.timeout(PATIENCE_S), aclosing(log.lines(lines)) as feed:
        return [(await anext(feed)).text for _ in range(count)]


async def test_a_feed_that_ends_in_order() -> None:
    """It is opened again with enough old lines, and those that were shown are left out."""
    host = Scripted([line(1, "a"), line(2, "b")], [line(1, "a"), line(2, "b"), line(3, "c")], [line(4, "d")])

    assert await texts(host, 4) == ["a", "b", "c", "d"]
    assert host.asked == ["10+", f"{MISSED}+", f"{MISSED}+"]


async def test_a_host_that_is_silent_for_a_while() -> None:
    """One line says so, however long it takes, and the log continues."""
    host = Scripted([line(1, "a"), BREAKS_OFF], [line(1, "a"), line(2, "b"), BREAKS_OFF], [line(3, "c")], silent_for=3)

    assert await texts(host, 5) == ["a", GONE, "b", GONE, "c"]
    assert host.asked == ["10+", "0", "0", "0", "0", f"{MISSED}+", "0", f"{MISSED}+"]


async def test_a_host_that_is_silent_from_the_beginning() -> None:
    """When it is back, it is asked for as many lines as the client wanted."""
    host = Scripted([BREAKS_OFF], [line(1, "a")])

    assert await texts(host, 2) == [GONE, "a"]
    assert host.asked == ["10+", "0", "10+"]


async def test_lines_of_the_same_moment() -> None:
    """Those that were shown are left out, and those that were not are shown."""
    host = Scripted(
        [line(1, "a"), line(2, "b"), line(2, "c")], [line(2, "b"), line(2, "c"), line(2, "d"), line(2, "e")]
    )

    assert await texts(host, 5) == ["a", "b", "c", "d", "e"]


async def test_a_host_whose_clock_was_put_back() -> None:
    """After the first heartbeat, which follows the old lines, every line is new."""
    host = Scripted([line(9, "a")], [line(8, "old"), line(9, "a"), HEARTBEAT, "", line(2, "b"), line(9, "a")])

    assert await texts(host, 3) == ["a", "b", "a"]


async def test_a_process_that_takes_over_while_the_old_one_still_writes() -> None:
    """What the new one wrote before the last line of the old one is shown too."""
    host = Scripted([line(1, "restarting"), line(5, "taken over")], [line(3, "adopted"), line(6, "old one ended")])

    assert await texts(host, 4) == ["restarting", "taken over", "adopted", "old one ended"]


async def test_lines_that_are_older_than_the_first_that_was_shown() -> None:
    """The client wanted fewer lines than a feed that is opened again begins with."""
    host = Scripted([line(2, "b"), line(3, "c")], [line(1, "a"), line(2, "b"), line(3, "c"), line(4, "d")])

    assert await texts(host, 3, lines=2) == ["b", "c", "d"]


def test_long_lines_that_were_shown() -> None:
    """They are left out when the feed is opened again, and are not kept until then."""
    size, count = 64 << 10, 100
    tracemalloc.start()
    try:
        shown, before = Shown(), tracemalloc.get_traced_memory()[0]
        are_new = [shown.is_new(LogLine(n, f"{n}" * (size // len(f"{n}")))) for n in range(count)]
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    shown.begin_again(count)

    assert all(are_new)
    assert kept < count * size / 10
    assert not any(shown.is_new(LogLine(n, f"{n}" * (size // len(f"{n}")))) for n in range(count))
    assert shown.is_new(LogLine(count, "new"))
