"""GET /metrics with the figures of every part. Only management.py imports this, late as that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.telemetry.metrics_page import MetricsText
from hotseat.telemetry.pages import ConversationPage, DevicePage, FleetPage, KeyPage, ProcessPage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.scheduling.view import View
    from hotseat.startup.models import ModelParts
    from hotseat.startup.monitoring import Monitoring
    from hotseat.startup.shared import Shared

MOST_LISTED = 200
"""The most models of which the metrics list all: each is 33 lines of every scrape, and 10,000 would take seconds."""


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
