"""Slows down and logs those who guess keys: how often an address was wrong within a minute.

An address is what the policy says of a client without a key: behind a trusted proxy, what that says."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from typing import TYPE_CHECKING

from hotseat.errors import ForeignHost, HostUnproven, TooManyWrongKeys, Unauthorized
from hotseat.fleet.host_headers import PROOF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Instant, Seconds
    from hotseat.relay.http.request_head import RequestHead

log = logging.getLogger(__name__)

MOST_WRONG = 20
"""Wrong keys from one address in a minute before it gets 429."""
MINUTE: Seconds = 60.0
MOST_ADDRESSES = 1024
"""Counted separately; all further addresses in the same minute share one counter."""
MOST_NAMED = 20
"""Addresses that are named at the end of a minute; all others share a line."""
THE_REST = "other addresses"
_PLAIN = re.compile(rf"[0-9A-Za-z.:/_-]+|{THE_REST}")


class MinuteCounts:
    """Counts per address. A minute begins with the first count; without any there is no state, not even a timer."""

    def __init__(
        self,
        now: Callable[[], Instant],
        later: Callable[[Seconds, Callable[[], None]], object],
        report: Callable[[Counter[str]], None],
    ) -> None:
        """`report` is called at the end of a minute, with the count of each address."""
        self._now, self._later, self._report = now, later, report
        self._counts: Counter[str] = Counter()
        self._ends_at: Instant = 0.0

    def add(self, address: str) -> int:
        """The count of the address, with this one."""
        if not self._counts:
            self._ends_at = self._now() + MINUTE
            self._later(MINUTE, self.end_minute)
        if address not in self._counts and len(self._counts) >= MOST_ADDRESSES:
            address = THE_REST
        self._counts[address] += 1
        return self._counts[address]

    def left_s(self) -> Seconds:
        """Until the end of the minute."""
        return self._ends_at - self._now()

    def end_minute(self) -> None:
        counts, self._counts = self._counts, Counter()
        self._report(counts)


class WrongKeys:
    """Counts wrong keys per address: too many get 429 and a log entry.

    Only refused requests get here, so a valid key is never slowed down, even from an address that also guesses.
    """

    def __init__(self, now: Callable[[], Instant], later: Callable[[Seconds, Callable[[], None]], object]) -> None:
        self.counts = MinuteCounts(now, later, log_wrong_keys)

    def answer(self, error: HotseatError, head: RequestHead, address: str) -> HotseatError:
        """The original error, or 429 if this address sent too many."""
        if not _is_guess(error, head):
            return error
        if self.counts.add(address) <= MOST_WRONG or isinstance(error, HostUnproven):
            return error  # a host with an invalid proof must learn that, so that it tries another host
        return TooManyWrongKeys(
            "too many invalid API keys from this address; a valid key is still accepted",
            retry_after=max(1.0, self.counts.left_s()),
        )


def in_few_lines(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    """The addresses with the highest counts, then the sum of all others."""
    rest = counts.pop(THE_REST, 0)
    named = counts.most_common(MOST_NAMED)
    yield from named
    rest += counts.total() - sum(count for _, count in named)
    if rest:
        yield THE_REST, rest


def log_wrong_keys(counts: Counter[str]) -> None:
    for address, count in in_few_lines(counts):
        shown = address if _PLAIN.fullmatch(address) else json.dumps(address)  # what a proxy says may be anything
        log.warning("invalid API keys were sent address=%s count=%d window_s=%d", shown, count, MINUTE)


def _is_guess(error: HotseatError, head: RequestHead) -> bool:
    """A request without a key is not a guess: browsers try that first."""
    known = head.known
    if isinstance(error, Unauthorized | ForeignHost):
        return b"authorization" in known or b"x-api-key" in known
    return isinstance(error, HostUnproven) and PROOF in known
