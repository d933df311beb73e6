"""The metrics page, with a real scheduler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.waiting import come_true

from hotseat.activity.recent import Tokens
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import HotseatError, LoadFailed, Unloaded
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import CatalogChanged
from hotseat.scheduling.scheduler import Scheduler
from hotseat.telemetry.metrics import Metrics
from hotseat.telemetry.metrics_page import MetricsText

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

ALPHA, BETA, SLOW, DUD, FLEETING = (ModelName(name) for name in ("alpha", "beta", "slow", "dud", "fleeting"))
MODELS = catalog(spec("alpha"), spec("beta"), spec("slow"), spec("dud"), spec("fleeting", ttl_s=0.01))


class Measured:
    def __init__(self) -> None:
        journal = Journal()
        self.launcher = FakeLauncher(slow=("slow",), broken=("dud",))
        self.scheduler = Scheduler(MODELS)
        self.dispatcher = Dispatcher(self.scheduler, self.launcher, journal)
        self.metrics = Metrics()
        self.text = MetricsText(self.metrics, self.dispatcher.views.of_all, lambda: 0.25)
        journal.listen(self.metrics.watch)

    async def value(self, sample: str) -> float | None:
        """The value of a sample, written as Prometheus writes it; None if it is not on the page."""
        lines = (await self.text.render()).decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == sample), None)


@pytest.fixture
async def measured() -> AsyncIterator[Measured]:
    measured = Measured()
    yield measured
    await measured.dispatcher.shut_down(within=0)


async def test_requests_are_counted_by_model_and_status_class(measured: Measured) -> None:
    """Every finished request is in one counter and three histograms."""
    measured.metrics.finished(ALPHA, 200, 0.2, 0.3, 4.0)
    measured.metrics.finished(ALPHA, 204, 0.0, None, 0.001)
    measured.metrics.finished(ALPHA, 503, 0.0, 0.1, 0.1)
    measured.metrics.finished(BETA, 0, 9.0, None, 9.0)

    assert await measured.value('hotseat_requests_total{model="alpha",status="2xx"}') == 2
    assert await measured.value('hotseat_requests_total{model="alpha",status="5xx"}') == 1
    assert await measured.value('hotseat_requests_total{model="beta",status="none"}') == 1
    assert await measured.value('hotseat_request_seconds_count{model="alpha"}') == 3
    assert await measured.value('hotseat_request_seconds_sum{model="alpha"}') == pytest.approx(4.101)
    assert await measured.value('hotseat_request_seconds_bucket{le="0.1",model="alpha"}') == 2
    assert await measured.value('hotseat_request_seconds_bucket{le="+Inf",model="alpha"}') == 3
    assert await measured.value('hotseat_request_waiting_seconds_sum{model="beta"}') == 9
    assert await measured.value('hotseat_first_byte_seconds_count{model="alpha"}') == 2


async def test_tokens_are_added_up(measured: Measured) -> None:
    """Only answers that report tokens count."""
    for tokens, per_second in (
        (Tokens(4, 30, 99.5, cached=3), 99.5),
        (Tokens(5, None, None), None),
        (Tokens(None, 2, None), 8.0),
    ):
        measured.metrics.finished(ALPHA, 200, 0.0, 0.1, 0.2)
        measured.metrics.counted(ALPHA, tokens, per_second)

    assert await measured.value('hotseat_prompt_tokens_total{model="alpha"}') == 9
    assert await measured.value('hotseat_cached_prompt_tokens_total{model="alpha"}') == 3
    assert await measured.value('hotseat_completion_tokens_total{model="alpha"}') == 32
    assert await measured.value('hotseat_tokens_per_second_bucket{le="10.0",model="alpha"}') == 1
    assert await measured.value('hotseat_tokens_per_second_count{model="alpha"}') == 2


async def test_loads_are_counted_by_outcome(measured: Measured) -> None:
    """A start ends ready or failed; only ready ones have a load time."""
    await measured.dispatcher.operator.load(ALPHA)
    with pytest.raises(LoadFailed):
        await measured.dispatcher.operator.load(DUD)

    assert await measured.value('hotseat_loads_total{model="alpha",outcome="ready"}') == 1
    assert await measured.value('hotseat_load_seconds_count{model="alpha"}') == 1
    assert await measured.value('hotseat_loads_total{model="dud",outcome="failed"}') == 1
    assert await measured.value('hotseat_load_seconds_count{model="dud"}') is None


async def test_stops_are_counted_by_cause(measured: Measured) -> None:
    """An eviction, an operator's stop and the end of ttl have different causes, with the scheduler's real texts."""
    await measured.dispatcher.operator.load(ALPHA)
    await measured.dispatcher.operator.load(BETA)
    await measured.dispatcher.operator.unload(BETA)
    await measured.dispatcher.operator.load(FLEETING)
    await come_true(lambda: not measured.dispatcher.views.current().running())

    assert await measured.value('hotseat_stops_total{cause="eviction",model="alpha"}') == 1
    assert await measured.value('hotseat_stops_total{cause="operator",model="beta"}') == 1
    assert await measured.value('hotseat_stops_total{cause="ttl",model="fleeting"}') == 1
    assert await measured.value('hotseat_stop_seconds_count{model="alpha"}') == 1
    assert await measured.value('hotseat_crashes_total{model="alpha"}') == 0


async def test_reload_and_shutdown_are_causes_too(measured: Measured) -> None:
    """A stop by a reload or a shutdown is no eviction."""
    await measured.dispatcher.operator.load(ALPHA)
    measured.dispatcher.tell(CatalogChanged(catalog(spec("beta"))))
    await come_true(lambda: not measured.dispatcher.views.current().running())
    await measured.dispatcher.operator.load(BETA)
    await measured.dispatcher.shut_down(within=1)

    assert await measured.value('hotseat_stops_total{cause="configuration",model="alpha"}') == 1
    assert await measured.value('hotseat_stops_total{cause="shutdown",model="beta"}') == 1


async def test_a_load_that_was_stopped_is_neither_ready_nor_failed(measured: Measured) -> None:
    """A cancelled load is not a failure."""
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(outcome(measured.dispatcher.operator.load(SLOW)))
        await come_true(lambda: measured.launcher.is_starting("slow"))
        await measured.dispatcher.operator.unload(SLOW)

    assert isinstance(loading.result(), Unloaded)
    assert await measured.value('hotseat_loads_total{model="slow",outcome="given up"}') == 1
    assert await measured.value('hotseat_loads_total{model="slow",outcome="failed"}') == 0
    assert await measured.value('hotseat_stop_seconds_count{model="slow"}') == 1


async def outcome(work: Awaitable[None]) -> HotseatError | None:
    try:
        await work
    except HotseatError as error:
        return error
    return None


async def test_the_view_is_read_when_asked(measured: Measured) -> None:
    """Phases, queue and leases are current at each scrape."""
    await measured.dispatcher.operator.load(ALPHA)

    assert await measured.value('hotseat_model_phase{model="alpha",phase="ready"}') == 1
    assert await measured.value('hotseat_model_phase{model="alpha",phase="cold"}') == 0
    assert await measured.value('hotseat_in_flight{model="alpha"}') == 0
    assert await measured.value('hotseat_waiting{model="beta"}') == 0
    assert await measured.value("hotseat_waiting_oldest_seconds") == 0
    assert await measured.value("hotseat_loop_lag_seconds") == 0.25


async def test_a_failed_reload_shows(measured: Measured) -> None:
    """Operators' alerts depend on this number."""
    before = await measured.value("hotseat_config_last_reload_success")
    measured.metrics.reloaded(False)

    assert before == 1
    assert await measured.value("hotseat_config_last_reload_success") == 0


async def test_a_model_that_goes_too_soon_is_counted(measured: Measured) -> None:
    """Alpha was ready for less time than its load had taken."""
    measured.scheduler.model_stats.adopt({"alpha": {"load_s": 60.0}})
    await measured.dispatcher.operator.load(ALPHA)
    await measured.dispatcher.operator.load(BETA)

    assert await measured.value('hotseat_early_evictions_total{model="alpha"}') == 1


async def test_a_crash_is_no_stop(measured: Measured) -> None:
    """A server that exits by itself is counted apart from stopped ones."""
    await measured.dispatcher.operator.load(ALPHA)
    measured.launcher.crash("alpha", "killed by SIGSEGV")
    await come_true(lambda: not measured.dispatcher.views.current().running())

    assert await measured.value('hotseat_crashes_total{model="alpha"}') == 1
    assert await measured.value('hotseat_stops_total{cause="eviction",model="alpha"}') == 0
    assert await measured.value('hotseat_stop_seconds_count{model="alpha"}') is None


async def test_refusals_are_counted_by_code(measured: Measured) -> None:
    """Requests that never reached a model count too."""
    measured.metrics.refused("invalid_api_key")

    assert await measured.value('hotseat_refusals_total{code="invalid_api_key"}') == 1
    assert await measured.value('hotseat_refusals_total{code="queue_full"}') == 0


async def test_counters_begin_at_nought(measured: Measured) -> None:
    """A counter that appeared with its first event would have no rate for it."""
    assert await measured.value('hotseat_requests_total{model="alpha",status="5xx"}') == 0
    assert await measured.value('hotseat_loads_total{model="alpha",outcome="failed"}') == 0
