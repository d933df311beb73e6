"""Which refusals get an audit line of their own. Anybody can be refused, from many addresses, and must neither fill the
disk nor push the lines about actions out of the audit files.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hotseat.relay.access.wrong_keys import MOST_WRONG, MinuteCounts, counted_as, in_few_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Instant, Seconds

MOST_LINES = 100
"""In a minute, of all addresses. Fewer than MOST_ADDRESSES, so that every address with a line has its own counter."""


class RefusalLines:
    def __init__(
        self,
        now: Callable[[], Instant],
        later: Callable[[Seconds, Callable[[], None]], object],
        report: Callable[[str, int], None],
    ) -> None:
        """`report` is called at the end of a minute, with addresses and how many of their refusals got no line."""
        self.counts = MinuteCounts(now, later, self._end_minute)
        self._report = report
        self._written: Counter[str] = Counter()

    def take(self, peer: str) -> bool:
        """Count a refusal; True if it gets a line."""
        if self.counts.add(peer) > MOST_WRONG or self._written.total() >= MOST_LINES:
            return False
        self._written[counted_as(peer)] += 1
        return True

    def _end_minute(self, counts: Counter[str]) -> None:
        omitted = counts - self._written
        self._written.clear()
        for address, count in in_few_lines(omitted):
            self._report(address, count)
