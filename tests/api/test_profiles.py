"""Profiles over HTTP and on the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hotseat.catalog.named_models import Profile
from hotseat.scheduling.events import CatalogChanged

if TYPE_CHECKING:
    from tests.support.management import Management

PROFILES = {
    "night": Profile("night", "quiet hours", {"org/model": "alpha", "dud": ""}),
    "my day": Profile("my day", "", {"x": "alpha"}),
}


@pytest.fixture
def profiled(rig: Management) -> Management:
    rig.dispatcher.tell(CatalogChanged(replace(rig.dispatcher.catalog, profiles=PROFILES)))
    return rig


async def test_no_profile_is_active_at_first(profiled: Management) -> None:
    """Profiles are listed with their pins, and none is active."""
    body = (await profiled.get("/hotseat/profiles")).json()

    assert body["active"] is None
    assert body["profiles"][0] == {
        "name": "night", "description": "quiet hours", "pins": {"org/model": "alpha", "dud": ""},
    }  # fmt: skip


async def test_a_profile_is_active_until_another_one_or_none_is(profiled: Management) -> None:
    """Changing the active profile loads and unloads nothing."""
    await profiled.get("/upstream/alpha/load")
    seen = []
    for method, path in (("POST", "/night"), ("POST", "/my%20day"), ("DELETE", "")):
        answer = await profiled.client.request(method, f"/hotseat/profiles{path}")
        seen.append((answer.json()["message"], (await profiled.get("/hotseat/profiles")).json()["active"]))

    assert seen == [
        ("profile night is active", "night"),
        ("profile my day is active", "my day"),
        ("no profile is active", None),
    ]
    assert (await profiled.get("/running")).json() == {"running": ["alpha"]}


async def test_an_unknown_profile_is_refused(profiled: Management) -> None:
    """An unknown profile is 404, and the error suggests the nearest name."""
    answer = await profiled.client.post("/hotseat/profiles/nigth")

    assert answer.status_code == 404
    assert 'Did you mean "night"?' in answer.json()["error"]


async def test_a_name_that_is_switched_off_is_not_found(profiled: Management) -> None:
    """A name that the profile maps to nothing is 404; a name mapped to a model keeps its own id."""
    await profiled.client.post("/hotseat/profiles/night")

    assert (await profiled.get("/v1/models/dud")).status_code == 404
    assert (await profiled.get("/v1/models/org/model")).json()["id"] == "org/model"
