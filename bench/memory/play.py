"""Runs real servers of eight sizes behind one hotseat, sends requests to all of them, and measures their memory."""

from __future__ import annotations

import random
import shlex
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from bench.estimates.shapes import Shape, write_zeros
from tests.support.hotseat import Hotseat
from tests.support.llama import SERVER, present
from tests.support.processes import all_pids, command_line

from hotseat.memory.ram import resident

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hotseat.identifiers import Bytes, Seconds

MIB = 1 << 20
EVERY_S: Seconds = 0.02
FAVOURITE = 0.8
"""The popularity of each model relative to the one before it."""
STAYS = 0.5
"""The probability that the next request is for the same model."""


@dataclass(frozen=True, slots=True)
class Size:
    """A model of so many layers, with about so many MiB per layer."""

    layers: int
    ff: int = 1024

    @property
    def shape(self) -> Shape:
        return Shape(layers=self.layers, ff=self.ff, vocab=1024, context=512)


SMALL = tuple(Size(layers) for layers in (1, 2, 3, 4, 6, 8, 10, 14))
"""From 5 to 75 MB: for a test."""
LARGE = tuple(Size(layers, ff=4096) for layers in (1, 3, 6, 10, 15, 20, 30, 40))
"""From 20 to 600 MB."""


@dataclass(frozen=True, slots=True)
class Outcome:
    requests: int
    problems: list[str]
    """Failed requests."""
    loads: int
    took_s: Seconds
    worst_s: Seconds
    """The longest time to an answer."""
    peak: Bytes
    """The most memory that all servers had at one time."""
    looks: int
    most_at_once: int


def make_models(folder: Path, sizes: Sequence[Size]) -> dict[str, Path]:
    return {f"m{n}": write_zeros(folder / f"m{n}.gguf", size.shape) for n, size in enumerate(sizes)}


def configuration(models: Mapping[str, Path], budget: Bytes | None) -> dict[str, Any]:
    """Declares no model's memory: hotseat must find it out. Without a budget, one model at a time."""
    devices = {} if budget is None else {"devices": {"ram": {"memory": budget}}}
    return {**devices, "models": {name: {"cmd": command(path)} for name, path in models.items()}}


def command(model: Path) -> str:
    # Without mmap, so that every resident byte is the server's own; one thread, as everywhere on busy cores.
    server = shlex.quote(str(present(SERVER)))
    return f"{server} -m {shlex.quote(str(model))} --port ${{PORT}} -c 512 -np 1 -t 1 -tb 1 --load-mode none"


def trace(names: Sequence[str], requests: int, seed: int = 1) -> list[str]:
    """Popular models, and a client that repeats its last one."""
    rng = random.Random(seed)
    weights = [FAVOURITE**n for n in range(len(names))]
    asked = [names[0]]
    while len(asked) < requests:
        again = rng.random() < STAYS
        asked.append(asked[-1] if again else rng.choices(names, weights)[0])
    return asked


def play(folder: Path, models: Mapping[str, Path], asked: Sequence[str], budget: Bytes | None) -> Outcome:
    """Send the requests one after the other, so that with one model at a time each change of model is a load."""
    folder.mkdir()
    models_in = str(next(iter(models.values())).parent)
    with Hotseat(configuration(models, budget), folder) as rig, Scales(models_in) as scales:
        began = time.monotonic()
        waits = converse(rig, asked)
        took_s = time.monotonic() - began
        loads = rig.log().count("starting model server")
    return Outcome(
        requests=len(waits),
        problems=[problem for problem, _ in waits if problem],
        loads=loads,
        took_s=took_s,
        worst_s=max(wait_s for _, wait_s in waits),
        peak=scales.peak,
        looks=scales.looks,
        most_at_once=scales.most_at_once,
    )


def converse(rig: Hotseat, asked: Sequence[str]) -> list[tuple[str, Seconds]]:
    """For each request what was wrong with the answer, if anything, and how long it took."""
    measured = []
    for model in asked:
        began = time.monotonic()
        answer = rig.call("POST", "/completion", {"model": model, "prompt": "abc", "n_predict": 2})
        problem = "" if answer.status == 200 else f"{model}: {answer.status} {answer.body.decode()}"
        measured.append((problem, time.monotonic() - began))
    return measured


@dataclass
class Scales:
    """Measures all servers of the models in a folder repeatedly while the block runs."""

    folder: str
    peak: Bytes = 0
    looks: int = 0
    most_at_once: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._weigh_on, name="scales")
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._ended.set()
        self._thread.join()

    def _weigh_on(self) -> None:
        while not self._ended.wait(EVERY_S):
            taken = [use for pid in all_pids() if self._is_ours(pid) and (use := resident(pid).total)]
            self.looks += 1
            self.peak = max(self.peak, sum(taken))
            self.most_at_once = max(self.most_at_once, len(taken))

    def _is_ours(self, pid: int) -> bool:
        words = command_line(pid)
        return "llama-server" in words and self.folder in words
