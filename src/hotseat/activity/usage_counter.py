"""How many requests and tokens each API key used of each model, per day.

Clients cannot choose the names: they are the model's own name, whatever the client called it, and the name of the key,
which is empty if no keys are configured. A user who has signed in at a proxy counts as `user:NAME`, which no key is
called; so the proxy decides how many entries there are.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from hotseat.activity.recent import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotseat.identifiers import ModelName

DAY_S = 86_400
NOT_REPORTED = Tokens(None, None, None)


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
