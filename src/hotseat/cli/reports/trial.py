"""Loads, swaps and wakes a few models of a running hotseat, and measures memory and time. Sends no prompts."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hotseat.cli.client import Refused, in_path
from hotseat.cli.problems import Problem
from hotseat.cli.queries import NOT_RUNNING, STOPPABLE, stopped
from hotseat.memory.measurement import footprint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotseat.cli.client import Server
    from hotseat.identifiers import Instant, Seconds
    from hotseat.memory.machine import Machine
    from hotseat.memory.measurement import Reading

MOST_TRIED = 2
MOST_COMPARED = 30
"""Models whose size is asked for, to find the smallest."""
LEAST_S: Seconds = 0.001
LEAVE_S: Seconds = 60.0
"""For each model to be unloaded at the end."""


@dataclass(slots=True)
class Trial:
    server: Server
    machine: Machine
    until: Instant
    is_ours: bool
    """Started for the report: whatever it has loaded may be unloaded."""
    clock: Callable[[], Instant] = time.monotonic
    models: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""
    """Why it ended early."""
    tried: list[str] = field(default_factory=list)

    def run(self, wanted: Sequence[str]) -> None:
        """What was measured before a problem is kept."""
        try:
            self._stop_all() if self.is_ours else self._refuse_while_in_use()
            chosen = wanted or self._smallest()
            for name in chosen:
                self._try(name)
            self._again(chosen[0])
        except Problem as problem:
            self.problem = "the time limit was reached" if self.clock() >= self.until else str(problem)
        finally:
            self._leave()

    # Steps

    def _try(self, name: str) -> None:
        """Load it, which may unload another one or put it to sleep, and measure it."""
        before = self.machine.sample(())
        self._load(name)
        self.models.append(self._measured(name, before))

    def _again(self, name: str) -> None:
        """A model that stayed loaded beside the other one is stopped first."""
        if self._phases().get(name) in ("ready", "draining"):
            self._timed(f"unload {name}", lambda: stopped(self._asked(), name, force=False))
        self._load(name)

    def _load(self, name: str) -> None:
        self.tried.append(name)
        word = "wake" if self._phases().get(name) == "asleep" else "load"
        self._timed(f"{word} {name}", lambda: self._ask(f"/upstream/{in_path(name)}/load"))

    def _timed(self, step: str, act: Callable[[], object]) -> None:
        began = self.clock()
        act()
        self.steps.append({"step": step, "seconds": round(self.clock() - began, 2), "phases": self._phases()})

    def _stop_all(self) -> None:
        for name, phase in self._phases().items():
            if phase in STOPPABLE:
                stopped(self._asked(), name, force=False)

    def _leave(self) -> None:
        """Unload what was loaded here, even if there was a problem. A server of ours stops anyway."""
        for name in dict.fromkeys(() if self.is_ours else self.tried):
            try:
                stopped(replace(self.server, patience_s=LEAVE_S), name, force=False)
            except Problem as problem:
                if not (isinstance(problem, Refused) and problem.status == NOT_RUNNING):
                    self.problem = self.problem or f"{name} could not be unloaded: {problem}"

    # Facts

    def _measured(self, name: str, before: Reading) -> dict[str, Any]:
        model = self._ask(f"/hotseat/models/{in_path(name)}", local="true")
        uses = footprint(model["pid"], self.machine.sample((model["pid"],)), before) if model["pid"] else {}
        return {
            "model": name,
            "estimated": self._estimate(name),
            "counted": model["footprint"],
            "measured": {device: asdict(use) for device, use in uses.items() if use.total},
            "gpus": model["gpus"],
        }

    def _estimate(self, name: str) -> dict[str, Any]:
        try:
            found = self._ask(f"/hotseat/models/{in_path(name)}/estimate")
        except Refused as refused:
            return {"problem": str(refused)}
        return {"needed": found["needed"], "device_share": found["device_share"], "notes": found["notes"]}

    def _smallest(self) -> list[str]:
        """They load fastest; a model without an estimate comes last."""
        sizes = {name: self._size(name) for name in [*self._phases()][:MOST_COMPARED]}
        if not sizes:
            raise Problem("the configuration has no models")
        return sorted(sizes, key=lambda name: sizes[name])[:MOST_TRIED]

    def _size(self, name: str) -> float:
        needed: dict[str, int] | None = self._estimate(name).get("needed")
        return float("inf") if needed is None else sum(needed.values())

    def _refuse_while_in_use(self) -> None:
        models = self._ask("/hotseat/models")["models"]
        busy = [model["model"] for model in models if model["in_flight"] or model["waiting"]]
        if busy:
            raise Problem(f"requests are in progress for {', '.join(busy)}; run the report when nobody uses the server")
        if alive := [f"{model['model']} ({model['phase']})" for model in models if model["phase"] in STOPPABLE]:
            raise Problem(
                f"the report would unload {', '.join(alive)}; `hotseat stop --all` frees them, then try again"
            )

    def _phases(self) -> dict[str, str]:
        return {model["model"]: model["phase"] for model in self._ask("/hotseat/models")["models"]}

    def _ask(self, path: str, **query: object) -> Any:
        return self._asked().ask("GET", path, **query)

    def _asked(self) -> Server:
        """It must answer before the time limit."""
        return replace(self.server, patience_s=max(LEAST_S, self.until - self.clock()))
