"""One process of one model, from its port to the last of its descendants. The supervisor keeps these by LaunchId."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hotseat.catalog.filled_recipe import fill
from hotseat.catalog.redaction import secrets_in, without
from hotseat.catalog.template import PID, PORT, fill_hole
from hotseat.errors import LoadFailed
from hotseat.estimates.container_run import container_run
from hotseat.identifiers import Address, Upstream
from hotseat.model_servers.api_key import key_of
from hotseat.model_servers.exit_hints import count_oom_kills, hint
from hotseat.model_servers.guarded_process import Order
from hotseat.model_servers.launch_env import environment, find_program
from hotseat.model_servers.load_progress import taken_in, weight_of
from hotseat.model_servers.output import Pipe
from hotseat.model_servers.own_download import DownloadProgress, downloads_itself
from hotseat.model_servers.port_owner import describe_process, foreign_process_on, is_loopback, owner_of
from hotseat.model_servers.ports import is_taken
from hotseat.model_servers.readiness import UNREACHED, Readiness, accepts, addresses_of
from hotseat.model_servers.server_process import Child
from hotseat.net.happy_eyeballs import Connector
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from hotseat.catalog.filled_recipe import FilledRecipe
    from hotseat.catalog.spec import LaunchRecipe, ModelSpec
    from hotseat.identifiers import Bytes, ModelName, Seconds
    from hotseat.model_servers.guard_client import Guard
    from hotseat.model_servers.guarded_process import GuardedProcess
    from hotseat.model_servers.output import Output
    from hotseat.model_servers.ports import PortLease, Ports
    from hotseat.model_servers.server_description import ServerDescription
    from hotseat.model_servers.taken_servers import TakenServer

log = logging.getLogger(__name__)

T = TypeVar("T")

LAST_LINES = 20
NOWHERE = Address("", 0)
"""Of a server that is not ready."""
SHORTEST_DEADLINE_S: Seconds = 120.0
SLOWEST: Bytes = 50 * 10**6
"""Bytes that a slow disk reads in a second."""


class Trouble(Exception):
    """Why a start failed, as the second half of a sentence."""


class Exited(Trouble):
    """Its process exited before it was ready."""

    def __init__(self, exit_status: str) -> None:
        super().__init__(too_soon(exit_status))
        self.exit_status = exit_status


class End(NamedTuple):
    """How a server ended that had been ready."""

    exit_status: str
    output: tuple[str, ...] = ()
    """Its last lines, if the end was not requested."""
    hint: str = ""
    """What to do about it, if the end was not requested."""


class Launch:
    def __init__(self, spec: ModelSpec, environ: Mapping[str, str], guard: Guard, ports: Ports, output: Output) -> None:
        self._spec, self._environ, self._guard, self._ports, self._output = spec, environ, guard, ports, output
        self._began_at = output.written
        self._oom_kills_before = count_oom_kills()
        self._child: Child | None = None
        self._loan: PortLease | None = None
        self._is_wanted = True
        self._weight: Bytes = 0
        self._address = NOWHERE
        self._tasks = Tasks()
        self.server = ""
        """The ready server's `Server` header."""
        self.description: ServerDescription | None = None
        """What was said last about the ready server."""
        self.is_adopted = False
        """An earlier hotseat process has started it."""

    @classmethod
    def adopted(
        cls,
        spec: ModelSpec,
        environ: Mapping[str, str],
        guard: Guard,
        ports: Ports,
        output: Output,
        taken: TakenServer,
        description: ServerDescription,
    ) -> Launch:
        """Of a server that was ready when it was handed over to this process."""
        launch = cls(spec, environ, guard, ports, output)
        recipe = fill(spec.recipe, description.port or 0)
        launch._conceal_secrets(recipe)
        taken.output.lead_to(output)
        launch._loan = None if description.port is None else ports.lend_to_running(description.port)
        launch._child = launch._child_of(taken.process, recipe, launch._loan)
        launch._address, launch.server, launch._weight = description.address, description.server, weight_of(recipe.argv)
        launch.is_adopted = True
        return launch

    @property
    def model(self) -> ModelName:
        return self._spec.name

    @property
    def recipe(self) -> LaunchRecipe:
        return self._spec.recipe

    def share_taken_in(self) -> float | None:
        """The share of its files that the server has read; None: unknown, also in a container."""
        is_seen = self._weight and not container_run(self._spec.recipe.argv)
        taken = taken_in(self._child.pid) if self._child and is_seen else 0
        return min(taken / self._weight, 1.0) if taken else None

    @property
    def pid(self) -> int | None:
        """None: its process has not started, or is gone."""
        return self._child.pid if self._child and not self._child.gone.done() else None

    @property
    def address(self) -> Address:
        """Of the ready server."""
        return self._address

    @property
    def port(self) -> int | None:
        """What its `${PORT}` is; None: its command has none."""
        return self._loan.port if self._loan else None

    @property
    def api_key(self) -> str:
        """What the server demands of whoever asks it; empty: nothing."""
        return key_of(self._spec.recipe.argv, environment(self._environ, self._spec.recipe.env))

    async def bring_up(self) -> Upstream:
        """Return when the server is ready; LoadFailed: it is not, and none of its processes is left."""
        try:
            return await self._bring_up()
        except (Trouble, OSError) as trouble:
            error = self._failure(trouble)
            await self.end()
            raise error from trouble
        except Exception:  # a bug: it must not leave an unknown process
            await self.end()
            raise
        except asyncio.CancelledError:
            if self._child:
                self._child.kill()
            raise

    async def end(self) -> None:
        """Ask it to end and return when it is gone; if it has not started, it never will. Safe to call twice."""
        self._is_wanted = False
        self.hide()
        if self._child:
            await self._child.end()

    def kill(self) -> None:
        """End it at once, because it is about to be stopped and does not react."""
        self._is_wanted = False
        self.hide()
        if self._child:
            self._child.was_asked_to_end = True
            self._child.kill()

    # For another hotseat process

    def describe(self, description: ServerDescription) -> None:
        """From now on another hotseat process may take the server over, unless it is being stopped."""
        self.description = description
        if self._child and self._is_wanted:
            self._child.describe(description.as_json())

    def hide(self) -> None:
        """It is not ready: no other hotseat process may take it over."""
        if self._child:
            self._child.describe(None)

    # While it runs

    async def while_wanted(
        self, doing: Callable[[], Coroutine[Any, Any, T]], done: str, within_s: Seconds | None = None
    ) -> T | None:
        """Its result; None if the server was told to stop meanwhile, or has ended. TimeoutError: it took longer."""
        assert self._child, "only what was ready can be asked for anything"
        if not self._is_wanted:  # told to stop while this waited for memory
            return None
        attempt: asyncio.Task[T] = self._tasks.start(doing(), f"{self._spec.name} is {done}")
        ends: set[asyncio.Future[Any]] = {attempt, self._child.gone}
        try:
            await asyncio.wait(ends, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._tasks.aclose()
        if self._child.gone.done() or not self._is_wanted:
            return None
        if attempt.cancelled():
            raise TimeoutError
        return attempt.result()

    async def run_hook(self, argv: tuple[str, ...]) -> GuardedProcess:
        """Start a program that puts the server to sleep or wakes it; OSError if it cannot be run."""
        assert self._child
        words = tuple(fill_hole(fill_hole(word, PID, self._child.pid), PORT, self._address.port) for word in argv)
        env = environment(self._environ, self._spec.recipe.env)
        return await self._run_beside(words, env)

    async def ended(self) -> End:
        """How a ready server ended."""
        assert self._child, "only what was ready can be watched"
        exit_status = await self._child.exited()
        if self._child.was_asked_to_end:
            return End(exit_status)
        return End(exit_status, tuple(self._last_lines()), self._hint(exit_status, was_ready=True))

    def _hint(self, exit_status: str, *, was_ready: bool) -> str:
        kills = count_oom_kills() - self._oom_kills_before
        return hint(exit_status, self._last_lines(), oom_kills=kills, was_ready=was_ready)

    def _failure(self, trouble: Exception) -> LoadFailed:
        if not self._is_wanted:
            return LoadFailed(f"{self._spec.name} was stopped while loading")
        why = without(str(trouble), self._spec.recipe.secrets)
        lines = self._last_lines()
        where = f"See `hotseat logs {self._spec.name}`" if lines else ""
        sentences = (f"{self._spec.name} is not ready: {why}", self._advice(trouble), where)
        return LoadFailed(". ".join(filter(None, sentences)) + ".", output=lines)

    def _advice(self, trouble: Exception) -> str:
        if isinstance(trouble, FileNotFoundError):
            return "Install it, or correct `cmd`"
        if not isinstance(trouble, Exited):
            return ""
        silent = f"It printed nothing: run its command in a terminal (`hotseat show {self._spec.name}` prints it)"
        return self._hint(trouble.exit_status, was_ready=False) or ("" if self._last_lines() else silent)

    def _last_lines(self) -> list[str]:
        return [line.text for line in self._output.tail(LAST_LINES, since=self._began_at)]

    # From recipe to ready server

    async def _bring_up(self) -> Upstream:
        if not self._spec.recipe.wants_port:
            return await self._start(fill(self._spec.recipe, 0), None)
        try:
            return await self._start_on_loan()
        except Trouble:
            if not await self._lost_its_port():
                raise
        log.info("another process took the port, retrying with another port model=%s", self._spec.name)
        self._began_at = self._output.written  # what the first one said is not about the second
        return await self._start_on_loan()

    async def _start_on_loan(self) -> Upstream:
        recipe = self._spec.recipe
        loan = self._loan = self._ports.lend(recipe.preferred_port)
        try:
            return await self._start(fill(recipe, loan.port), loan)
        finally:
            if self._child is None:
                loan.give_back()

    async def _lost_its_port(self) -> bool:
        """Did another process take the port before the server could? Then a second start may work."""
        if not (self._child and self._loan):
            return False
        await self._child.end()
        self._child = None
        return self._is_wanted and is_taken(self._loan.port)

    async def _start(self, recipe: FilledRecipe, loan: PortLease | None) -> Upstream:
        self._weight = weight_of(recipe.argv)
        await refuse_if_taken(recipe.address)
        self._check_wanted()
        child = self._child = await self._spawn(recipe, loan)
        self._check_wanted()
        address = await self._until_ready(child, recipe)
        foreign = None if address.unix_path else foreign_process_on(address.host, address.port, child.pid, child.marker)
        if foreign:
            raise Trouble(f"{address} is in use by another process, {describe_process(foreign)}")
        self._address = address
        return Upstream(address, child.pid)

    def _check_wanted(self) -> None:
        """After every wait: a stop may have been requested."""
        if not self._is_wanted:
            raise Trouble("it was stopped")

    async def _spawn(self, recipe: FilledRecipe, loan: PortLease | None) -> Child:
        env = environment(self._environ, recipe.env)
        order = Order(
            find_program(recipe.argv[0], env), recipe.argv, env, last_resort(recipe, env), self._spec.unload_timeout_s
        )
        self._conceal_secrets(recipe)
        if loan:
            loan.vacate()
        return self._child_of(await self._run(order), recipe, loan)

    def _conceal_secrets(self, recipe: FilledRecipe) -> None:
        self._output.conceal((*secrets_in(recipe.argv, recipe.env), *self._spec.recipe.secrets))

    def _child_of(self, process: GuardedProcess, recipe: FilledRecipe, loan: PortLease | None) -> Child:
        if loan:
            process.gone.add_done_callback(lambda _: loan.give_back())
        stop, env = recipe.stop_argv(process.pid), environment(self._environ, recipe.env)
        return Child(process, self._spec.unload_timeout_s, partial(self._run_beside, stop, env) if stop else None)

    async def _run_beside(self, argv: tuple[str, ...], env: Mapping[str, str]) -> GuardedProcess:
        """Run a program that stops the server, puts it to sleep or wakes it."""
        try:
            return await self._run(Order(find_program(argv[0], env), argv, env))
        except OSError as problem:
            raise OSError(without(str(problem), self._spec.recipe.secrets)) from problem

    async def _run(self, order: Order) -> GuardedProcess:
        """Start a process of this launch; its output goes to the model's output."""
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

    async def _until_ready(self, child: Child, recipe: FilledRecipe) -> Address:
        readiness = Readiness(recipe.address, recipe.check_endpoint)
        answer: asyncio.Task[Address] = self._tasks.start(readiness.reached(), f"ask {self._spec.name}")
        ends: set[asyncio.Future[Any]] = {answer, child.gone}
        try:
            await self._first_of(ends, child, recipe)
        finally:
            await self._tasks.aclose()
        if child.gone.done():
            raise Exited(await child.exited())
        self._check_wanted()
        if not answer.cancelled():
            self.server = readiness.server
            return await answer
        raise Trouble(self._late(recipe, readiness))

    async def _first_of(self, ends: set[asyncio.Future[Any]], child: Child, recipe: FilledRecipe) -> None:
        """Return when one of them is done, or too late: a server that downloads its model has time while it does."""
        does_download = downloads_itself(recipe.argv, environment(self._environ, recipe.env))
        download = DownloadProgress(child.pid) if does_download else None
        looks = looks_left = 2 if download else 1
        while looks_left:
            done, _ = await asyncio.wait(ends, timeout=self._deadline_s / looks, return_when=asyncio.FIRST_COMPLETED)
            if done or not self._is_wanted:
                return
            looks_left -= 1
            if download and download.has_grown():
                log.info("server is still downloading its model, waiting longer model=%s", self._spec.name)
                looks_left = looks

    @property
    def _deadline_s(self) -> Seconds:
        """As configured, else by the size of the files."""
        return self._spec.health_check_timeout_s or deadline_s(self._weight)

    def _late(self, recipe: FilledRecipe, readiness: Readiness) -> str:
        asked = f"{recipe.address}{recipe.check_endpoint or ''}"
        seconds = f"health check timed out after {self._deadline_s:g} seconds"
        is_silent = readiness.last_answer == UNREACHED
        advice = "Let `cmd` use ${PORT}, set `proxy`, or raise" if is_silent else "Raise"
        return f"{seconds} ({asked}: {readiness.last_answer}). {advice} healthCheckTimeout if it needs more time"


def deadline_s(weight: Bytes) -> Seconds:
    """PURE: default limit for a start: large files take long, especially over a network."""
    return max(SHORTEST_DEADLINE_S, float(weight // SLOWEST))


def too_soon(how: str) -> str:
    hint = " (a server must stay in the foreground)" if how.endswith("code 0") else ""
    return f"it {how} while loading{hint}"


async def refuse_if_taken(address: Address) -> None:
    """A process that answers before the start is not ours."""
    for each in addresses_of(address):
        if (each.unix_path or is_loopback(each.host)) and await accepts(each, Connector()):
            owner = None if each.unix_path else owner_of(each.host, each.port)
            raise Trouble(
                f"{each} is already in use by another process{f', {describe_process(owner)}' if owner else ''}"
            )


def last_resort(recipe: FilledRecipe, env: Mapping[str, str]) -> tuple[str, ...] | None:
    """What the guard runs to stop the server if hotseat has died: a program, then its argv."""
    if recipe.stop is None:
        return None
    try:
        return (find_program(recipe.stop[0], env), *recipe.stop)
    except OSError:
        return None
