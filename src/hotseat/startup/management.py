"""The management API on its private socket, and the metrics that it serves. The relay passes requests on to it.

app.py imports this late: FastAPI and the API's schemas take as long to import as the rest of a start.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from hotseat import dashboard
from hotseat.api.app import build, served
from hotseat.api.deps import ApiDeps
from hotseat.api.routes.logs import LogSources
from hotseat.model_files.facts import FactsReader
from hotseat.telemetry.metrics_page import MetricsText
from hotseat.telemetry.pages import ConversationPage, DevicePage, FleetPage, KeyPage, ProcessPage
from hotseat.telemetry.upstream_page import UpstreamPage
from hotseat.threads import in_thread

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable
    from contextlib import AsyncExitStack

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.handover.restarts import Restarts
    from hotseat.scheduling.view import View
    from hotseat.startup.models import ModelParts
    from hotseat.startup.monitoring import Monitoring
    from hotseat.startup.relaying import RelayParts
    from hotseat.startup.shared import Shared

P = ParamSpec("P")
T = TypeVar("T")
MOST_LISTED = 200
"""The most models of which the metrics list all: each is 33 lines of every scrape, and 10,000 would take seconds."""


async def open_api(stack: AsyncExitStack, deps: ApiDeps, sock: socket.socket) -> None:
    api = build(deps)
    dashboard.add_to(api)
    await stack.enter_async_context(served(api, sock))


def api_deps(
    shared: Shared, models: ModelParts, monitoring: Monitoring, relaying: RelayParts, restarts: Restarts
) -> ApiDeps:
    facts, reading, estimating = FactsReader(), asyncio.Lock(), asyncio.Lock()

    async def one_by_one(lock: asyncio.Lock, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A disk that does not answer holds one thread, however many ask; operators alone ask for estimates."""
        async with lock:
            return await in_thread("read model files", read, *args, **kwargs)

    return ApiDeps(
        dispatcher=models.dispatcher,
        journal=models.journal,
        settings=lambda: shared.active.settings,
        logs=LogSources(models.dispatcher, models.supervisor.outputs, shared.start.recent_lines),
        activity=monitoring.activity,
        in_progress=relaying.relay.connections.in_progress,
        history=monitoring.store_writer.read,
        usage=monitoring.usage_writer.read,
        estimate=lambda spec: one_by_one(estimating, models.memory.explain, spec, models.dispatcher.catalog),
        facts=lambda specs: one_by_one(reading, facts.of_all, specs),
        config=relaying.reloader.report,
        has_reload_failed=lambda: relaying.reloader.has_failed,
        reload=relaying.reloader.reload,
        precedence=models.memory_watch.precedence,
        restarts=restarts,
        keys=relaying.created_keys,
        feeds_end=shared.feeds_end,
        accounts=shared.accounts.all,
        metrics=metrics_of(shared, models, monitoring),
        upstream_metrics=UpstreamPage(models.dispatcher.views.current, models.supervisor.own_metrics).render,
        is_closing=shared.shutdown.is_closing,
        started_at=time.time(),
        share_read=models.supervisor.share_taken_in,
        context=models.supervisor.context,
        conversations=models.supervisor.conversations.kept,
        silent=relaying.liveness.silent,
        guard_silent_s=lambda: models.supervisor.guard.silent_s,
        fleet=shared.fleet.admin,
        tasks=shared.tasks,
    )


def metrics_of(shared: Shared, models: ModelParts, monitoring: Monitoring) -> Callable[[], Awaitable[bytes]]:
    """Makes the page, with what the drivers of the GPUs report at that time."""
    text = text_of(shared, models, monitoring)

    async def page() -> bytes:
        return await text.render(DevicePage(await models.memory.sensors()))

    return page


def text_of(shared: Shared, models: ModelParts, monitoring: Monitoring) -> MetricsText:
    def view() -> View:
        return shown_in_metrics(models.dispatcher)

    tracer = monitoring.tracer
    text = MetricsText(
        monitoring.metrics, view, monitoring.lag.worst_of_last_minute, lambda: monitoring.store_writer.lost
    )
    text.include(KeyPage(shared.accounts.all, monitoring.usage.by_key))
    text.include(
        ProcessPage(lambda: shared.start.writer.lines_dropped, lambda: 0 if tracer is None else tracer.dropped)
    )
    text.include(FleetPage(shared.fleet.view))
    text.include(ConversationPage(view, models.supervisor.conversations.kept))
    return text


def shown_in_metrics(dispatcher: Dispatcher) -> View:
    """All models, so that their counters start at zero; of very many only those that are in use."""
    return dispatcher.views.of_all() if len(dispatcher.catalog.models) <= MOST_LISTED else dispatcher.views.current()
