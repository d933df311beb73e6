"""The installed hotseat, real model servers and a real browser, shared by the tests of the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.browser import open_browser, visits_to
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import EMBEDDINGS, SERVER, llama, present

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser
    from tests.support.browser import Visit, Visits
    from tests.support.hotseat import Hotseat

GIB = 1 << 30


def config() -> dict[str, Any]:
    """Two chat models of which one fits, an embedding model that fits beside either, and one that cannot start."""
    broken = {"cmd": f"{present(SERVER)} -m /dev/null --port ${{PORT}}", "memory": GIB}
    return {
        "unloadTimeout": 2,
        "devices": {"gpu0": {"memory": 10 * GIB}},
        "models": {
            "alpha": llama("alpha", memory=6 * GIB, ttl=600),
            "beta": llama("beta", memory=6 * GIB),
            "embed": llama("embed", EMBEDDINGS, memory=1 * GIB, pinned=True, capabilities={"in": ["text"]}),
            "broken": broken,
        },
    }


@pytest.fixture(scope="module")
def hotseat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    with ForkedHotseat(config(), tmp_path_factory.mktemp("hotseat")) as hotseat:
        yield hotseat


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def visits(hotseat: Hotseat, browser: Browser) -> Iterator[Visits]:
    with visits_to(hotseat.url, browser) as visits:
        yield visits


@pytest.fixture
def visit(visits: Visits) -> Visit:
    return visits()
