"""The output of a model's server, or a host's own log, wherever in the fleet it is.

Lines of several hosts have their host, and are in the order of time. A feed of another host that has ended is opened
again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from hotseat.api.deps import ApiDeps, Deps
from hotseat.api.disconnect import LiveStream, listening, unless_gone
from hotseat.api.log_text import from_json
from hotseat.api.routes.events import HEARTBEAT, HEARTBEAT_S
from hotseat.api.routes.fleet import ALONE, fleet_admin_of
from hotseat.api.routes.logs import LOGS, event, merged, page
from hotseat.api.routes.management import Responses
from hotseat.api.schema_base import Failure
from hotseat.api.slices import taken
from hotseat.errors import ClientError, HostUnresponsive, UnknownHost, UnknownModel, did_you_mean
from hotseat.identifiers import HostName, LogLine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from hotseat.api.deps import FleetAdmin, LogSource, OtherHosts
    from hotseat.identifiers import Bytes, ModelName, Seconds

router = APIRouter(prefix="/hotseat/fleet", tags=["fleet"])

MOST_LINES, LEAST_LINES = 100_000, 100
"""Asked of all hosts together, and of each: so many are in memory at once."""
MOST_BYTES: Bytes = 64 << 20
"""Kept of the answers of all hosts together: of long lines, fewer are."""
MOST_FOLLOWED = 32
"""Hosts whose logs one client follows: each keeps a connection open."""
LINES = (
    "The number of most recent lines. "
    f"Each host is asked for {MOST_LINES:,} divided by the number of hosts at most, but for {LEAST_LINES} in any case."
)
UNKNOWN: Responses = {404: {"model": Failure, "description": "The fleet has no such model or no such host."}}
EVENT, COMMENT = b"data: ", b":"
AGAIN_S: Seconds = 1.0
"""Before a feed is opened again."""
MISSED = 1000
"""Lines that a feed begins with when it is opened again; those that were shown before are left out."""


@router.get(
    "/logs",
    summary="Output of a model's server, or a host's own log, wherever in the fleet it is",
    response_class=Response,
    responses={**LOGS, **UNKNOWN, **ALONE},
)
async def fleet_logs(
    request: Request,
    deps: Deps,
    model: Annotated[str | None, Query(description="The output of this model, on the hosts that have it.")] = None,
    host: Annotated[str | None, Query(description="Only of this host; without `model`, its own log.")] = None,
    lines: Annotated[int, Query(ge=0, le=10_000, description=LINES)] = 100,
    follow: Annotated[bool, Query(description="Follow new lines as server-sent events, in JSON.")] = False,
    in_json: Annotated[bool, Query(alias="json", description="One JSON object per line instead of text.")] = False,
) -> Response:
    log = chosen(deps, model, host)
    if follow:
        check_few(log)
        return LiveStream(feed_of(log, lines))
    return page(await unless_gone(request.receive, log.newest(lines)), in_json=in_json)


def chosen(deps: ApiDeps, model: str | None, host: str | None) -> FleetLog:
    fleet_admin = fleet_admin_of(deps)
    if model is not None:
        name = fleet_admin.resolve(model)
        return log_of(deps, fleet_admin, hosts_with(fleet_admin, name, host), name)
    if host is None:
        raise ClientError("say whose log you want: send `model`, `host` or both")
    return log_of(deps, fleet_admin, [known_host(fleet_admin, host)], None)


def log_of(deps: ApiDeps, fleet_admin: FleetAdmin, hosts: Sequence[HostName], model: ModelName | None) -> FleetLog:
    me = fleet_admin.name
    here = deps.logs.own if model is None else deps.logs.of_model(model)
    others = [each for each in hosts if each != me]
    return FleetLog(fleet_admin.others, others, model, here if me in hosts else None, me)


def hosts_with(fleet_admin: FleetAdmin, model: ModelName, host: str | None) -> list[HostName]:
    """Those that have it now, or else those that may have had it: a failed start is worth reading."""
    found = [each for each in fleet_admin.outlooks(model) if each.phase or each.is_configured]
    if host is None:
        return [each.host for each in found if each.phase] or [each.host for each in found]
    name = known_host(fleet_admin, host)
    if name not in [each.host for each in found]:
        raise UnknownModel(f"{name} does not have {model} in its configuration")
    return [name]


def known_host(fleet_admin: FleetAdmin, host: str) -> HostName:
    names = [fleet_admin.name, *fleet_admin.others.names()]
    if host not in names:
        raise UnknownHost(f'the fleet has no host named "{host}".{did_you_mean(host, names)}')
    return HostName(host)


def check_few(log: FleetLog) -> None:
    if len(log.hosts) > MOST_FOLLOWED:
        many = f"{len(log.hosts)} hosts have {log.model}"
        raise ClientError(f"{many}, and the logs of at most {MOST_FOLLOWED} can be followed at once: send `host` too")


async def feed_of(log: FleetLog, lines: int) -> AsyncGenerator[str, None]:
    async with listening(log.feeds(lines), HEARTBEAT_S) as coming:
        async for line in coming:
            yield HEARTBEAT if line is None else event(line)


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


class FollowedLog:
    def __init__(self, others: OtherHosts, host: HostName, path: Callable[..., str]) -> None:
        """`path` is that of so many last lines."""
        self._others, self._host, self._path = others, host, path
        self._shown = Shown()

    async def lines(self, lines: int) -> AsyncGenerator[LogLine, None]:
        """The last lines, then each new one, also after the host has restarted or was unreachable."""
        while True:
            try:
                async with aclosing(self._feed(lines)) as feed:
                    async for line in feed:
                        yield line
                await asyncio.sleep(AGAIN_S)
            except HostUnresponsive as problem:
                yield remark(self._host, f"{problem}; its log continues here when it is back")
                await self._come_back()
            except ValueError:
                why = "sent something that is not a log line, so its log is not followed any more"
                yield remark(self._host, f"{self._host} {why}")
                return
            lines = self._shown.begin_again(lines)

    async def _feed(self, lines: int) -> AsyncGenerator[LogLine, None]:
        """Until the host ends it, as before a restart."""
        async with aclosing(self._others.follow(self._host, self._path(lines, follow="true"))) as feed:
            async for text in feed:
                if text.startswith(EVENT):
                    line = from_json(text.removeprefix(EVENT))._replace(host=self._host)
                    if self._shown.is_new(line):
                        yield line
                elif text.startswith(COMMENT):  # a heartbeat, which comes after all old lines
                    self._shown.caught_up()

    async def _come_back(self) -> None:
        """Returns when the host answers such a question again."""
        while True:
            await asyncio.sleep(AGAIN_S)
            answers = await self._others.read_all([self._host], self._path(0), bytes)
            if not isinstance(answers[self._host], HostUnresponsive):
                return


class Shown:
    """The lines of a log that were shown last: a feed that is opened again begins with some of them.

    Times alone do not tell: while a host restarts, two of its processes write at the same time.
    """

    def __init__(self) -> None:
        self._last: deque[tuple[float, int]] = deque(maxlen=MISSED)
        """Time and hash: whole lines could need hundreds of megabytes."""
        self._since = -inf
        self._again: Counter[tuple[float, int]] = Counter()

    def begin_again(self, lines: int) -> int:
        """How many last lines the feed must begin with; `lines` if none was shown yet."""
        if not self._last:
            return lines
        self._since, self._again = min(at for at, _ in self._last), Counter(self._last)
        return MISSED

    def caught_up(self) -> None:
        """From now on all lines are new, also if the clock of the host was put back."""
        self._since, self._again = -inf, Counter()

    def is_new(self, line: LogLine) -> bool:
        if line.at < self._since:
            return False
        key = line.at, hash(line)
        if self._again[key]:
            self._again[key] -= 1
            return False
        self._last.append(key)
        return True


def remark(host: HostName, text: str) -> LogLine:
    return LogLine(time.time(), text, level="warning", host=host)
