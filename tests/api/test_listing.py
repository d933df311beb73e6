"""GET /v1/models."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.puppets import come_true

if TYPE_CHECKING:
    from tests.support.management import Management


async def test_every_listed_model_has_one_stable_row(house: Management) -> None:
    """The list holds the configured names, never the unlisted, and says the same twice."""
    first, second = await house.get("/v1/models"), await house.get("/v1/models")

    assert first.json()["object"] == "list"
    assert [row["id"] for row in first.json()["data"]] == ["alpha", "org/model", "slow", "dud"]
    assert first.json() == second.json()


async def test_a_row_has_the_contract_fields_and_ours(house: Management) -> None:
    """Name and description are there where they are set."""
    rows = {row["id"]: row for row in (await house.get("/v1/models")).json()["data"]}

    assert rows["alpha"] == {
        "id": "alpha",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "hotseat",
        "status": {"value": "unloaded"},
        "name": "Alpha",
        "description": "A small one",
    }
    assert rows["org/model"].keys() == {"id", "object", "created", "owned_by", "status"}


async def test_the_status_follows_the_model(house: Management) -> None:
    """A row says unloaded, loading, loaded as it comes true."""

    async def status() -> str:
        return str((await house.get("/v1/models/slow")).json()["status"]["value"])

    seen = [await status()]
    async with asyncio.TaskGroup() as group:
        group.create_task(house.get("/upstream/slow/load"))
        await come_true(lambda: house.puppets.is_starting("slow"))
        seen.append(await status())
        house.puppets.become_ready("slow")
    seen.append(await status())

    assert seen == ["unloaded", "loading", "loaded"]


async def test_aliases_are_listed_on_demand(house: Management) -> None:
    """With includeAliasesInList an alias is a row beside its model."""
    house.settings = replace(house.settings, include_aliases_in_list=True)
    rows = (await house.get("/v1/models")).json()["data"]

    assert [row["id"] for row in rows][:3] == ["alpha", "first", "al"]


async def test_one_model_is_found_by_name_alias_or_with_a_slash(house: Management) -> None:
    """SDKs ask for one model by the name they will use."""
    found = [(await house.get(f"/v1/models/{name}")).json()["id"] for name in ("alpha", "al", "org/model", "hidden")]

    assert found == ["alpha", "al", "org/model", "hidden"]
