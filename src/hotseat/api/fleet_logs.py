"""Log lines of several hosts of a fleet, each with its host, in the order of time."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from hotseat.api.log_text import from_json
from hotseat.errors import HostUnresponsive
from hotseat.identifiers import LogLine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from hotseat.api.deps import LogSource, OtherHosts
    from hotseat.identifiers import HostName, ModelName

EVENT = b"data: "


MOST_LINES, LEAST_LINES = 20_000, 100
"""Of all hosts together, and of each: what is decoded and sorted at once delays other requests."""


@dataclass(frozen=True, slots=True)
class FleetLog:
    """The output of a model's server on some hosts, or the logs of these hosts themselves."""

    others: OtherHosts
    hosts: Sequence[HostName]
    """Without this one."""
    model: ModelName | None
    here: LogSource | None
    """None: this host is not among them."""
    me: HostName

    async def newest(self, lines: int) -> list[LogLine]:
        """The last lines of all hosts together; a host that does not answer has a line that says so."""
        each_host = min(lines, max(LEAST_LINES, MOST_LINES // (len(self.hosts) + 1)))
        answers = await self.others.read_all(self.hosts, self._path(each_host, json="true"))
        by_host = [_lines(host, answer) for host, answer in answers.items()]
        if self.here:
            by_host.append([each._replace(host=self.me) for each in self.here.newest(lines)][::-1])
        return [*merge(*by_host, key=attrgetter("at"))][-lines:] if lines else []

    def feeds(self, lines: int) -> list[AsyncGenerator[LogLine, None]]:
        """The last lines of each host, then those that follow."""
        feeds = [self._feed(host, lines) for host in self.hosts]
        return [*feeds, self._own_feed(self.here, lines)] if self.here else feeds

    async def _feed(self, host: HostName, lines: int) -> AsyncGenerator[LogLine, None]:
        try:
            async with aclosing(self.others.follow(host, self._path(lines, follow="true"))) as feed:
                async for line in feed:
                    if line.startswith(EVENT):
                        yield _line(host, line.removeprefix(EVENT))
        except (HostUnresponsive, ValueError, LookupError, TypeError) as problem:
            yield _remark(host, str(problem))

    async def _own_feed(self, source: LogSource, lines: int) -> AsyncGenerator[LogLine, None]:
        async with aclosing(source.follow()) as feed:
            for line in [*source.newest(lines)][::-1]:
                yield line._replace(host=self.me)
            async for line in feed:
                yield line._replace(host=self.me)

    def _path(self, lines: int, **form: str) -> str:
        what = {"own": "true"} if self.model is None else {"model": self.model}
        return f"/hotseat/logs?{urlencode({**what, 'lines': lines, **form})}"


def _lines(host: HostName, answer: bytes | None) -> list[LogLine]:
    if answer is None:
        return [_remark(host, f"{host} did not answer, so its log is missing here")]
    try:
        return [_line(host, line) for line in answer.splitlines()]
    except (ValueError, LookupError, TypeError):
        return [_remark(host, f"{host} did not answer with log lines")]


def _line(host: HostName, line: bytes) -> LogLine:
    return from_json(line.decode())._replace(host=host)


def _remark(host: HostName, text: str) -> LogLine:
    return LogLine(time.time(), text, level="warning", host=host)
