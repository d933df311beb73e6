"""Two hotseats in one run, one of which saves conversations; each has memory for one model at a time."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.conversations.record import OFF, ON, Return, Swap
from bench.conversations.talks import Talk
from bench.swap.cache import make_cold, make_warm
from bench.swap.sides import BUDGET, MEMORY, REST, first_byte
from bench.swap.spans import is_about, last
from tests.support.hotseat import Hotseat
from tests.support.llama import REPOSITORY, llama, model_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.conversations.cases import Case

    from hotseat.identifiers import Seconds

OTHER = "other"
"""The model that is used meanwhile. It is as large: the longer its load, the longer a save may delay it."""
OTHER_BIG = "other-big"
"""Large models that are swapped rarely fit into the page cache together: this one is read from disk."""
AT_ONCE = {"scheduler": {"patience": 0}}
"""A model leaves as soon as another one is requested."""
FEW = 1
"""Words of an answer: its first token is what counts."""


@contextmanager
def both_sides(case: Case) -> Iterator[dict[str, Side]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(opened(case, is_on=name == ON)) for name in (ON, OFF)}


@contextmanager
def opened(case: Case, *, is_on: bool) -> Iterator[Side]:
    # Not in /tmp, which may be a tmpfs: conversations are written to a disk.
    with tempfile.TemporaryDirectory(dir=REPOSITORY / ".cache") as made:
        folder = Path(made)
        environ = {"XDG_CACHE_HOME": str(folder / "cache")}
        with Hotseat(configuration(case, is_on=is_on), folder, environ=environ) as hotseat:
            side = Side(hotseat, case, ON if is_on else OFF)
            side.learn_load()
            yield side


def configuration(case: Case, *, is_on: bool) -> dict[str, Any]:
    models = {case.model: llama(case.model, case.options, env=[*case.env]), OTHER: llama(other_weights(case))}
    sized = {name: {**model, "memory": MEMORY[case.model]} for name, model in models.items()}
    keeping = {"conversations": True} if is_on else {}
    return {**keeping, **AT_ONCE, "devices": {"ram": {"memory": BUDGET}}, "models": sized}


def other_weights(case: Case) -> str:
    return OTHER_BIG if case.is_big else REST


class Side:
    def __init__(self, hotseat: Hotseat, case: Case, name: str) -> None:
        self.hotseat, self.case, self.name = hotseat, case, name
        self.port = hotseat.port

    def begin(self, names: Sequence[str], tokens: Sequence[int] = (), words: int = FEW) -> list[Talk]:
        """The first turn of each conversation."""
        lengths = tokens or [self.case.tokens] * len(names)
        talks = [Talk.about(name, length) for name, length in zip(names, lengths, strict=True)]
        for talk in talks:
            talk.answer(self.port, self.case.model, words)
        return talks

    def learn_load(self) -> None:
        """How long a save may take depends on the load that follows, which must be known."""
        self.swap_away()
        self.hotseat.call("DELETE", f"/upstream/{OTHER}")

    def swap_away(self) -> Seconds:
        """Seconds until the other model has answered."""
        (make_cold if self.case.is_big else make_warm)(model_file(other_weights(self.case)))
        began = time.time()
        return first_byte(self.port, OTHER) - began

    def leave_and_return(self, talks: Sequence[Talk], words: int = FEW) -> Return:
        """Another model runs, then each conversation goes on."""
        away_s = self.swap_away()
        make_warm(model_file(self.case.model))
        return self.go_on(talks, words, self.name, away_s)

    def go_on(self, talks: Sequence[Talk], words: int, name: str, away_s: Seconds = 0.0) -> Return:
        turns = [talk.say("?").answer(self.port, self.case.model, words) for talk in talks]
        ready = self.ready_at()
        return Return(
            case=self.case.name,
            side=name,
            away_s=away_s,
            whole_s=sum(turn.first_token - turn.sent for turn in turns),
            turn_s=sum(turn.first_token - max(turn.sent, ready) for turn in turns),
            cached=sum(turn.cached for turn in turns),
            computed=sum(turn.computed for turn in turns),
            texts=tuple(turn.text for turn in turns),
        )

    def swap_with_little(self) -> Swap:
        """There and back, with a conversation that is not worth saving."""
        self.begin(["hello"])
        began = time.time()
        self.swap_away()
        self.begin(["hello"])
        return Swap(self.name, time.time() - began)

    def ready_at(self) -> float:
        """When the model's server last became ready: what follows until the first token is not its load."""
        history = self.hotseat.call("GET", f"/hotseat/models/{self.case.model}").json()["history"]
        return last(history, lambda entry: is_about(entry["event"], "UpstreamReady", self.case.model))
