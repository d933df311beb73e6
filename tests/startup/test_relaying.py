"""What a reload changes in the running parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from tests.support.catalogs import one_at_a_time
from tests.support.fake_launcher import FakeLauncher, spec
from tests.support.waiting import come_true

from hotseat.catalog.spec import LaunchRecipe
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.identifiers import LaunchId, ModelName
from hotseat.scheduling.events import CatalogChanged, UpstreamExited
from hotseat.scheduling.scheduler import Scheduler
from hotseat.startup.models import forget_removed
from hotseat.startup.relaying import ConfigApplier

if TYPE_CHECKING:
    from hotseat.scheduling.events import Event

pytestmark = pytest.mark.anyio


async def test_the_guard_learns_new_unload_timeouts() -> None:
    """Also of a model that is restarted: the server that is stopped for it may take as long as is configured now."""
    before = one_at_a_time(spec("qwen"))
    after = one_at_a_time(replace(spec("qwen"), unload_timeout_s=30.0))
    models = Mock(dispatcher=Dispatcher(Scheduler(before), FakeLauncher(), Journal()))
    models.overrides.applied_to = lambda catalog: catalog
    models.supervisor.displaced.return_value = ()
    ConfigApplier(Mock(), models, Mock(), Mock()).change_catalog(Mock(catalog=after, measured={}))

    models.supervisor.limit_stops.assert_called_once_with(after)
    assert models.dispatcher.catalog == after


@pytest.mark.parametrize(
    "event", [CatalogChanged(one_at_a_time("llama")), UpstreamExited(ModelName("qwen"), LaunchId(1), "exit status 0")]
)
async def test_what_a_removed_model_has_written_is_forgotten(event: Event) -> None:
    """When the model is removed, or when its server, which may finish its requests first, is gone."""
    parts = Mock(dispatcher=Dispatcher(Scheduler(one_at_a_time("llama")), FakeLauncher(), Journal()))
    forget_removed(parts, event)

    parts.supervisor.forget_others.assert_called_once_with(parts.dispatcher.catalog.models)


async def test_a_new_model_with_the_port_of_a_running_server() -> None:
    """The server that was given the port is stopped, since the new model can start nowhere else."""
    fixed = replace(spec("llama"), recipe=LaunchRecipe(("serve",), "http://127.0.0.1:5800"))
    before, after, launcher, journal = one_at_a_time("qwen"), one_at_a_time("qwen", fixed), FakeLauncher(), Journal()
    models = Mock(dispatcher=Dispatcher(Scheduler(before), launcher, journal))
    models.overrides.applied_to = lambda catalog: catalog
    models.supervisor.displaced = lambda ports: (ModelName("qwen"),) if 5800 in ports else ()
    await models.dispatcher.operator.load(ModelName("qwen"))
    ConfigApplier(Mock(), models, Mock(), Mock()).change_catalog(Mock(catalog=after, measured={}))

    await come_true(lambda: launcher.alive == [])
