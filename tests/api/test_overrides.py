"""Pin and ttl are set at run time."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from hotseat.activity.usage import HELD
from hotseat.settings import ApiKey, Role

if TYPE_CHECKING:
    import httpx2
    from tests.support.management import Management


async def put(rig: Management, model: str, body: Any, **headers: str) -> httpx2.Response:
    return await rig.client.put(f"/hotseat/models/{model}/overrides", json=body, headers=headers)


async def seen(rig: Management, model: str) -> tuple[Any, ...]:
    details = (await rig.get(f"/hotseat/models/{model}")).json()
    return tuple(details[key] for key in ("pinned", "ttl", "overrides", "configured"))


async def test_what_is_set_is_shown_beside_the_configuration(rig: Management) -> None:
    """The effective values, what is set, and what the configuration says."""
    before = await seen(rig, "alpha")
    answer = await put(rig, "al", {"pinned": True, "ttl": 0})

    assert before == (False, 300, None, None)
    assert answer.json()["message"] == "alpha differs from its configuration now, also after a restart"
    assert await seen(rig, "alpha") == (True, 0, {"pinned": True, "ttl": 0}, {"pinned": False, "ttl": 300})


async def test_null_means_as_configured(rig: Management) -> None:
    """Each value can be taken back; a value that is missing counts as null."""
    await put(rig, "org/model", {"pinned": True, "ttl": 60})
    await put(rig, "org/model", {"ttl": 60})
    one_left = await seen(rig, "org/model")
    answer = await put(rig, "org/model", {"pinned": None, "ttl": None})

    assert one_left == (False, 60, {"pinned": None, "ttl": 60}, {"pinned": False, "ttl": 0})
    assert answer.json()["message"] == "org/model follows its configuration"
    assert await seen(rig, "org/model") == (False, 0, None, None)


async def test_a_running_model_keeps_its_process(rig: Management) -> None:
    """The change needs no restart, and it does not expire while it is pinned."""
    await rig.get("/upstream/alpha/load")
    before = (await rig.get("/hotseat/models/alpha")).json()
    await put(rig, "alpha", {"pinned": True})
    after = (await rig.get("/hotseat/models/alpha")).json()

    assert after["pid"] == before["pid"]
    assert (before["ttl_left_s"] is None, after["ttl_left_s"]) == (False, None)


@pytest.mark.parametrize(
    "body", [{"ttl": -1}, {"ttl": "5m"}, {"ttl": 1e12}, {"pinned": "yes"}, {"pin": True}, [], None]
)
async def test_a_body_that_is_not_valid_changes_nothing(rig: Management, body: Any) -> None:
    """The answer is 400."""
    assert (await put(rig, "alpha", body)).status_code == 400
    assert await seen(rig, "alpha") == (False, 300, None, None)


async def test_an_unknown_model(rig: Management) -> None:
    """The answer is 404."""
    assert (await put(rig, "nobody", {"pinned": True})).status_code == 404


async def test_a_key_changes_only_the_models_that_it_may_use(rig: Management) -> None:
    """A key for alpha gets 403 for others."""
    rig.accounts.open([ApiKey("sesame", Role.OPERATE, models=("alpha",))])
    key = {HELD: sha256(b"sesame").hexdigest()}
    statuses = [(await put(rig, model, {"pinned": True}, **key)).status_code for model in ("alpha", "org/model")]

    assert statuses == [200, 403]
