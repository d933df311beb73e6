"""Fixtures for processes; after each test none of them may be left."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support.counting import COVERAGE_CONFIG, VARIABLE
from tests.support.supervisor_rig import GUARD_INTERPRETER, SupervisorRig

from hotseat.model_servers.os_processes import children
from hotseat.model_servers.supervisor import open_supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    """Orphans of our descendants become our children, so it is enough to look at those.

    Those of tests in other folders may end meanwhile.
    """
    before = children(os.getpid())
    yield

    assert set(children(os.getpid())) <= set(before)


@pytest.fixture
def counted_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coverage follows the guards that the test starts, which is how their lines are counted."""
    if COVERAGE_CONFIG:
        monkeypatch.setenv(VARIABLE, COVERAGE_CONFIG)


@pytest.fixture
async def rig(nobody_is_left: None, tmp_path: Path) -> AsyncIterator[SupervisorRig]:
    async with open_supervisor(os.environ, interpreter=GUARD_INTERPRETER, records=tmp_path / "records") as supervisor:
        yield SupervisorRig(supervisor)
