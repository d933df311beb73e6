"""Log lines of several hosts of a fleet, each with its host, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from hotseat.api.disconnect import listening
from hotseat.api.followed_log import FollowedLog, remark
from hotseat.api.log_text import from_json
from hotseat.api.routes.events import HEARTBEAT_S
from hotseat.api.routes.logs import merged
from hotseat.api.slices import taken
from hotseat.errors import HostUnresponsive

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from hotseat.api.deps import LogSource, OtherHosts
    from hotseat.identifiers import Bytes, HostName, LogLine, ModelName

MOST_LINES, LEAST_LINES = 100_000, 100
"""Asked of all hosts together, and of each: so many are in memory at once."""
MOST_BYTES: Bytes = 64 << 20
"""Kept of the answers of all hosts together: of long lines, fewer are."""


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
        most = MOST_BYTES // (len(self.hosts) + 1)
        answers = await self.others.read_all(
            self.hosts, self._path(each_host, json="true"), partial(_newest, most=most)
        )
        by_host = (_newest_first(host, answer) for host, answer in answers.items())
        return await merged(chain([self._own_lines(each_host)], by_host), lines)

    def _own_lines(self, lines: int) -> Iterator[LogLine]:
        """Newest first."""
        return (line._replace(host=self.me) for line in (self.here.newest(lines) if self.here else ()))

    def feeds(self, lines: int) -> list[AsyncGenerator[LogLine, None]]:
        """The last lines of each host, then those that follow, as long as somebody reads them."""
        feeds = [FollowedLog(self.others, host, self._path).lines(lines) for host in self.hosts]
        return [*feeds, self._own_feed(self.here, lines)] if self.here else feeds

    async def _own_feed(self, source: LogSource, lines: int) -> AsyncGenerator[LogLine, None]:
        async with listening([source.follow()], HEARTBEAT_S) as coming:
            for line in (await taken(source.newest(lines)))[::-1]:
                yield line._replace(host=self.me)
            async for news in coming:
                if news is not None:
                    yield news._replace(host=self.me)

    def _path(self, lines: int, **form: str) -> str:
        what = {"own": "true"} if self.model is None else {"model": self.model}
        return f"/hotseat/logs?{urlencode({**what, 'lines': lines, **form})}"


def _newest_first(host: HostName, answer: bytes | HostUnresponsive) -> Iterator[LogLine]:
    """A line is decoded when it is taken: most of them are not, if many hosts have answered."""
    if isinstance(answer, HostUnresponsive):
        yield remark(host, f"{answer}, so its log is missing here")
        return
    try:
        for line in _last_line_first(answer):
            yield from_json(line)._replace(host=host)
    except ValueError:
        yield remark(host, f"{host} sent something that is not a log line, so its older lines are missing here")


def _newest(answer: bytes, most: Bytes) -> bytes:
    """The last lines, as many as have room."""
    return answer if len(answer) <= most else answer[-most:].partition(b"\n")[2]


def _last_line_first(text: bytes) -> Iterator[bytes]:
    end = len(text.removesuffix(b"\n"))
    while end > 0:
        begin = text.rfind(b"\n", 0, end) + 1
        yield text[begin:end]
        end = begin - 1
