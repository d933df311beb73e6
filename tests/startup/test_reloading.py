"""What a reload changes in the running parts."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest
from tests.support.catalogs import one_at_a_time
from tests.support.fake_launcher import FakeLauncher, spec

from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.scheduling.scheduler import Scheduler
from hotseat.startup.reloading import ConfigApplier

pytestmark = pytest.mark.anyio


async def test_the_guard_learns_new_unload_timeouts() -> None:
    """Also of a model that is restarted: the server that is stopped for it may take as long as is configured now."""
    before = one_at_a_time(spec("qwen"))
    after = one_at_a_time(replace(spec("qwen"), unload_timeout_s=30.0))
    models = Mock(dispatcher=Dispatcher(Scheduler(before), FakeLauncher(), Journal()))
    models.overrides.applied_to = lambda catalog: catalog
    ConfigApplier(Mock(), models, Mock(), Mock()).change_catalog(Mock(catalog=after, measured={}))

    models.supervisor.limit_stops.assert_called_once_with(after)
    assert models.dispatcher.catalog == after
