"""What people see of a restart: models that go on, and a page that goes on too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.support.hotseat import Hotseat
from tests.support.llama import llama

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.browser import Visits

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module")
def hotseat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    """The installed program: a fork of the tests cannot start itself again."""
    with Hotseat({"models": {"alpha": llama("alpha")}}, tmp_path_factory.mktemp("hotseat")) as hotseat:
        hotseat.load("alpha")
        yield hotseat


def test_a_restart_leaves_no_gap(visits: Visits, hotseat: Hotseat) -> None:
    """An open page keeps its history, and a new one draws the model as ready since before the restart."""
    opened = visits()
    load = opened.go("timeline").get_by_role("table", name="Changes").get_by_text("loaded explicitly")
    expect(load).to_be_visible()
    restarted = hotseat.cli("restart")
    assert restarted.returncode == 0, restarted.stderr

    details = opened.go("models", "?model=alpha").locator("[data-model='alpha']")
    expect(details.locator(".tag", has_text="adopted")).to_be_visible()
    expect(details.get_by_text("started by an earlier process of hotseat", exact=True)).to_be_visible()
    expect(details.get_by_text("started by an earlier process of hotseat, ready since")).to_be_visible()
    expect(opened.go("timeline").get_by_role("table", name="Changes").get_by_text("loaded explicitly")).to_be_visible()
    bands = visits().go("timeline").locator(".band.ready")
    expect(bands).to_have_count(1)
