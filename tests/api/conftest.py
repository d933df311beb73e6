"""A management API with a handful of models, served anew for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.loop_turns import Turns
from tests.support.management import Management, management
from tests.support.served_fleet import Served, be_patient, served_fleet

from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MODELS = catalog(
    spec("alpha", aliases=("first", "al"), title="Alpha", description="A small one", ttl_s=300.0),
    spec("org/model"),
    spec("hidden", unlisted=True),
    spec("slow"),
    spec("dud"),
)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Management]:
    async with management(tmp_path / "socket", MODELS, FakeLauncher(slow=("slow",), broken=("dud",))) as rig:
        yield rig


@pytest.fixture
async def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    be_patient(monkeypatch)
    async with served_fleet(tmp_path) as hosts:
        yield hosts


@pytest.fixture
async def turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Turns]:
    """Of the function that the test names."""
    module, name = request.param
    counting, tasks = Turns(getattr(module, name)), Tasks()
    monkeypatch.setattr(module, name, counting)
    tasks.start(counting.keep_counting(), "count the turns of the loop")
    yield counting
    await tasks.aclose()
