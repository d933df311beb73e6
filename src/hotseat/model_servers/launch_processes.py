"""The processes of one launch: the server, and the programs that stop it, put it to sleep or wake it.

With the environment and the GPUs that they get.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hotseat.catalog.redaction import secrets_in, without
from hotseat.catalog.spec import with_gpus
from hotseat.catalog.template import PID, PORT, fill_hole
from hotseat.model_servers.api_key import KEYS_VARIABLES
from hotseat.model_servers.guarded_process import Child, Order
from hotseat.model_servers.output import Pipe
from hotseat.model_servers.visible_gpus import limited
from hotseat.threads import look_at_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from hotseat.catalog.spec import FilledRecipe, ModelSpec
    from hotseat.identifiers import DeviceName, Place
    from hotseat.model_servers.adoption import TakenServer
    from hotseat.model_servers.guard_client import Guard
    from hotseat.model_servers.guarded_process import GuardedProcess
    from hotseat.model_servers.output import Output
    from hotseat.model_servers.ports import PortLease
    from hotseat.model_servers.visible_gpus import CardName

log = logging.getLogger(__name__)


class LaunchProcesses:
    def __init__(self, spec: ModelSpec, environ: Mapping[str, str], guard: Guard, output: Output) -> None:
        self._spec, self._environ, self._guard, self._output = spec, environ, guard, output

    def order(self, recipe: FilledRecipe) -> Order:
        """Looks for the programs, so not for the event loop; OSError: there is none."""
        env = environment(self._environ, recipe.env)
        program = find_program(recipe.argv[0], env)
        return Order(program, recipe.argv, env, last_resort(recipe, env), self._spec.unload_timeout_s)

    async def start_server(self, order: Order, recipe: FilledRecipe, lease: PortLease | None) -> Child:
        self._conceal_secrets(recipe)
        if lease:
            lease.vacate()
        return self._child_of(await self._run(order), recipe, lease)

    def adopt_server(self, taken: TakenServer, recipe: FilledRecipe, lease: PortLease | None) -> Child:
        """A server that another hotseat process has started."""
        self._conceal_secrets(recipe)
        taken.output.lead_to(self._output)
        return self._child_of(taken.process, recipe, lease)

    async def run_hook(self, argv: tuple[str, ...], pid: int, port: int) -> GuardedProcess:
        """Start a program that puts the server to sleep or wakes it; OSError if it cannot be run."""
        words = tuple(fill_hole(fill_hole(word, PID, pid), PORT, port) for word in argv)
        return await self._run_beside(words, environment(self._environ, self._spec.recipe.env))

    def _conceal_secrets(self, recipe: FilledRecipe) -> None:
        keys = (self._environ.get(name) for name in KEYS_VARIABLES.values())
        self._output.conceal((*secrets_in(recipe.argv, recipe.env), *self._spec.recipe.secrets, *filter(None, keys)))

    def _child_of(self, process: GuardedProcess, recipe: FilledRecipe, lease: PortLease | None) -> Child:
        if lease:
            process.gone.add_done_callback(lambda _: lease.release())
        stop, env = recipe.stop_argv(process.pid), environment(self._environ, recipe.env)
        run_stop = partial(self._run_beside, stop, env) if stop else None
        return Child(process, self._spec.unload_timeout_s, run_stop, lease.port if lease else None)

    async def _run_beside(self, argv: tuple[str, ...], env: Mapping[str, str]) -> GuardedProcess:
        try:
            program = await look_at_disk((self._spec.name, argv[0]), partial(find_program, argv[0], env))
            return await self._run(Order(program, argv, env))
        except OSError as problem:
            raise OSError(without(str(problem), self._spec.recipe.secrets)) from problem

    async def _run(self, order: Order) -> GuardedProcess:
        """Its output goes to the model's output."""
        pipe = Pipe(self._output)
        try:
            process = await self._guard.spawn(order, pipe.ends())
        except OSError as problem:
            pipe.close()
            raise OSError(f"{order.program} cannot be run: {problem.strerror or problem}") from problem
        except asyncio.CancelledError:
            pipe.close()
            raise
        process.gone.add_done_callback(lambda _: pipe.close())
        process.when_taken(pipe.leave)
        return process


def last_resort(recipe: FilledRecipe, env: Mapping[str, str]) -> tuple[str, ...] | None:
    """What the guard runs to stop the server if hotseat has died: a program, then its argv."""
    if recipe.stop is None:
        return None
    try:
        return (find_program(recipe.stop[0], env), *recipe.stop)
    except OSError:
        return None


class LaunchEnvironment:
    """hotseat's environment, as servers get it."""

    def __init__(
        self,
        ours: Mapping[str, str],
        withheld: Collection[str],
        card_names: Callable[[], Mapping[DeviceName, CardName]],
        makes_keys: Callable[[], bool],
    ) -> None:
        """`card_names` returns what CUDA and ROCm call each GPU; `makes_keys`, whether a server gets a key."""
        self._ours, self._card_names, self.makes_keys = ours, card_names, makes_keys
        self.withheld = withheld
        """Variables that servers do not get from now on."""

    def on_gpus(self, spec: ModelSpec, gpus: tuple[Place, ...]) -> tuple[ModelSpec, dict[str, str]]:
        """The spec with its cards filled in, and an environment with only these cards in it."""
        environ = {name: value for name, value in self._ours.items() if name not in self.withheld}
        if not gpus:
            return spec, environ
        names = self._card_names()
        known = {place.device: names.get(place.device) for place in gpus}
        unnamed = [device for device, card in known.items() if card is None]
        if unnamed:
            log.warning("server is not limited to its GPUs model=%s unknown=%s", spec.name, ",".join(unnamed))
        else:
            chosen = [card for card in known.values() if card]
            environ = limited(environ, chosen, spec.recipe, names.values())
        filled = ",".join(card.name if card else device for device, card in known.items())
        return replace(spec, recipe=with_gpus(spec.recipe, filled)), environ


def environment(ours: Mapping[str, str], theirs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """hotseat's variables, overridden by the model's."""
    # Number devices like `nvidia-smi`, or gpu0 would be another card than in the configuration.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **ours, **dict(theirs)}


def find_program(name: str, env: Mapping[str, str]) -> str:
    """The path of a program; FileNotFoundError or PermissionError with a message for the operator."""
    if found := shutil.which(name, path=env.get("PATH", os.defpath)):
        return found
    if os.sep not in name:
        raise FileNotFoundError(f'no program named "{name}" on PATH')
    if not os.path.exists(name):
        raise FileNotFoundError(f'the file "{name}" does not exist')
    raise PermissionError(f'"{name}" is not executable: run chmod +x')
