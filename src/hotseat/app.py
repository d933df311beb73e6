"""The composition root: opens the parts in order, closes them in reverse, and handles signals."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from hotseat.daemon.file_limit import most_connections, raise_file_limit
from hotseat.daemon.garbage_collection import ignore_what_exists
from hotseat.fleet.store import NameTaken, StoreError
from hotseat.handover.stand_in import PASSED_ON, become_stand_in, hold_signals, pass_on_held
from hotseat.identifiers import Address
from hotseat.model_servers.descendants import is_running
from hotseat.model_servers.guard_end import until
from hotseat.net.listeners import private_socket
from hotseat.startup.announcement import announce, banner_of, log_warnings
from hotseat.startup.models import ModelParts, open_models, open_supervisor
from hotseat.startup.monitoring import open_monitoring, start_monitors
from hotseat.startup.preparation import INVALID, CannotStart, Prepared, prepare
from hotseat.startup.relaying import RelayParts, make_relay
from hotseat.startup.restarting import adopt_orphans, make_restarts, take_over
from hotseat.startup.shared import Shared, shared_by_all
from hotseat.telemetry.stdout_writer import StdoutWriter

if TYPE_CHECKING:
    import socket
    from collections.abc import Coroutine

    from hotseat.handover.predecessor import OldRequests
    from hotseat.handover.restarts import Restarts
    from hotseat.handover.successor import Successor
    from hotseat.identifiers import Seconds
    from hotseat.settings import Fleet
    from hotseat.startup.monitoring import Monitoring
    from hotseat.startup.preparation import ServeOptions

log = logging.getLogger(__name__)

JOIN_AGAIN_S: Seconds = 2.0
FIRST_S: Seconds = 0.5
FINISH_S: Seconds = 3600.0
"""For the requests of a replaced process. The new one can end them sooner: it decides about their models."""


class End(NamedTuple):
    code: int = 0
    successor: int | None = None
    """The process that serves now; None: none does."""


def serve(options: ServeOptions) -> int:
    """Run until stopped; returns the exit code."""
    writer = StdoutWriter()
    try:
        start = prepare(options, writer)
        end = run(run_program(start))
    except CannotStart as refused:
        return fail(str(refused), refused.exit_code)
    except (NameTaken, StoreError) as refused:
        return fail(f"cannot join the fleet: {refused}", INVALID)
    finally:
        writer.close()
    if end.successor is not None:
        if start.is_known_by_pid:
            become_stand_in(end.successor)
        pass_on_held(end.successor)
    return end.code


def fail(reason: str, exit_code: int) -> int:
    print(reason, file=sys.stderr)
    return exit_code


def run(work: Coroutine[Any, Any, End]) -> End:
    try:
        import uvloop
    except ImportError:  # slower, no other effect
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def run_program(start: Prepared) -> End:
    """Return when it was stopped, or when another process serves and the last client here has left."""
    async with AsyncExitStack() as stack:
        program = await open_program(start, stack)
        program.announce()
        ignore_what_exists()
        if await program.until_stopped_or_replaced():
            return await program.finish()
        await program.shut_down()
    return End()


async def open_program(start: Prepared, stack: AsyncExitStack) -> Program:
    """Open the parts in this order; the stack closes them in reverse."""
    shared = shared_by_all(start)
    private = stack.enter_context(private_socket("api"))
    management = Address("localhost", 0, unix_path=private.getsockname())
    supervisor = await open_supervisor(stack, shared)
    fits = most_connections(raise_file_limit())  # after the guard has started: model servers keep the original limit
    models = await open_models(stack, shared, supervisor)
    monitoring = open_monitoring(stack, shared, models)
    stack.push_async_callback(shared.tasks.aclose)
    start_monitors(shared, monitoring)
    relaying = make_relay(shared, models, monitoring, management, fits)
    restarts = make_restarts(shared, models, relaying.reloader)
    around_api = await stack.enter_async_context(AsyncExitStack())  # the relay closes first, whenever the API opens
    stack.push_async_callback(relaying.relay.aclose)
    program = Program(shared, models, monitoring, relaying, restarts)
    program.handle_signals()  # before it accepts: whoever is answered may stop it
    # A new version whose API does not open must not take over, and the other hosts of a fleet ask for /health.
    opens_first = start.predecessor is not None or shared.active.settings.fleet is not None
    if opens_first:
        await program.open_api(around_api, private)
    old_requests = await program.take_over(management)
    shared.tasks.start(start.systemd.pet_watchdog(), "watchdog")
    await program.join_fleet(stack)
    await program.listen()
    if old_requests:
        old_requests.we_listen()
    if not opens_first:
        await program.open_api(around_api, private)
    program.start_tasks()
    return program


class Program(Struct, frozen=True):
    """The running hotseat."""

    shared: Shared
    models: ModelParts
    monitoring: Monitoring
    relaying: RelayParts
    restarts: Restarts

    # Startup

    async def take_over(self, management: Address) -> OldRequests | None:
        """None: this is an ordinary start."""
        predecessor = self.shared.start.predecessor
        if predecessor is None:
            self.restarts.predecessor_has_ended.set()
            await adopt_orphans(self.models)
            return None
        old_requests, old = await take_over(predecessor, self.models, self.relaying.streams, management)
        self.shared.fleet.handed = old.fleet
        if self.shared.host_verifier.checker and old.proofs is not None:
            self.shared.host_verifier.checker.take(old.proofs)
        await self.relaying.created_keys.read_again()  # the old process may have changed them meanwhile
        if old.must_reload:
            self.shared.tasks.start(self.relaying.reloader.reload(), "reload")
        self.shared.tasks.start(self.serve_old(old_requests), "requests of the previous process")
        await old_requests.left()
        return old_requests

    async def serve_old(self, old_requests: OldRequests) -> None:
        try:
            await old_requests.serve()
        finally:
            self.restarts.predecessor_has_ended.set()
            self.shared.accounts.catch_up()

    async def join_fleet(self, stack: AsyncExitStack) -> None:
        """A process that has taken servers over must not end because it cannot join: it tries again."""
        settings = self.shared.active.settings.fleet
        if settings is None:
            return
        try:
            await self.join(stack, settings)
        except (NameTaken, StoreError) as problem:
            if self.shared.start.predecessor is None:
                raise
            log.warning("cannot join the fleet and tries again reason=%r", str(problem))
            self.shared.fleet.joining = self.shared.tasks.start(self.join_later(stack), "join the fleet")

    async def join_later(self, stack: AsyncExitStack) -> None:
        await asyncio.sleep(JOIN_AGAIN_S)
        await self.join_fleet(stack)

    async def join(self, stack: AsyncExitStack, settings: Fleet) -> None:
        is_closing = self.shared.shutdown.requested.is_set
        node = await self.shared.fleet.join(stack, settings, self.models.dispatcher, is_closing)
        self.models.journal.listen(node.watch)
        self.relaying.relay.context.hosts = node.host_selector

    async def open_api(self, stack: AsyncExitStack, sock: socket.socket) -> None:
        """A thread imports it, so that requests for models are served meanwhile; requests for the API wait."""
        await asyncio.to_thread(import_module, "hotseat.startup.management")
        from hotseat.startup.management import api_deps, open_api

        deps = api_deps(self.shared, self.models, self.monitoring, self.relaying, self.restarts)
        await open_api(stack, deps, sock)

    async def listen(self) -> None:
        self.shared.tasks.start(self.relaying.liveness.watch(), "liveness")
        await self.relaying.relay.listen(self.shared.start.sockets, self.shared.start.tls)
        await self.relaying.relay.listen_as_ollama(self.shared.start.ollama_sockets)

    def start_tasks(self) -> None:
        options, tasks, reloader = self.shared.start.options, self.shared.tasks, self.relaying.reloader
        tasks.start(self.models.preload.run(), "preload")
        if self.shared.start.predecessor and (first := self.shared.start.predecessor.first):
            tasks.start(self.end_with(*first), "watch the first process")
        if options.watches:
            tasks.start(reloader.watch_files(options.config), "watch the configuration")
        tasks.start(reloader.watch_folder(), "watch the folder of models")
        tasks.start(self.relaying.created_keys.watch(), "watch the API keys")

    async def end_with(self, first: int, started: int | None) -> None:
        """Stop as on SIGTERM when it ends: whoever started hotseat knows that process alone."""
        await until(lambda: not is_running(first, started), FIRST_S)
        log.warning("the process that whoever started hotseat knows has ended, stopping pid=%d", first)
        self.shared.shutdown.request()

    def handle_signals(self) -> None:
        loop, tasks, reloader = asyncio.get_running_loop(), self.shared.tasks, self.relaying.reloader
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.shared.shutdown.request)
        loop.add_signal_handler(signal.SIGUSR1, self.shared.shutdown.request_keeping_servers)
        loop.add_signal_handler(signal.SIGHUP, lambda: tasks.start(reloader.reload(), "reload"))
        loop.add_signal_handler(signal.SIGUSR2, lambda: tasks.start(self.restarts.try_to_restart(), "restart"))

    def announce(self) -> None:
        start, loaded = self.shared.start, self.shared.active.loaded
        log_warnings(loaded)
        self.models.unmet_limits.log_new()
        banner = banner_of(start, loaded, self.relaying.relay)
        announce(banner, loaded.settings.logging, start.writer)
        start.systemd.notify("READY=1", f"STATUS=serving {len(loaded.catalog.models)} models")

    # After another process has taken over

    async def until_stopped_or_replaced(self) -> bool:
        """True: replaced."""
        stopped = self.shared.tasks.start(self.shared.shutdown.requested.wait(), "wait for a signal")
        replaced = self.shared.tasks.start(self.restarts.is_handed_over.wait(), "wait for a restart")
        await asyncio.wait([stopped, replaced], return_when=asyncio.FIRST_COMPLETED)
        if not self.restarts.is_handed_over.is_set():
            await self.restarts.give_up()
        return self.restarts.successor is not None

    async def finish(self) -> End:
        """Serve the clients that are connected here to the end. If the new process ends first, end with its code."""
        successor, relay = self.restarts.successor, self.relaying.relay
        assert successor is not None
        for number in PASSED_ON:
            asyncio.get_running_loop().add_signal_handler(number, successor.send_signal, number)
        self.pass_on_earlier_signals(successor)
        self.shared.feeds_end.set()
        self.shared.tasks.start(self.shared.fleet.remove_record(), "remove this host's record")
        self.shared.tasks.start(self.relaying.streams.report(successor.channel), "report streams")
        management = Address("localhost", 0, unix_path=self.restarts.management)
        finishing = self.shared.tasks.start(self.finish_requests(management), "finish requests")
        await asyncio.wait([finishing, successor.failure], return_when=asyncio.FIRST_COMPLETED)
        if not finishing.done():  # the new process has ended, and so will the model servers
            await relay.drain(self.shared.active.settings.shutdown.drain_s)
            return End(await successor.exit_code())
        hold_signals()
        return End(successor=successor.pid)

    def pass_on_earlier_signals(self, successor: Successor) -> None:
        """Those that arrived during the handover were meant for whoever serves."""
        for event in (self.shared.shutdown.requested, self.shared.shutdown.at_once):
            if event.is_set():
                successor.send_signal(signal.SIGTERM)
        if self.restarts.has_new_reload:
            successor.send_signal(signal.SIGHUP)

    async def finish_requests(self, management: Address) -> None:
        await self.relaying.relay.finish(FINISH_S, management)
        await self.shared.fleet.leave()  # not before: requests in progress depend on what it knows of other hosts
        await self.restarts.predecessor_has_ended.wait()

    # Shutdown

    async def shut_down(self) -> None:
        in_flight = sum(model.in_flight for model in self.models.dispatcher.views.current().models)
        log.info("shutting down in_flight=%d", in_flight)
        self.shared.start.systemd.notify("STOPPING=1")
        self.shared.fleet.notify()
        settings, is_in_fleet = self.shared.active.settings.shutdown, self.shared.fleet.node is not None
        await self.shared.shutdown.keep_serving(settings.notice_s, to_hosts=is_in_fleet)
        await (self.leave if self.keeps_servers else self.drain)(settings.drain_s)

    @property
    def keeps_servers(self) -> bool:
        return self.shared.shutdown.keeps_servers and self.shared.active.settings.crash_grace_s > 0

    async def leave(self, within: Seconds) -> None:
        """Let requests in flight finish, then leave the servers to the next process; a signal to stop ends them."""
        draining = self.shared.tasks.start(self.relaying.relay.drain(within), "requests in flight")
        stopped = self.shared.tasks.start(self.shared.shutdown.at_once.wait(), "signal to stop")
        await asyncio.wait([draining, stopped], return_when=asyncio.FIRST_COMPLETED)
        if self.keeps_servers:
            self.models.supervisor.guard.leave()
        else:
            await self.drain(0)

    async def drain(self, within: Seconds) -> None:
        """Let requests in flight finish, then stop the servers; a second signal skips the wait."""
        relay, dispatcher = self.relaying.relay, self.models.dispatcher
        self.models.supervisor.guard.keep_for(None)  # if it is killed meanwhile, nothing is kept
        closing = asyncio.gather(relay.drain(within), dispatcher.shut_down(within))
        second_signal = self.shared.tasks.start(self.shared.shutdown.at_once.wait(), "second signal")
        await asyncio.wait([closing, second_signal], return_when=asyncio.FIRST_COMPLETED)
        if not closing.done():
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            await dispatcher.shut_down(0)
