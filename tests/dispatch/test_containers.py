"""Whatever clients do for however long, no container of the process grows beyond its bound."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

import pytest
from tests.support.containers import sizes
from tests.support.depth import by_depth
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.traces import traced
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.activity import recent
from hotseat.activity.recent import Activity, Tokens
from hotseat.activity.usage import Accounts
from hotseat.activity.usage_store import UsageCounter
from hotseat.dispatch import journal
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.identifiers import ClientId, ModelName
from hotseat.relay.access.policy import Policy
from hotseat.scheduling import conversation_state, model_stats
from hotseat.scheduling.events import PromptProcessed, Transfer
from hotseat.scheduling.scheduler import Scheduler
from hotseat.settings import Access, ApiKey, Settings
from hotseat.telemetry.metrics import Metrics
from hotseat.tracing import tracer
from hotseat.tracing.collector import collector_of
from hotseat.tracing.otlp import OtlpEncoder
from hotseat.tracing.swap_steps import SwapSteps
from hotseat.tracing.tracer import TraceQueue

if TYPE_CHECKING:
    from hotseat.errors import HotseatError
    from hotseat.identifiers import TicketId, Upstream
    from hotseat.scheduling.commands import ReadAhead

EVENTS = by_depth(20_000, 1_000_000)
LONG_LOADED = 1400
"""Of every 2000 events the last 500 swap models."""
AT_A_TIME = 8
"""Requests."""
USUAL = 64
"""No other container has more: there are a handful of models, of requests at a time and of keys."""
MOST_TRACES = 100
NOBODY_COLLECTS = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
BOUNDS = {
    "Journal._entries": journal.KEPT,
    "Activity._finished": recent.KEPT,
    "StatsOfModels._last_visits": model_stats.KEPT_CLIENTS,
    "ModelStats.gaps": model_stats.KEPT_GAPS,
    "ModelStats.reuse_gaps": model_stats.KEPT_GAPS,
    "Restored.own": conversation_state.MOST_OWN,
    "Restored.latest": conversation_state.MOST_OWN,
    "TraceQueue._waiting": MOST_TRACES,
}
RESTORED, FOREVER_UNPROVEN = 900, 10_000_000
"""Tokens of restored conversations."""
LOADED, SWAPPED, BROKEN = map(ModelName, ("loaded", "swapped", "broken"))


class Launcher(FakeLauncher):
    async def read_ahead(self, command: ReadAhead) -> None:
        """Its files are read at once."""


class Request:
    """A client's. It gives its ticket back when it is cut."""

    method, target = b"POST", b"/v1/chat/completions"

    def __init__(self, dispatcher: Dispatcher, model: ModelName) -> None:
        self._dispatcher, self.model = dispatcher, model
        self.ticket: TicketId | None = None
        self.is_granted = False

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        self.is_granted = True

    def confirmed(self) -> None: ...
    def refused(self, error: HotseatError) -> None: ...

    def cut(self, error: HotseatError) -> None:
        if self.ticket is not None:
            self._dispatcher.leave(self.ticket)


class Soak:
    """Clients that come once each, with prompts that continue nothing of this server, and operators."""

    def __init__(self) -> None:
        self.launcher = Launcher(broken=(BROKEN,))
        self.launcher.conversations = tuple(Transfer(tokens, 1 << 20, 0.1) for tokens in (RESTORED, FOREVER_UNPROVEN))
        models = (spec(name, keeps_conversations=name == LOADED) for name in (LOADED, SWAPPED, BROKEN))
        self.scheduler = Scheduler(catalog(*models))
        self.metrics, self.usage, self.accounts = Metrics(), UsageCounter(), Accounts()
        self.activity, self.journal = Activity(self.metrics), Journal()
        self.journal.listen(self.metrics.watch)
        self.swap_steps, collector = SwapSteps(asyncio.get_running_loop().time), collector_of(NOBODY_COLLECTS)
        self.journal.listen(self.swap_steps.watch)
        assert collector is not None
        self.traces = TraceQueue(collector, OtlpEncoder(collector.service), time.monotonic)
        self.dispatcher = Dispatcher(self.scheduler, self.launcher, self.journal)
        key = ApiKey("secret", name="key", concurrency=AT_A_TIME)
        self.policy = Policy(Settings(access=Access(api_keys=(key,))), self.accounts)
        self.requests: deque[Request] = deque()
        self.largest: Counter[str] = Counter()
        """The largest size of each container so far."""
        self.chance = random.Random(20)

    def roots(self) -> list[object]:
        state = self.scheduler._state
        return [
            state,
            self.dispatcher,
            self.journal,
            self.activity,
            self.usage,
            self.accounts,
            self.policy,
            self.metrics,
            self.swap_steps,
            self.traces,
        ]

    async def run(self, events: int) -> None:
        for number in range(events):
            is_swapping = number // 500 % 4 == 3
            self.ask(number, self.chance.choice((LOADED, SWAPPED, BROKEN)) if is_swapping else LOADED)
            if len(self.requests) >= AT_A_TIME:
                self.end(self.requests.popleft(), number)
            if is_swapping and number % 250 == 0:
                await self.operate()
            if number % 20 == 0:
                await advance(0.5)
            if number % 2000 == LONG_LOADED:
                self.largest |= sizes(self.roots())

    def ask(self, number: int, model: ModelName) -> None:
        if number % 50 == 0:
            model = ModelName(f"unknown-{number}")
        request = Request(self.dispatcher, model)
        request.ticket = self.dispatcher.ask(model, ClientId(f"client-{number}"), request)
        self.requests.append(request)

    def end(self, request: Request, number: int) -> None:
        assert request.ticket is not None
        key_use, now = self.accounts.all()[0].enter(request.model), asyncio.get_running_loop().time()
        tokens = Tokens(1000 + number, 10, 20.0, RESTORED, 0.2)
        if request.is_granted:
            key_use.granted(self.accounts.meter(request.model), 1, now)
            self.dispatcher.prompt_processed(PromptProcessed(request.ticket, 1000 + number, RESTORED, 0.2, 10))
            client = ClientId(f"client-{number}")
            self.activity.finished(request.model, 200, 0.1, 0.2, 0.3, client, request, b"id-%d" % number, tokens)
            self.usage.count(request.model, "key", tokens)
            self.traces.put(traced(id=f"id-{number}"))
        else:
            self.activity.refused("unknown_model")
        key_use.ended(now, tokens)
        self.dispatcher.leave(request.ticket, request.is_granted)
        if number % 50 == 0:
            self.usage.take()

    async def operate(self) -> None:
        """A server dies, and the time for which a broken model is not started again passes."""
        if alive := self.launcher.alive:
            self.launcher.crash(self.chance.choice(alive), "was killed by SIGSEGV")
        await advance(70)


@pytest.mark.longer
@pytest.mark.uncounted
@in_virtual_time
async def test_no_container_grows_beyond_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests, prompts, loads, crashes, failures, unknown models, traces and clients that never come back."""
    soak = Soak()
    monkeypatch.setattr(tracer, "MOST_WAITING", MOST_TRACES * len(soak.traces._encode(traced(id="id-1"))))
    await soak.run(EVENTS)
    found = soak.largest | sizes(soak.roots())
    await soak.dispatcher.shut_down(0)

    too_large = {name: size for name, size in found.items() if size > BOUNDS.get(name, USUAL)}
    assert too_large == {}
    assert {*BOUNDS} <= {*found}, "a bound of a container that there is not"
    assert found["TraceQueue._waiting"] > USUAL
    assert found["Restored.own"] == found["Restored.latest"] == conversation_state.MOST_OWN
    print(f"{len(found)} containers, the largest: {max(found.values())}")
