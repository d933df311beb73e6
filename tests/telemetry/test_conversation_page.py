"""Metrics of saved conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry
from tests.support.conversations import kept_and_continued
from tests.support.fake_launcher import FakeLauncher, catalog, spec

from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.scheduling.scheduler import Scheduler
from hotseat.telemetry.conversation_page import ConversationPage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotseat.identifiers import ModelName


class Measured:
    def __init__(self) -> None:
        self.launcher = FakeLauncher()
        models = catalog(spec("alpha", keeps_conversations=True), spec("plain"))
        self.dispatcher = Dispatcher(Scheduler(models), self.launcher, Journal())
        self._registry = CollectorRegistry()
        self._registry.register(ConversationPage(self.dispatcher.views.of_all, self._kept))

    def _kept(self, model: ModelName) -> tuple[int, int]:
        assert model == "alpha", "nothing is kept of others"
        return 3, 210 << 20

    def value(self, name: str, model: str = "alpha") -> float | None:
        return self._registry.get_sample_value(f"hotseat_conversations_{name}", {"model": model})


@pytest.fixture
async def measured() -> AsyncIterator[Measured]:
    measured = Measured()
    yield measured
    await measured.dispatcher.shut_down(within=0)


async def test_what_is_kept_and_what_it_was_good_for(measured: Measured) -> None:
    """The disk space, and the time that was saved; other models have neither."""
    await kept_and_continued(measured.dispatcher, measured.launcher, "alpha")

    assert (measured.value("bytes"), measured.value("gained_seconds_total")) == (210 << 20, 2.0)
    assert measured.value("bytes", "plain") is None
