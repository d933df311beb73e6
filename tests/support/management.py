"""The management application as in production: on uvicorn, over a real dispatcher."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import uvicorn
from tests.support.fake_launcher import FakeLauncher
from tests.support.waiting import come_true

from hotseat import dashboard
from hotseat.activity.recent import Activity
from hotseat.activity.store import ActivityStore, StoreWriter
from hotseat.activity.usage import Accounts
from hotseat.activity.usage_store import UsageCounter, UsageStore, UsageWriter
from hotseat.api.app import build
from hotseat.api.deps import ApiDeps
from hotseat.config.load import Loaded
from hotseat.config.reload import ActiveConfig, ConfigReport, ReloadResult
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import RestartFailed, RestartInProgress
from hotseat.estimates.files import Disk
from hotseat.estimates.machine import Gpu
from hotseat.identifiers import LogLine, ModelName
from hotseat.memory.model_figures import Estimates
from hotseat.memory.precedence import Precedence
from hotseat.model_files.facts import FactsReader
from hotseat.scheduling.scheduler import Scheduler
from hotseat.settings import Access, Settings
from hotseat.startup.created_keys import CreatedKeys
from hotseat.state.key_file import KEYS, KeyFile
from hotseat.tasks import Tasks
from hotseat.telemetry.metrics import Metrics
from hotseat.telemetry.metrics_page import MetricsText
from hotseat.telemetry.shortages import Lag
from hotseat.telemetry.upstream_page import UpstreamPage
from hotseat.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from fastapi import FastAPI

    from hotseat.activity.recent import InProgress
    from hotseat.api.deps import FleetAdmin
    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.estimates.report import Estimate
    from hotseat.settings import ApiKey

STARTED_AT = 1_700_000_000.5


WRITTEN_AT = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()


class FakeSource:
    """Log lines that a test writes itself."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.readers: list[asyncio.Queue[LogLine | None]] = []

    def write(self, line: LogLine | None) -> None:
        """None ends the readers: nothing more will be written."""
        self.lines += [line] if line else []
        for reader in self.readers:
            reader.put_nowait(line)

    def newest(self, lines: int) -> Iterator[LogLine]:
        return islice(reversed(self.lines), lines)

    async def follow(self) -> AsyncGenerator[LogLine, None]:
        queue: asyncio.Queue[LogLine | None] = asyncio.Queue()
        self.readers.append(queue)
        try:
            while (line := await queue.get()) is not None:
                yield line
        finally:
            self.readers.remove(queue)


class FakeLogs:
    """One line per second since WRITTEN_AT."""

    def __init__(self) -> None:
        self.own = FakeSource()
        self._of_models: dict[str, FakeSource] = {}
        self._now = WRITTEN_AT

    def write(self, model: str, text: str) -> None:
        self.of_model(model).write(LogLine(self._tick(), text, ModelName(model)))

    def write_own(self, level: str, text: str) -> None:
        self.own.write(LogLine(self._tick(), text, level=level))

    def end(self, model: str) -> None:
        self.of_model(model).write(None)

    def readers(self, model: str) -> int:
        return len(self.of_model(model).readers)

    def of_model(self, model: str) -> FakeSource:
        return self._of_models.setdefault(model, FakeSource())

    def all(self) -> list[FakeSource]:
        return [self.own, *self._of_models.values()]

    def _tick(self) -> float:
        now, self._now = self._now, self._now + 1
        return now


@dataclass
class FakeRestarts:
    """Restarts that nothing happens in: the real ones replace the process that runs the tests."""

    is_in_progress: bool = False
    attempts: int = 0
    problem: str = ""
    serving_pid: int = 3920

    async def restart(self) -> int:
        if self.is_in_progress:
            raise RestartInProgress("a restart is already in progress")
        self.attempts += 1
        if self.problem:
            raise RestartFailed(self.problem)
        return 4187


@dataclass
class Management:
    """The parts of the application and a client for it."""

    dispatcher: Dispatcher
    journal: Journal
    launcher: FakeLauncher
    logs: FakeLogs
    metrics: Metrics
    activity: Activity
    store_writer: StoreWriter
    usage: UsageCounter
    usage_writer: UsageWriter
    client: httpx2.AsyncClient
    folder: Path
    """The state directory."""
    settings: Settings = field(default_factory=Settings)
    in_progress: list[InProgress] = field(default_factory=list)
    config_report: ConfigReport = field(default_factory=ConfigReport)
    reload_result: ReloadResult = field(default_factory=ReloadResult)
    is_closing: bool = False
    shares_read: dict[str, float] = field(default_factory=dict)
    contexts: dict[str, int] = field(default_factory=dict)
    kept: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Conversations on disk, and their bytes."""
    accounts: Accounts = field(default_factory=Accounts)
    fleet: FleetAdmin | None = None
    restarts: FakeRestarts = field(default_factory=FakeRestarts)
    feeds_end: asyncio.Event = field(default_factory=asyncio.Event)
    active: ActiveConfig = field(init=False)
    created_keys: CreatedKeys = field(init=False)
    metrics_text: MetricsText = field(init=False)

    def __post_init__(self) -> None:
        self.metrics_text = MetricsText(self.metrics, self.dispatcher.views.of_all, Lag().worst_of_last_minute)
        self.active = ActiveConfig(Loaded(self.dispatcher.catalog, Settings()))
        file = KeyFile(self.folder / KEYS)
        self.created_keys = CreatedKeys(file, self.active, self.accounts, self._use_keys)

    def configure_keys(self, *keys: ApiKey) -> None:
        """`apiKeys` of the configuration; those of commands stay."""
        self.active.loaded = replace(self.active.loaded, settings=Settings(access=Access(api_keys=keys)))
        self._use_keys()

    def _use_keys(self) -> None:
        self.accounts.open(self.active.settings.access.keys)

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.client.get(path, **options)

    async def delete(self, path: str) -> httpx2.Response:
        return await self.client.delete(path)

    @asynccontextmanager
    async def feed(self, path: str, **options: Any) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of a stream, which is closed at the end of the block."""
        async with self.client.stream("GET", path, timeout=30, **options) as response:
            yield response.aiter_lines()


@asynccontextmanager
async def management(socket: Path, catalog: Catalog, launcher: FakeLauncher | None = None) -> AsyncIterator[Management]:
    """An application with these models, served on a unix socket; everything is stopped when the block ends."""
    transport = httpx2.AsyncHTTPTransport(uds=str(socket), verify=False)  # reading all certificates takes 0.1 s
    async with httpx2.AsyncClient(transport=transport, base_url="http://hotseat", timeout=30) as client:
        rig = furnished(catalog, launcher or FakeLauncher(), client, socket.parent)
        async with served(application(rig), uds=str(socket)):
            yield rig
        await rig.dispatcher.shut_down(within=0)


def furnished(catalog: Catalog, launcher: FakeLauncher, client: httpx2.AsyncClient, folder: Path) -> Management:
    journal = Journal()
    return around(Dispatcher(Scheduler(catalog), launcher, journal), journal, launcher, client, folder)


def around(
    dispatcher: Dispatcher, journal: Journal, launcher: FakeLauncher, client: httpx2.AsyncClient, folder: Path
) -> Management:
    """An application around an existing dispatcher."""
    metrics = Metrics()
    journal.listen(metrics.watch)
    activity = Activity(metrics)
    store_writer = StoreWriter(activity, ActivityStore(folder / "activity.sqlite3"), lambda: 0.0)
    usage = UsageCounter()
    usage_writer = UsageWriter(usage, UsageStore(folder / "usage.sqlite3"))
    logs = FakeLogs()
    return Management(
        dispatcher, journal, launcher, logs, metrics, activity, store_writer, usage, usage_writer, client, folder
    )


def application(rig: Management) -> FastAPI:
    async def reload() -> ReloadResult:
        return rig.reload_result

    async def metrics() -> bytes:
        return await rig.metrics_text.render()

    facts = FactsReader()
    app = build(
        ApiDeps(
            dispatcher=rig.dispatcher,
            journal=rig.journal,
            settings=lambda: rig.settings,
            logs=rig.logs,
            activity=rig.activity,
            in_progress=lambda: rig.in_progress,
            history=rig.store_writer.read,
            usage=rig.usage_writer.read,
            estimate=estimated,
            facts=lambda specs: in_thread("read model files", facts.of_all, specs),
            config=lambda: rig.config_report,
            reload=reload,
            precedence=Precedence(rig.dispatcher, tuple, tuple),
            restarts=rig.restarts,
            keys=rig.created_keys,
            feeds_end=rig.feeds_end,
            accounts=rig.accounts.all,
            metrics=metrics,
            upstream_metrics=UpstreamPage(rig.dispatcher.views.current, rig.launcher.own_metrics).render,
            is_closing=lambda: rig.is_closing,
            started_at=STARTED_AT,
            share_read=rig.shares_read.get,
            context=rig.contexts.get,
            conversations=lambda model: rig.kept.get(model, (0, 0)),
            fleet=lambda: rig.fleet,
        )
    )
    dashboard.add_to(app)
    return app


async def estimated(spec: ModelSpec) -> Estimate:
    return Estimates(Disk(Path.cwd()), {}, Gpu.NONE).explained(spec)


@asynccontextmanager
async def served(app: FastAPI, **where: Any) -> AsyncIterator[int]:
    """Inside the block the application answers; the value is its port, if it has one."""
    server = uvicorn.Server(uvicorn.Config(app, **where, log_config=None, lifespan="off"))
    serving = Tasks().start(server._serve(), "uvicorn")  # serve() would replace the test runner's signal handlers
    try:
        await come_true(lambda: server.started)
        name = server.servers[0].sockets[0].getsockname()
        yield name[1] if isinstance(name, tuple) else 0
    finally:
        serving.cancel()  # it looks ten times a second whether it should end, which takes longer than most tests
        await closed(server)


async def closed(server: uvicorn.Server) -> None:
    """As uvicorn closes, without its pauses."""
    for listener in server.servers:
        listener.close()
    for connection in tuple(server.server_state.connections):
        connection.shutdown()
    await come_true(lambda: not (server.server_state.connections or server.server_state.tasks))
