"""Two hotseats in one run, one of which saves conversations; each has memory for one model at a time."""

from __future__ import annotations

import http.client
import json
import random
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bench.conversations.results import OFF, ON, Return, Swap
from bench.swap.cache import make_cold, make_warm
from bench.swap.sides import BUDGET, MEMORY, REST, first_byte, is_about, last
from tests.support.client import send
from tests.support.hotseat import Hotseat
from tests.support.llama import REPOSITORY, llama, model_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.conversations.results import Case

    from hotseat.identifiers import Seconds

PATIENCE_S: Seconds = 600.0
"""The big model computes about fifty tokens per second on one core."""
LETTERS = "abcdefghijklmnopqrstuvwxyz      "


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer; times are seconds since the epoch, as in hotseat's journal."""

    sent: float
    first_token: float
    text: str
    cached: int
    """Tokens of the prompt that the server did not compute."""
    computed: int


@dataclass(slots=True)
class Talk:
    """Greedy, so that an answer depends on nothing but what was said before."""

    messages: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def about(cls, name: str, tokens: int) -> Self:
        """Begin with a message of so many tokens; one character is one token of the models that we make."""
        rng = random.Random(name)
        return cls().say("".join(rng.choices(LETTERS, k=tokens)))

    def say(self, text: str) -> Self:
        self.messages.append({"role": "user", "content": text})
        return self

    def answer(self, port: int, model: str, words: int) -> Turn:
        """Ask the model, and note what it says."""
        turn = ask(port, model, self.messages, words)
        self.messages.append({"role": "assistant", "content": turn.text})
        return turn


def ask(port: int, model: str, messages: list[dict[str, str]], words: int) -> Turn:
    body = {"model": model, "messages": messages, "max_tokens": words, "temperature": 0, "stream": True}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    sent = time.time()
    try:
        response = send(connection, "POST", "/v1/chat/completions", body, {})
        if response.status != 200:
            raise SystemExit(f"no answer from {model}: {response.status} {response.read()[:300]!r}")
        return read_turn(sent, response)
    finally:
        connection.close()


def read_turn(sent: float, response: http.client.HTTPResponse) -> Turn:
    first, words, timings = 0.0, "", {"cache_n": 0, "prompt_n": 0}
    for event in events(response):
        said = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        first = first or (time.time() if said else 0.0)
        words += said
        timings = event.get("timings", timings)
    return Turn(sent, first, words, timings["cache_n"], timings["prompt_n"])


def events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := response.readline():
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


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
