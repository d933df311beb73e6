"""GET /v1/models."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import structs
from tests.support.fake_launcher import spec
from tests.support.waiting import come_true

from hotseat.activity.usage import HELD
from hotseat.catalog.named_models import RemoteModel, Selector, Strategy
from hotseat.catalog.spec import BodyChanges, Capabilities
from hotseat.identifiers import Address, ModelName
from hotseat.scheduling.events import CatalogChanged
from hotseat.settings import ApiKey

if TYPE_CHECKING:
    from tests.support.management import Management


async def test_every_listed_model_has_one_stable_row(rig: Management) -> None:
    """The list has every configured model that is not unlisted, and two requests return the same."""
    first, second = await rig.get("/v1/models"), await rig.get("/v1/models")

    assert first.json()["object"] == "list"
    assert [row["id"] for row in first.json()["data"]] == ["alpha", "org/model", "slow", "dud"]
    assert first.json() == second.json()


async def test_a_row_has_the_contract_fields_and_ours(rig: Management) -> None:
    """An entry has OpenAI's fields, status and meta; name and description only where they are set."""
    rows = {row["id"]: row for row in (await rig.get("/v1/models")).json()["data"]}

    assert rows["alpha"] == {
        "id": "alpha",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "hotseat",
        "status": {"value": "unloaded"},
        "name": "Alpha",
        "description": "A small one",
        "meta": {
            "llamaswap": {"type": "model", "aliases": ["first", "al"]},
            "hotseat": {"type": "model", "aliases": ["first", "al"], "metadata": {}},
        },
    }
    assert rows["org/model"].keys() == {"id", "object", "created", "owned_by", "status", "meta"}


async def test_the_status_follows_the_model(rig: Management) -> None:
    """The status of a model goes from unloaded to loading to loaded."""

    async def status() -> str:
        return str((await rig.get("/v1/models/slow")).json()["status"]["value"])

    seen = [await status()]
    async with asyncio.TaskGroup() as group:
        group.create_task(rig.get("/upstream/slow/load"))
        await come_true(lambda: rig.launcher.is_starting("slow"))
        seen.append(await status())
        rig.launcher.become_ready("slow")
    seen.append(await status())

    assert seen == ["unloaded", "loading", "loaded"]


async def test_aliases_are_listed_on_demand(rig: Management) -> None:
    """With includeAliasesInList, aliases are entries behind their model."""
    rig.settings = structs.replace(rig.settings, include_aliases_in_list=True)
    rows = (await rig.get("/v1/models")).json()["data"]

    assert [row["id"] for row in rows][:3] == ["alpha", "first", "al"]


async def test_one_model_is_found_by_name_alias_or_with_a_slash(rig: Management) -> None:
    """One entry can be requested by name or alias, also if the model is unlisted."""
    found = [(await rig.get(f"/v1/models/{name}")).json()["id"] for name in ("alpha", "al", "org/model", "hidden")]

    assert found == ["alpha", "al", "org/model", "hidden"]


def offering(rig: Management, **known: Any) -> None:
    """Change the offered models; models that stay are left alone."""
    rig.dispatcher.tell(CatalogChanged(replace(rig.dispatcher.catalog, **known)))


async def test_what_the_configuration_says_of_a_model_is_shown(rig: Management) -> None:
    """Metadata is under meta.llamaswap and meta.hotseat; capabilities and context length are top-level."""
    able = Capabilities(takes=("text", "image"), gives=("text",), tools=True, context=4096)
    known = spec("seer", metadata={"family": "x", "type": "mine"}, capabilities=able)
    offering(rig, models={known.name: known})
    row = (await rig.get("/v1/models/seer")).json()

    assert row["context_length"] == 4096
    assert row["capabilities"] == {
        "input": ["text", "image"],
        "output": ["text"],
        "vision": True,
        "audio_transcriptions": False,
        "audio_speech": False,
        "image_generation": False,
        "function_calling": True,
        "reranker": False,
    }
    assert row["meta"]["llamaswap"] == {"family": "x", "type": "model", "aliases": []}
    assert row["meta"]["hotseat"] == {"type": "model", "aliases": [], "metadata": {"family": "x", "type": "mine"}}


async def test_selectors_and_models_of_peers_are_listed(rig: Management) -> None:
    """A selector is loaded if one of its targets is; the status of a peer's model is unknown.

    pi-llama-cpp shows no model at all if one has no status, and Open WebUI shows such a model as loaded.
    """
    far = RemoteModel(ModelName("box/far"), "box", Address("10.0.0.1", 80), BodyChanges("far"))
    best = Selector("best", Strategy.WARM, ("org/model", "al", "far"), title="Best", metadata={"k": 1})
    away = Selector("away", Strategy.PIN, ("far",))
    remotes = {"box/far": far, "far": far}
    offering(rig, remotes=remotes, selectors={"best": best, "away": away, "secret": replace(best, unlisted=True)})
    await rig.dispatcher.operator.load(ModelName("alpha"))
    rows = {row["id"]: row for row in (await rig.get("/v1/models")).json()["data"]}

    assert list(rows)[-3:] == ["best", "away", "box/far"]
    assert (rows["best"]["name"], rows["best"]["status"]) == ("Best", {"value": "loaded"})
    assert rows["best"]["meta"]["llamaswap"] == {
        "k": 1, "type": "selector", "strategy": "warm", "targets": ["org/model", "al", "far"],
    }  # fmt: skip
    assert rows["away"]["status"] == rows["box/far"]["status"] == {"value": "unknown"}
    assert rows["box/far"].keys() == {"id", "object", "created", "owned_by", "status", "meta"}
    assert rows["box/far"]["meta"]["llamaswap"] == {"type": "peer", "peerID": "box"}


async def test_other_names_are_listed_on_demand_with_what_they_mean(rig: Management) -> None:
    """With includeAliasesInList, an alias names its model, and bare names of peers' models are listed."""
    far = RemoteModel(ModelName("box/far"), "box", Address("10.0.0.1", 80), BodyChanges("far"))
    offering(rig, remotes={"box/far": far, "far": far})
    rig.settings = structs.replace(rig.settings, include_aliases_in_list=True)
    rows = {row["id"]: row for row in (await rig.get("/v1/models")).json()["data"]}

    assert rows["al"]["meta"]["llamaswap"] == {"type": "alias", "modelID": "alpha"}
    assert "far" in rows


# Keys


async def test_a_key_for_some_models_is_shown_those(rig: Management) -> None:
    """A key with a list of models sees only those, and gets 403 for another one."""
    rig.accounts.open([ApiKey("sesame", models=("alpha",))])
    as_holder = {HELD: sha256(b"sesame").hexdigest()}
    rows = (await rig.get("/v1/models", headers=as_holder)).json()["data"]
    by_alias = await rig.get("/v1/models/al", headers=as_holder)
    other = await rig.get("/v1/models/slow", headers=as_holder)

    assert [row["id"] for row in rows] == ["alpha"]
    assert by_alias.status_code == 200
    assert (other.status_code, other.headers["X-Error-Code"]) == (403, "forbidden")


async def test_a_key_that_was_taken_back_meanwhile_is_shown_nothing(rig: Management) -> None:
    """A key that a reload removed during the request gets 403."""
    answered = await rig.get("/v1/models", headers={HELD: "00"})

    assert answered.status_code == 403


async def test_the_context_of_a_server_is_where_llama_cpp_has_it(rig: Management) -> None:
    """`meta.n_ctx` is what the model's last server reported; pi-llama-cpp reads it."""
    rig.contexts["alpha"] = 4096
    data = (await rig.get("/v1/models")).json()["data"]

    assert [entry["meta"].get("n_ctx") for entry in data] == [4096, *[None] * (len(data) - 1)]


async def test_the_context_of_a_model_is_known_before_it_is_loaded(rig: Management) -> None:
    """`status.args` has the context as an option of llama-server; there, pi-llama-cpp looks while it is not loaded."""
    able = Capabilities(context=2048)
    offering(rig, models={**rig.dispatcher.catalog.models, ModelName("seer"): spec("seer", capabilities=able)})
    rig.contexts["alpha"] = 4096
    rows = {row["id"]: row for row in (await rig.get("/v1/models")).json()["data"]}

    assert rows["alpha"]["status"] == {"value": "unloaded", "args": ["--ctx-size", "4096"]}
    assert rows["seer"]["status"] == {"value": "unloaded", "args": ["--ctx-size", "2048"]}
    assert rows["slow"]["status"] == {"value": "unloaded"}
