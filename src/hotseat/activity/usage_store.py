"""Requests and tokens per day, model and API key: counted in memory, and kept on disk for 400 days.

Clients cannot choose the names: they are the model's own name, whatever the client called it, and the name of the key,
which is empty if no keys are configured. A user who has signed in at a proxy counts as `user:NAME`, which no key is
called; so the proxy decides how many entries there are.

Each write adds what was counted since the last one, four times a second: a killed process loses no more than that, and
two processes may write to the same file, as they do during a restart. What cannot be written is written later.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import suppress
from datetime import date, timedelta
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from hotseat.activity.recent import Tokens
from hotseat.activity.record_file import Format, RecordFile, RecordWriter
from hotseat.activity.usage import REQUESTS
from hotseat.errors import HotseatError
from hotseat.tasks import forever

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from hotseat.identifiers import ModelName, Seconds

DAY_S = 86_400
NOT_REPORTED = Tokens(None, None, None)
USAGE_FILE = "usage.sqlite3"
EVERY_S: Seconds = 0.25
MOST_KEYS = 100_000
KEPT_DAYS = 400
"""A year can be compared with the one before."""
FIRST_DAY = date(1970, 1, 1)
TABLES = """
create table if not exists usage (
    day text not null, model text not null, key text not null, requests integer not null, unknown integer not null,
    prompt_tokens integer not null, cached_tokens integer not null, completion_tokens integer not null,
    primary key (day, model, key)) without rowid;
create table if not exists estimates (
    day text not null, model text not null, key text not null, tokens integer not null,
    primary key (day, model, key)) without rowid;
"""
FORMAT = Format(1, TABLES)
ADD = """
insert into usage values (?, ?, ?, ?, ?, ?, ?, ?) on conflict do update set
    requests = requests + excluded.requests, unknown = unknown + excluded.unknown,
    prompt_tokens = prompt_tokens + excluded.prompt_tokens, cached_tokens = cached_tokens + excluded.cached_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens
"""
ADD_ESTIMATE = "insert into estimates values (?, ?, ?, ?) on conflict do update set tokens = tokens + excluded.tokens"
SELECT = """
select iif(?, day, null) as of_day, iif(?, model, null) as of_model, iif(?, key, null) as of_key,
    sum(requests), sum(unknown), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),
    sum(coalesce(tokens, 0))
from usage left join estimates using (day, model, key)
where day between ? and ? group by of_day, of_model, of_key order by of_day, of_model, of_key limit ?
"""


class Place(NamedTuple):
    """Where a request is counted."""

    day: int
    """Since 1970, in UTC."""
    model: ModelName
    key: str


class Used(Struct):
    requests: int = 0
    unknown: int = 0
    """Requests among them whose tokens the model server did not report, at least not those of the prompt."""
    prompt: int = 0
    """With the cached ones."""
    cached: int = 0
    completion: int = 0
    estimated: int = 0
    """Further tokens, of the unknown requests: the model server did not report them."""

    def add(self, more: Used) -> None:
        self.requests += more.requests
        self.unknown += more.unknown
        self.prompt += more.prompt
        self.cached += more.cached
        self.completion += more.completion
        self.estimated += more.estimated


class UsageCounter:
    """Counts until somebody takes the counts; remembers the sums of each key."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._new: dict[tuple[int, ModelName, str], Used] = {}
        self._taken_by_key: defaultdict[str, Used] = defaultdict(Used)

    def count(self, model: ModelName, key: str, tokens: Tokens | None, estimated: int = 0) -> None:
        """One request, which has ended; None: its tokens are unknown."""
        place = (int(self._wall_clock()) // DAY_S, model, key)
        used = self._new.get(place)
        if used is None:
            used = self._new[place] = Used()
        used.requests += 1
        prompt, completion, _, cached, _ = tokens or NOT_REPORTED
        if prompt is None:
            used.unknown += 1
        else:
            used.prompt += prompt
        used.cached += cached or 0
        used.completion += completion or 0
        used.estimated += estimated

    def take(self) -> dict[Place, Used]:
        """What was counted since the last call."""
        taken, self._new = self._new, {}
        for (_, _, key), used in taken.items():
            self._taken_by_key[key].add(used)
        return {Place(*place): used for place, used in taken.items()}

    def by_key(self) -> Mapping[str, Used]:
        """The sums of each key since the start."""
        sums: defaultdict[str, Used] = defaultdict(Used)
        for key, used in self._taken_by_key.items():
            sums[key].add(used)
        for (_, _, key), used in self._new.items():
            sums[key].add(used)
        return sums


class By(Enum):
    DAY = "day"
    MODEL = "model"
    KEY = "key"


class UsageRow(NamedTuple):
    """A sum. None: over all days, models or keys."""

    day: str | None
    model: str | None
    key: str | None
    used: Used


def day_of(at: float) -> date:
    """In UTC."""
    return FIRST_DAY + timedelta(days=int(at) // DAY_S)


class UsageStore:
    """The file."""

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self.file = RecordFile(path, FORMAT, wall_clock)
        self._wall_clock = wall_clock

    def add(self, counted: Mapping[Place, Used]) -> None:
        """Adds all or none; raises if it cannot."""
        with self.file.opened() as file, file:
            file.executemany(ADD, [_row(place, used) for place, used in counted.items()])
            estimates = [(*_columns(place), used.estimated) for place, used in counted.items() if used.estimated]
            file.executemany(ADD_ESTIMATE, estimates)

    def tidy(self) -> None:
        if self.file.path.exists():
            oldest = day_of(self._wall_clock()) - timedelta(days=KEPT_DAYS)
            with self.file.opened() as file, file:
                file.execute("delete from usage where day < ?", (oldest.isoformat(),))
                file.execute("delete from estimates where day < ?", (oldest.isoformat(),))

    def read(self, since: date, until: date, by: Collection[By], most: int) -> list[UsageRow]:
        """The sums of these days, both included; none if there is no file."""
        if not self.file.path.exists():
            return []
        grouped = [each in by for each in By]
        with self.file.readable() as file:
            found = file.execute(SELECT, (*grouped, since.isoformat(), until.isoformat(), most))
            return [UsageRow(day, model, key, Used(*counts)) for day, model, key, *counts in found]

    def used_today(self, key: str, kind: str) -> int:
        """Requests or tokens of this key since midnight UTC; 0 if the file cannot be read, which the writer reports."""
        today = day_of(self._wall_clock())
        with suppress(HotseatError):
            used = {row.key: row.used for row in self.read(today, today, (By.KEY,), MOST_KEYS)}.get(key, Used())
            return used.requests if kind == REQUESTS else used.prompt + used.completion + used.estimated
        return 0


def _row(place: Place, used: Used) -> tuple[object, ...]:
    return (*_columns(place), used.requests, used.unknown, used.prompt, used.cached, used.completion)


def _columns(place: Place) -> tuple[str, str, str]:
    return (FIRST_DAY + timedelta(days=place.day)).isoformat(), place.model, place.key


class UsageWriter:
    """Moves what was counted to the file."""

    def __init__(self, counter: UsageCounter, store: UsageStore) -> None:
        self._counter = counter
        self._store = store
        self._writer = RecordWriter(store.file)
        self._unwritten: defaultdict[Place, Used] = defaultdict(Used)
        """Belongs to the write in progress, if there is one."""

    async def watch(self) -> None:
        """Never returns. To stop, cancel it and call `close`."""
        await forever(self._write, "usage", EVERY_S)

    async def close(self) -> None:
        """Write the rest."""
        await self._write()

    async def read(self, since: date, until: date, by: Collection[By], most: int) -> list[UsageRow]:
        """The sums of these days, everything counted until now included."""
        await self._write()
        return await asyncio.to_thread(self._store.read, since, until, by, most)

    async def _write(self) -> None:
        await self._writer.idle()
        for place, used in self._counter.take().items():
            self._unwritten[place].add(used)
        if self._unwritten or self._writer.is_untidy:
            await self._writer.run(self._add_unwritten, self._store.tidy)

    def _add_unwritten(self) -> None:
        if self._unwritten:
            self._store.add(self._unwritten)
            self._unwritten.clear()
