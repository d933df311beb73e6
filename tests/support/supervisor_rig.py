"""A supervisor and the misbehaving servers it starts."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.counting import COVERAGE_CONFIG
from tests.support.virtual_time import skip
from tests.support.waiting import come_true

from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.identifiers import LaunchId, ModelName
from hotseat.scheduling.commands import Cause, StartUpstream, StopUpstream
from hotseat.scheduling.events import UpstreamFailed, UpstreamReady

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Place
    from hotseat.model_servers.output import Output
    from hotseat.model_servers.supervisor import Supervisor

T = TypeVar("T")

MISBEHAVING_SERVERS = str(Path(__file__).with_name("misbehaving_servers.py"))
PYTHON = (sys.executable, "-I", "-S")
GUARD_INTERPRETER = (sys.executable,) if COVERAGE_CONFIG else PYTHON
"""Coverage reaches into the guard only if it may load site-packages."""


def command_for(behaviour: str, *arguments: str) -> tuple[str, ...]:
    """The command line of a misbehaving server."""
    return (*PYTHON, MISBEHAVING_SERVERS, behaviour, *arguments)


def model(behaviour: str, *arguments: str, proxy: str = "http://127.0.0.1:${PORT}", **known: Any) -> ModelSpec:
    """A model whose server is `behaviour`; further fields of the recipe and of the spec are given by name."""
    of_recipe = {name: known.pop(name) for name in tuple(known) if name in LaunchRecipe.__slots__}
    recipe = LaunchRecipe(**{"argv": command_for(behaviour, "${PORT}", *arguments), "proxy": proxy, **of_recipe})
    return ModelSpec(ModelName("qwen"), recipe, **{"health_check_timeout_s": 20.0, **known})


class SupervisorRig:
    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self._launches = itertools.count(1)

    def next_start(self, spec: ModelSpec, gpus: tuple[Place, ...] = ()) -> StartUpstream:
        return StartUpstream(spec.name, LaunchId(next(self._launches)), spec, "the test says so", gpus)

    async def ready(self, spec: ModelSpec, gpus: tuple[Place, ...] = ()) -> UpstreamReady:
        started = await self.supervisor.start(self.next_start(spec, gpus))
        assert isinstance(started, UpstreamReady), started
        return started

    async def failed(self, spec: ModelSpec) -> str:
        """The message of the failure."""
        started = await self.supervisor.start(self.next_start(spec))
        assert isinstance(started, UpstreamFailed), started
        return started.error.message

    async def failed_at_its_time(self, spec: ModelSpec, so_far: Callable[[], object]) -> str:
        """The message of a health check whose time is over once `so_far` is true."""
        assert spec.health_check_timeout_s
        failing = asyncio.get_running_loop().create_task(self.failed(spec))
        await come_true(so_far)
        skip(spec.health_check_timeout_s)
        return await failing

    async def stop(self, launched: UpstreamReady | StartUpstream, unload_timeout_s: float | None = None) -> None:
        why = "the test says so"
        command = StopUpstream(launched.model, launched.launch, Cause.OPERATOR, why, unload_timeout_s)
        await self.supervisor.stop(command)

    async def end(self, ready: UpstreamReady, unload_timeout_s: float | None = None) -> str:
        """Stop a server and return how it ended."""
        await self.stop(ready, unload_timeout_s)
        return (await self.supervisor.watch(ready)).exit_status

    @property
    def output(self) -> Output:
        return self.supervisor.outputs.of(ModelName("qwen"))

    async def said(self, words: str) -> str:
        """The rest of the last output line with these words, once it is written."""
        lines = await come_true(lambda: self.lines_with(words))
        return lines[-1].partition(words)[2]

    def lines_with(self, words: str) -> list[str]:
        return [line for line in self.tail(500) if words in line]

    def tail(self, lines: int = 20) -> list[str]:
        return [line.text for line in self.output.tail(lines)]

    def has_taken_an_answer(self) -> bool:
        """Whoever asks a second time knows the first answer."""
        return len(self.lines_with("asked")) > 1


def grandchild_in(output: list[str]) -> int:
    """Of the last start: a server that loses its port to another process is started again on another one."""
    return [int(line.split()[1]) for line in output if line.startswith("grandchild")][-1]


def is_alive(pid: int) -> bool:
    """Running, or a zombie."""
    return Path(f"/proc/{pid}").exists()
