"""What people see of conversations that survive a swap."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.support.client import chat_body
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import llama

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.browser import Visit
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama

LONG = " ".join(f"word {number}" for number in range(300))


@pytest.fixture(scope="module")
def hotseat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    """One conversation with alpha was interrupted by beta and continued."""
    models = {name: llama(name, "--parallel 1") for name in ("alpha", "beta")}
    with ForkedHotseat({"conversations": True, "models": models}, tmp_path_factory.mktemp("hotseat")) as hotseat:
        for model, text in (("alpha", LONG), ("beta", "hello"), ("alpha", LONG)):
            body = {**chat_body(model, 2), "messages": [{"role": "user", "content": text}]}
            assert hotseat.call("POST", "/v1/chat/completions", body).status == 200
        yield hotseat


def test_a_conversation_that_survived_a_swap_is_seen_on_every_page(visit: Visit) -> None:
    """Models: what is kept and gained; Timeline: when it was saved and restored; Activity: the tokens of the cache."""
    models = visit.go("models", "?model=alpha")
    expect(models.get_by_text(re.compile(r"Conversations kept: 1, .*saved"))).to_be_visible()
    expect(models.get_by_text("1 saved, 1 restored, 1 of them continued")).to_be_visible()
    changes = visit.go("timeline").get_by_role("table", name="Changes")
    expect(changes.get_by_text(re.compile("unloaded .*; 1 conversation saved"))).to_be_visible()
    expect(changes.get_by_text(re.compile("started .*; 1 conversation restored"))).to_be_visible()
    activity = visit.go("activity")
    activity.locator("tr").filter(has_text="alpha").get_by_role("button").first.click()
    expect(activity.get_by_text(re.compile(r"Of its [\d,]+ prompt tokens, [\d,]+ were"))).to_be_visible()
