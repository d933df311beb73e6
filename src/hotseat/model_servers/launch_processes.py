"""Starts the processes of one launch: the server, and the programs that stop it, put it to sleep or wake it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from hotseat.catalog.redaction import secrets_in, without
from hotseat.catalog.template import PID, PORT, fill_hole
from hotseat.model_servers.api_key import KEYS_VARIABLES
from hotseat.model_servers.guarded_process import Order
from hotseat.model_servers.launch_env import environment, find_program
from hotseat.model_servers.output import Pipe
from hotseat.model_servers.server_process import Child
from hotseat.threads import look_at_disk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.spec import FilledRecipe, ModelSpec
    from hotseat.model_servers.adoption import TakenServer
    from hotseat.model_servers.guard_client import Guard
    from hotseat.model_servers.guarded_process import GuardedProcess
    from hotseat.model_servers.output import Output
    from hotseat.model_servers.ports import PortLease


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
