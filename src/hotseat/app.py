"""The composition root: opens the parts in order, closes them in reverse, and handles signals."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import ssl
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat import __version__, dashboard
from hotseat.activity.recent import Activity
from hotseat.activity.store import ActivityStore, StoreWriter
from hotseat.activity.usage import Accounts
from hotseat.api.app import build
from hotseat.api.deps import ApiDeps
from hotseat.api.server import served
from hotseat.config.exposure import refuse_to_serve
from hotseat.config.options import ServeOptions, load
from hotseat.config.problems import ConfigError
from hotseat.config.reload import Reloader
from hotseat.config.units import is_loopback
from hotseat.daemon.banner import Banner, url_of
from hotseat.daemon.file_limit import most_connections, raise_file_limit
from hotseat.daemon.shutdown import ShutdownSequence
from hotseat.daemon.systemd import Systemd, handed_sockets, most_exposed
from hotseat.dispatch.default_model import DefaultModelLoader
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import HotseatError
from hotseat.fleet.membership import NameTaken
from hotseat.fleet.node import joined
from hotseat.fleet.store import StoreError
from hotseat.hardware.ram import Ram
from hotseat.identifiers import Address
from hotseat.memory.manager import MemoryManager
from hotseat.model_files.folder import ModelFolders
from hotseat.model_servers.liveness import Liveness
from hotseat.model_servers.output import Outputs
from hotseat.model_servers.stdout_copy import Echo
from hotseat.model_servers.supervisor import Supervisor, open_supervisor
from hotseat.net.listeners import bound, tls_context
from hotseat.relay.access.host_requests import HostVerifier
from hotseat.relay.access.policy import Policy
from hotseat.relay.server import Relay
from hotseat.scheduling.events import CatalogChanged, UpstreamReady
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.scheduler import Scheduler
from hotseat.state.learned_store import LEARNED, LearnedStore, state_directory
from hotseat.state.model_stats_store import ModelStatsStore
from hotseat.tasks import Tasks
from hotseat.telemetry import logs
from hotseat.telemetry.descriptors import watch_descriptors
from hotseat.telemetry.fleet_page import FleetPage
from hotseat.telemetry.json_lines import server_line
from hotseat.telemetry.key_page import KeyPage
from hotseat.telemetry.log_page import LogPage
from hotseat.telemetry.loop_lag import Lag
from hotseat.telemetry.loop_page import LoopPage
from hotseat.telemetry.metrics import Metrics
from hotseat.telemetry.stdout_writer import StdoutWriter

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncGenerator, Coroutine, Iterable

    from hotseat.activity.recent import InProgress
    from hotseat.catalog.catalog import Catalog, CatalogChange
    from hotseat.config.load import Loaded
    from hotseat.dispatch.journal import Entry
    from hotseat.fleet.admin import FleetAdmin
    from hotseat.fleet.node import FleetNode
    from hotseat.identifiers import ModelName, Seconds
    from hotseat.settings import Settings

log = logging.getLogger(__name__)

FAILED, INVALID = 1, 3


def serve(options: ServeOptions) -> int:
    """Run until stopped; returns the exit code."""
    writer = StdoutWriter()
    try:
        return open_and_run(options, writer)
    finally:
        writer.close()


def open_and_run(options: ServeOptions, writer: StdoutWriter) -> int:
    model_folders, systemd = ModelFolders(), Systemd(os.environ)
    try:
        handed = handed_sockets(os.environ)
    except ValueError as unfit:
        return complain(str(unfit))
    if handed:
        options = replace(options, listen=most_exposed(handed))
    try:
        loaded = load(options, model_folders)
    except ConfigError as error:
        return complain(*map(str, error.complaints))
    if problem := refuse_to_serve(loaded.settings):
        return complain(problem)
    logs.set_up(loaded.settings.logging, writer)
    try:
        tls = tls_context(options.tls)
    except (OSError, ssl.SSLError) as problem:
        return complain(f"cannot use the certificate: {problem}. Check --tls-cert-file and --tls-key-file.")
    try:
        sockets = handed or bound(loaded.settings.listen)
    except OSError as refused:
        host, port = loaded.settings.listen
        print(
            f"cannot listen on {host}:{port}: {refused.strerror}. Choose another address with --listen.",
            file=sys.stderr,
        )
        return FAILED
    try:
        return run(Program(options, loaded, sockets, tls, model_folders, systemd, writer).run())
    except (NameTaken, StoreError) as refused:
        return complain(f"cannot join the fleet: {refused}")


def complain(*sentences: str) -> int:
    print(*sentences, sep="\n", file=sys.stderr)
    return INVALID


def run(work: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:  # slower, no other effect
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


class Program:
    """The running hotseat."""

    def __init__(
        self,
        options: ServeOptions,
        loaded: Loaded,
        sockets: list[socket.socket],
        tls: ssl.SSLContext | None,
        model_folders: ModelFolders,
        systemd: Systemd,
        writer: StdoutWriter,
    ) -> None:
        self._options = options
        self._writer = writer
        self._model_folders = model_folders
        self._systemd = systemd
        self._reloader = Reloader(loaded, model_folders, self)
        self._sockets = sockets
        self._tls = tls
        self._tasks = Tasks()
        self._complaints: list[str] = []
        """What the scheduler cannot meet, as far as logged."""
        self._leaving = ShutdownSequence()
        self._accounts = Accounts()
        self._host_verifier = HostVerifier(loaded.settings.fleet)
        self._node: FleetNode | None = None
        """None: not in a fleet."""

    @property
    def settings(self) -> Settings:
        return self._reloader.settings

    @property
    def _loaded(self) -> Loaded:
        return self._reloader.loaded

    async def run(self) -> int:
        async with AsyncExitStack() as stack:
            await self._open(stack)
            self._listen_to_signals()
            self._announce()
            self._systemd.tell("READY=1", f"STATUS=serving {len(self._loaded.catalog.models)} models")
            self._settle_memory()
            await self._leaving.wished.wait()
            log.info("shutting down in_flight=%d", sum(model.in_flight for model in self._dispatcher.view().models))
            self._systemd.tell("STOPPING=1")
            if self._node is not None:
                self._node.tell()
            is_one_of_many = self._node is not None
            await self._leaving.give_notice(self.settings.shutdown.notice_s, to_hosts=is_one_of_many)
            await self._close(self.settings.shutdown.drain_s)
        return 0

    # Open in order, close in reverse

    async def _open(self, stack: AsyncExitStack) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hotseat-")))
        self._echo = Echo(self._writer.put_copy, self._as_logged)
        self._supervisor: Supervisor = await stack.enter_async_context(
            open_supervisor(
                os.environ,
                self._loaded.withheld_env,
                Outputs(self._echo_if_wished),
                spare=Ram().spare_for_files,
                records=state_directory(os.environ) / "processes",
            )
        )
        # After the guard has started: model servers keep the original limit.
        fits = most_connections(raise_file_limit())
        self._journal = Journal()
        learned = LearnedStore(state_directory(os.environ) / LEARNED)
        self._memory = MemoryManager(learned, self._supervisor.pids, lambda: self.settings)
        self._scheduler = Scheduler(await self._reloader.fill())
        learned_store = ModelStatsStore(learned.section("habits"), self._scheduler.habits)
        learned_store.recall()
        self._journal.listen(learned_store.watch)
        self._journal.listen(self._check_promises)
        stack.callback(learned_store.save)
        launcher = self._memory.launcher(self._supervisor, lambda: self._scheduler.catalog)
        self._dispatcher = Dispatcher(self._scheduler, launcher, self._journal)
        self._liveness = Liveness(self._scheduler.in_use, self._last_pieces, self._dispatcher.tell)
        self._memory.watch_over(self._dispatcher, self._tasks)
        self._journal.listen(lambda entry: self._memory.hear(entry.event))
        lag = Lag()
        self._metrics = Metrics(self._dispatcher.view, lag.worst_since_asked, lambda: self._archivist.lost)
        self._metrics.include(KeyPage(self._accounts.all))
        self._metrics.include(LoopPage())
        self._metrics.include(LogPage(lambda: self._writer.lines_dropped))
        self._metrics.include(FleetPage(lambda: fleet_admin.view() if (fleet_admin := self._fleet_admin()) else None))
        self._journal.listen(self._metrics.watch)
        self._journal.listen(DefaultModelLoader(self._dispatcher, self._tasks).watch)
        self._activity = Activity(self._metrics)
        archive = ActivityStore(state_directory(os.environ) / "activity.sqlite3")
        self._archivist = StoreWriter(self._activity, archive, lambda: self.settings.activity)
        stack.push_async_callback(self._archivist.close)
        stack.push_async_callback(self._tasks.aclose)
        self._tasks.start(lag.watch(), "loop lag")
        self._tasks.start(self._archivist.watch(), "activity")
        self._tasks.start(self._systemd.keep_watchdog_quiet(), "watchdog")
        self._tasks.start(watch_descriptors(), "file descriptors")
        management = Address("localhost", 0, unix_path=str(folder / "api"))
        self._api = build(self._api_deps())
        dashboard.add_to(self._api)
        await stack.enter_async_context(served(self._api, management))
        rules = self._rules(self.settings)
        self._relay = Relay(self._dispatcher, rules, management, self._activity, most_connections=fits)
        stack.push_async_callback(self._relay.aclose)
        if self.settings.fleet is not None:
            self._node = await stack.enter_async_context(
                joined(self.settings.fleet, self._dispatcher, self._leaving.wished.is_set)
            )
            self._journal.listen(self._node.watch)
            self._relay.hosts = self._node.host_selector
        self._tasks.start(self._liveness.watch(), "liveness")
        await self._relay.listen(self._sockets, self._tls)
        self._tasks.start(self._preload(), "preload")
        if self._options.watches:
            self._tasks.start(self._reloader.watch_files(self._options.config), "watch the configuration")
        self._tasks.start(self._reloader.watch_folder(), "watch the folder of models")

    def _check_promises(self, entry: Entry) -> None:
        """A load changes what is known about limits that can be met."""
        if isinstance(entry.event, UpstreamReady | CatalogChanged):
            self._complain_of_promises()

    def _complain_of_promises(self) -> None:
        """Log each complaint once, until it changes."""
        complaints = self._scheduler.complaints()
        for complaint in complaints:
            if complaint not in self._complaints:
                log.warning("configuration complaint=%r", complaint)
        self._complaints = complaints

    def _echo_if_wished(self, model: ModelName, chunk: bytes) -> None:
        if self.settings.logging.to_stdout in ("upstream", "both"):
            self._echo(model, chunk)

    def _as_logged(self, model: ModelName, line: str) -> str:
        return line if logs.is_text(self.settings.logging) else server_line(model, line, time.time())

    async def _close(self, within: Seconds) -> None:
        """Let requests in flight finish, then stop the servers; a second signal skips the wait."""
        closing = asyncio.gather(self._relay.drain(within), self._dispatcher.shut_down(within))
        hurry = self._tasks.start(self._leaving.at_once.wait(), "second signal")
        await asyncio.wait([closing, hurry], return_when=asyncio.FIRST_COMPLETED)
        if not closing.done():
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            await self._dispatcher.shut_down(0)

    def _api_deps(self) -> ApiDeps:
        return ApiDeps(
            dispatcher=self._dispatcher,
            journal=self._journal,
            settings=lambda: self.settings,
            logs=ModelLogs(self._dispatcher, self._supervisor),
            activity=self._activity,
            under_way=self._under_way,
            history=self._archivist.read,
            config=self._reloader.report,
            reload=self._reloader.reload,
            precedence=self._memory.precedence,
            accounts=self._accounts.all,
            metrics=self._metrics.render,
            is_closing=self._leaving.is_closing,
            started_at=time.time(),
            share_read=self._supervisor.share_taken_in,
            silent=self._liveness.silent,
            fleet=self._fleet_admin,
        )

    def _fleet_admin(self) -> FleetAdmin | None:
        return None if self._node is None else self._node.fleet_admin

    def _last_pieces(self, model: ModelName) -> list[object]:
        return self._relay.last_pieces(model)  # likewise

    def _under_way(self) -> list[InProgress]:
        return self._relay.under_way()  # the relay is created later

    # Signals

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leaving.wish)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._tasks.start(self._reloader.reload(), "reload"))

    # Called by a reload of the configuration

    def load(self) -> Loaded:
        loaded = load(self._options, self._model_folders)
        return replace(loaded, catalog=self.fill(loaded.catalog))

    def fill(self, catalog: Catalog) -> Catalog:
        return self._memory.fill(catalog)

    def in_use(self) -> frozenset[ModelName]:
        models = self._dispatcher.view().models
        return frozenset(model.name for model in models if model.phase is not Phase.COLD)

    def renew_certificate(self) -> None:
        """New connections use the current files; open ones keep their certificate."""
        if self._tls is not None and self._options.tls is not None:
            tls_context(self._options.tls)  # a broken pair must not replace a working one
            self._tls.load_cert_chain(*self._options.tls)

    def take_up(self, loaded: Loaded) -> None:
        logs.set_up(loaded.settings.logging, self._writer)
        self._supervisor.withhold(loaded.withheld_env)
        self._relay.change_rules(self._rules(loaded.settings))

    def _rules(self, settings: Settings) -> Policy:
        """Counts and memory of clients and other hosts survive a reload."""
        return Policy(settings, self._accounts, self._host_verifier)

    def change_catalog(self, catalog: Catalog) -> CatalogChange:
        """Keeps what files do not define: the active profile, and models of other hosts."""
        now = self._dispatcher.catalog
        return self._dispatcher.change_catalog(
            catalog.with_profile(now.active_profile).with_fleet_models(now.fleet_models)
        )

    def reloaded(self, *, success: bool) -> None:
        self._metrics.reloaded(success=success)

    # Startup

    def _announce(self) -> None:
        for complaint in self._loaded.complaints:
            log.warning("configuration complaint=%r", str(complaint))
        self._complain_of_promises()
        if (
            sys.stdout.isatty()
            and logs.is_text(self.settings.logging)
            and self.settings.logging.to_stdout in ("proxy", "both")
        ):
            self._writer.put_line("\n".join(self._banner().lines()))
            return
        files = ", ".join(str(file) for file in self._loaded.files)
        log.info("hotseat %s serves %d models from %s", __version__, len(self._loaded.catalog.models), files)
        for sock in self._sockets:
            host, port = sock.getsockname()[:2]
            scheme = self._relay.scheme.decode()
            log.info(
                "listening on %s://%s:%d (dashboard at /hotseat/ui/, API at /swagger, Ctrl-C stops)", scheme, host, port
            )
        most, _ = self._relay.connection_count.bounds(self.settings.limits)
        if most < self.settings.limits.connections:
            log.info("connections are bounded by file descriptors connections=%d", most)

    def _banner(self) -> Banner:
        scheme = self._relay.scheme.decode()
        places = [sock.getsockname()[:2] for sock in self._sockets]
        return Banner(
            urls=[url_of(scheme, host, port) for host, port in places],
            files=[str(file) for file in self._loaded.files],
            models=len(self._loaded.catalog.models),
            access=self.settings.access,
            is_open=not all(is_loopback(host) for host, _ in places),
            has_dashboard=any(getattr(route, "path", "").startswith("/hotseat/ui") for route in self._api.routes),
        )

    def _settle_memory(self) -> None:
        # What exists now lives as long as the process. The relay creates few cycles, so the collector may run rarely.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)

    async def _preload(self) -> None:
        for name in self._loaded.catalog.preload:
            try:
                await self._dispatcher.load(name)
            except HotseatError as error:
                log.warning("preload failed model=%s error=%r", name, error.message)


class ModelLogs:
    """Server output for the API."""

    def __init__(self, dispatcher: Dispatcher, supervisor: Supervisor) -> None:
        self._dispatcher = dispatcher
        self._supervisor = supervisor

    def models(self) -> Iterable[ModelName]:
        return self._dispatcher.catalog.models

    def tail(self, model: ModelName, lines: int) -> list[str]:
        return self._supervisor.outputs.of(model).tail(lines)

    def follow(self, model: ModelName) -> AsyncGenerator[str, None]:
        return self._supervisor.outputs.of(model).follow()
