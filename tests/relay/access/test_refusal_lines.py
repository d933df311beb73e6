"""Refusals in the audit file: of many addresses, too, there are few lines in a minute."""

from __future__ import annotations

import pytest

from hotseat.relay.access.audit import MOST_LINES, RefusalLines
from hotseat.relay.access.wrong_keys import MOST_ADDRESSES, MOST_NAMED, MOST_WRONG, THE_REST


class Minutes:
    """Refusals on a clock that stands still; `end` ends the minute."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, int]] = []
        self.lines = RefusalLines(lambda: 0.0, lambda _, __: None, lambda *each: self.reported.append(each))

    def refuse(self, address: str, times: int = 1) -> int:
        """How many of them got a line."""
        return sum(self.lines.take(address) for _ in range(times))

    def end(self) -> list[tuple[str, int]]:
        self.reported.clear()
        self.lines.counts.end_minute()
        return self.reported


@pytest.fixture
def minutes() -> Minutes:
    return Minutes()


def address(number: int) -> str:
    return f"10.0.{number >> 8}.{number & 255}"


def test_one_address_is_refused_often(minutes: Minutes) -> None:
    """Twenty lines, and then the number of the others."""
    assert minutes.refuse("192.0.2.7", 25) == MOST_WRONG
    assert minutes.end() == [("192.0.2.7", 5)]


def test_a_few_addresses_use_up_the_lines_of_a_minute(minutes: Minutes) -> None:
    """Another one is then counted only, from its first refusal on; the next minute has its own lines."""
    full = MOST_LINES // MOST_WRONG
    written = [minutes.refuse(address(number), MOST_WRONG) for number in range(full)]
    late = minutes.refuse("192.0.2.7", 3)

    assert (written, late) == ([MOST_WRONG] * full, 0)
    assert minutes.end() == [("192.0.2.7", 3)]
    assert minutes.refuse("192.0.2.7") == 1
    assert minutes.end() == []


def test_thousands_of_addresses_are_refused(minutes: Minutes) -> None:
    """Those with the most refusals are named, and one line has the number of all others: none is forgotten."""
    many = 2 * MOST_ADDRESSES
    written = sum(minutes.refuse(address(number), 2 if number == 500 else 1) for number in range(many))
    reported = minutes.end()

    assert written == MOST_LINES
    assert len(reported) == MOST_NAMED + 1
    assert reported[0] == (address(500), 2)
    assert reported[-1][0] == THE_REST
    assert sum(count for _, count in reported) == many + 1 - MOST_LINES
