"""With 10,000 configured models, of which a few are in use, every event and question takes a moment."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tests.support.catalogs import GIB, gpu, model, with_budget
from tests.support.fake_launcher import FIRST_PID, FakeLauncher
from tests.support.scheduler_driver import (
    SchedulerDriver,
    arrives,
    changed,
    clock,
    exited,
    leaves,
    left_by_others,
    measured,
    ready,
)

from hotseat.catalog.named_models import Selector, Strategy
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.identifiers import DeviceName, ModelName, TicketId
from hotseat.memory.machine import Machine
from hotseat.memory.measurement import DeviceReading, Reading, Use
from hotseat.memory.meter import Measured
from hotseat.memory.model_figures import Figures, Footprints
from hotseat.memory.monitor import MemoryMonitor
from hotseat.relay.routing.route import choose
from hotseat.scheduling.commands import StartUpstream
from hotseat.scheduling.scheduler import Scheduler
from hotseat.startup.management import shown_in_metrics
from hotseat.state.learned_store import LearnedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from hotseat.scheduling.events import Event

MANY = 10_000
MOMENT_S = 0.005
RELOAD_S = 1.0
CATALOG = with_budget(*(model(f"m{n}", estimated={gpu(0): 12 * GIB}) for n in range(MANY)))
"""Two of them fit."""
ROUNDS = 3


class Timer:
    """The least processor time of each step in several rounds."""

    def __init__(self) -> None:
        self.best: dict[str, float] = {}

    def __call__(self, step: str, what: Callable[[], object]) -> None:
        began = time.process_time()
        what()
        took = time.process_time() - began
        self.best[step] = min(took, self.best.get(step, took))

    def slow(self) -> Mapping[str, float]:
        return {step: took for step, took in self.best.items() if took > MOMENT_S}


class TimedScheduler(SchedulerDriver):
    """A driver that checks no invariants, which look at every model."""

    def tell(self, timer: Timer, step: str, fact: Event | Callable[[SchedulerDriver], Event]) -> None:
        event = fact(self) if callable(fact) else fact
        began, commands = time.process_time(), self.scheduler.handle(event, self.now)
        took = time.process_time() - began
        timer.best[step] = min(took, timer.best.get(step, took))
        self.launches |= {each.model: each.launch for each in commands if isinstance(each, StartUpstream)}


def facts() -> Iterable[tuple[str, Event | Callable[[SchedulerDriver], Event]]]:
    """Two models load and serve; a third needs the memory of one of them."""
    yield "a cold model is requested", arrives(1, "m1")
    yield "a loading model is requested", arrives(2, "m1")
    yield "a server is ready", ready("m1")
    yield "a server was measured", measured("m1", 11)
    yield "a ready model is requested", arrives(3, "m1")
    yield "a response ends", leaves(3)
    yield "a second model is requested", arrives(4, "m9000")
    yield "a second server is ready", ready("m9000")
    yield "a model without memory is requested", arrives(5, "m5000")
    yield "another is requested", arrives(6, "m5001")
    yield "a queued model is requested", arrives(7, "m5000")
    yield "a response ends while others wait", leaves(4)
    yield "other programs take memory", left_by_others(23)
    yield "the clock", clock
    yield "a waiting client leaves", leaves(6)
    yield "a server exits", exited("m9000")


def test_events() -> None:
    """No event looks at all models, except a reload."""
    timer = Timer()
    for _ in range(ROUNDS):
        driver = TimedScheduler(CATALOG)
        for second, (step, fact) in enumerate(facts()):
            driver.now = float(second)
            driver.tell(timer, step, fact)
        reloaded = replace(CATALOG, budgets=CATALOG.budgets)
        driver.tell(timer, "a reload", changed(reloaded))
        scheduler, now = driver.scheduler, driver.now
        timer("the view", partial(scheduler.view, now))
        assert scheduler.view(now).queue
    reload_s = timer.best.pop("a reload")

    assert timer.slow() == {}
    assert reload_s < RELOAD_S


async def test_questions_of_requests_and_of_the_memory_monitor(tmp_path: Path) -> None:
    """Who runs, what a selector picks, whose ticket that is, and what each server takes."""
    timer = Timer()
    dispatcher = Dispatcher(Scheduler(CATALOG), FakeLauncher(), Journal())
    first, last = ModelName("m0"), ModelName(f"m{MANY - 1}")
    await dispatcher.operator.load(last)
    footprints = Footprints(LearnedStore(tmp_path / "learned.json").section("memory"))
    figures = Figures(footprints, {}, lambda: Machine({}))
    monitor = MemoryMonitor(dispatcher, footprints, figures, lambda: ())
    card = DeviceName("gpu0")
    devices = {card: DeviceReading(24 * GIB, 13 * GIB)}
    selectors = [Selector("s", strategy, (str(first), str(last))) for strategy in (Strategy.WARM, Strategy.SPILLOVER)]
    for n in range(ROUNDS):
        uses = {FIRST_PID + 1: {card: Use((9 + n) * GIB)}}
        look = Measured(Reading(devices, uses), {})
        timer("a measurement", partial(monitor.report_measurement, look))
        timer("is it running?", lambda: dispatcher.questions.is_running(first))
        timer("the last used", dispatcher.questions.last_used)
        timer("a ticket", lambda: dispatcher.questions.waits_for(TicketId(1)))
        timer("the view", dispatcher.views.current)
        for selector in selectors:
            targets = dispatcher.catalog.choices(selector)
            timer(
                f"a selector ({selector.strategy.value})", partial(choose, selector, targets, dispatcher.questions, {})
            )
        timer("what metrics show", partial(shown_in_metrics, dispatcher))
    running, in_metrics = dispatcher.questions.last_used(), [each.name for each in shown_in_metrics(dispatcher).models]
    await dispatcher.shut_down(within=0)

    assert running == last
    assert in_metrics == [last]
    assert timer.slow() == {}
