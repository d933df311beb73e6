"""The composition root: opens the parts in order, closes them in reverse, and handles signals."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotseat.daemon.file_limit import most_connections, raise_file_limit
from hotseat.daemon.garbage_collection import ignore_what_exists
from hotseat.dispatch.preload import preload
from hotseat.fleet.store import NameTaken, StoreError
from hotseat.startup.announcement import announce, banner_of, log_warnings
from hotseat.startup.management import api_deps, open_api, private_address
from hotseat.startup.models import ModelParts, open_models, open_supervisor
from hotseat.startup.monitoring import open_monitoring, start_monitors
from hotseat.startup.preparation import INVALID, CannotStart, Prepared, prepare
from hotseat.startup.relaying import RelayParts, make_relay
from hotseat.startup.shared import Shared, shared_by_all
from hotseat.telemetry.stdout_writer import StdoutWriter

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fastapi import FastAPI

    from hotseat.config.options import ServeOptions
    from hotseat.identifiers import Seconds

log = logging.getLogger(__name__)


def serve(options: ServeOptions) -> int:
    """Run until stopped; returns the exit code."""
    writer = StdoutWriter()
    try:
        return run(run_program(prepare(options, writer)))
    except CannotStart as refused:
        return fail(str(refused), refused.exit_code)
    except (NameTaken, StoreError) as refused:
        return fail(f"cannot join the fleet: {refused}", INVALID)
    finally:
        writer.close()


def fail(reason: str, exit_code: int) -> int:
    print(reason, file=sys.stderr)
    return exit_code


def run(work: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:  # slower, no other effect
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def run_program(start: Prepared) -> int:
    async with AsyncExitStack() as stack:
        program = await open_program(start, stack)
        program.announce()
        ignore_what_exists()
        await program.shared.shutdown.requested.wait()
        await program.shut_down()
    return 0


async def open_program(start: Prepared, stack: AsyncExitStack) -> Program:
    """Open the parts in this order; the stack closes them in reverse."""
    shared = shared_by_all(start)
    management = private_address(stack)
    supervisor = await open_supervisor(stack, shared)
    fits = most_connections(raise_file_limit())  # after the guard has started: model servers keep the original limit
    models = await open_models(stack, shared, supervisor)
    monitoring = open_monitoring(stack, shared, models)
    stack.push_async_callback(shared.tasks.aclose)
    start_monitors(shared, monitoring)
    relaying = make_relay(shared, models, monitoring, management, fits)
    api = await open_api(stack, api_deps(shared, models, monitoring, relaying), management)
    stack.push_async_callback(relaying.relay.aclose)
    program = Program(shared, models, relaying, api)
    program.handle_signals()  # before it listens: whoever can connect may stop it
    await program.join_fleet(stack)
    await program.listen()
    program.start_tasks()
    return program


@dataclass(frozen=True, slots=True)
class Program:
    """The running hotseat."""

    shared: Shared
    models: ModelParts
    relaying: RelayParts
    api: FastAPI

    # Startup

    async def join_fleet(self, stack: AsyncExitStack) -> None:
        settings = self.shared.active.settings.fleet
        if settings is None:
            return
        is_closing = self.shared.shutdown.requested.is_set
        node = await self.shared.fleet.join(stack, settings, self.models.dispatcher, is_closing)
        self.models.journal.listen(node.watch)
        self.relaying.relay.context.hosts = node.host_selector

    async def listen(self) -> None:
        self.shared.tasks.start(self.relaying.liveness.watch(), "liveness")
        await self.relaying.relay.listen(self.shared.start.sockets, self.shared.start.tls)
        await self.relaying.relay.listen_as_ollama(self.shared.start.ollama_sockets)

    def start_tasks(self) -> None:
        options, tasks, reloader = self.shared.start.options, self.shared.tasks, self.relaying.reloader
        tasks.start(preload(self.models.dispatcher, self.shared.active.loaded.catalog.preload), "preload")
        if options.watches:
            tasks.start(reloader.watch_files(options.config), "watch the configuration")
        tasks.start(reloader.watch_folder(), "watch the folder of models")

    def handle_signals(self) -> None:
        loop, tasks, reloader = asyncio.get_running_loop(), self.shared.tasks, self.relaying.reloader
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.shared.shutdown.request)
        loop.add_signal_handler(signal.SIGHUP, lambda: tasks.start(reloader.reload(), "reload"))

    def announce(self) -> None:
        start, loaded = self.shared.start, self.shared.active.loaded
        log_warnings(loaded)
        self.models.unmet_limits.log_new()
        banner = banner_of(start, loaded, self.relaying.relay, self.api)
        announce(banner, loaded.settings.logging, start.writer)
        start.systemd.notify("READY=1", f"STATUS=serving {len(loaded.catalog.models)} models")

    # Shutdown

    async def shut_down(self) -> None:
        in_flight = sum(model.in_flight for model in self.models.dispatcher.view().models)
        log.info("shutting down in_flight=%d", in_flight)
        self.shared.start.systemd.notify("STOPPING=1")
        self.shared.fleet.notify()
        settings, is_in_fleet = self.shared.active.settings.shutdown, self.shared.fleet.node is not None
        await self.shared.shutdown.keep_serving(settings.notice_s, to_hosts=is_in_fleet)
        await self.drain(self.shared.active.settings.shutdown.drain_s)

    async def drain(self, within: Seconds) -> None:
        """Let requests in flight finish, then stop the servers; a second signal skips the wait."""
        relay, dispatcher = self.relaying.relay, self.models.dispatcher
        closing = asyncio.gather(relay.drain(within), dispatcher.shut_down(within))
        second_signal = self.shared.tasks.start(self.shared.shutdown.at_once.wait(), "second signal")
        await asyncio.wait([closing, second_signal], return_when=asyncio.FIRST_COMPLETED)
        if not closing.done():
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            await dispatcher.shut_down(0)
