"""What hotseat itself answers of Ollama's API."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from bench.estimates.shapes import Shape, write_zeros
from tests.support.fake_launcher import catalog, spec
from tests.support.waiting import come_true

from hotseat.activity.usage import HELD
from hotseat.catalog.named_models import RemoteModel, Selector, Strategy
from hotseat.catalog.spec import BodyChanges, Capabilities
from hotseat.identifiers import HOST_MEMORY, LOCAL_HOST, Address, DeviceName, ModelName, Place
from hotseat.scheduling.events import CatalogChanged
from hotseat.settings import ApiKey

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.management import Management

    from hotseat.catalog.spec import ModelSpec

SHAPE = Shape(layers=2, dim=256, ff=256, heads=4, kv_heads=4, vocab=512, context=512)
NOTHING_KNOWN = {
    "parent_model": "",
    "format": "",
    "family": "",
    "families": None,
    "parameter_size": "",
    "quantization_level": "",
}
TINY = {**NOTHING_KNOWN, "format": "gguf", "family": "llama", "families": ["llama"], "quantization_level": "F16"}
OF_ALPHA = {HELD: sha256(b"sesame").hexdigest()}


def of_file(name: str, folder: Path, **more: Any) -> ModelSpec:
    """A model with a real file, which was changed at a known time."""
    file = write_zeros(folder / f"{name}.gguf", SHAPE)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    known = spec(name, **more)
    return replace(known, recipe=replace(known.recipe, argv=("llama-server", "-m", str(file), "--port", "${PORT}")))


def offering(rig: Management, *specs: ModelSpec, **known: Any) -> None:
    rig.dispatcher.tell(CatalogChanged(replace(catalog(*specs), **known)))


async def post(rig: Management, path: str, body: dict[str, Any], **headers: str) -> Any:
    return await rig.client.post(path, json=body, headers=headers)


# Lists


async def test_the_version_is_one_that_clients_accept(rig: Management) -> None:
    """Some clients refuse to work with versions before 0.6.4."""
    version = (await rig.get("/api/version")).json()["version"]

    assert tuple(map(int, version.split("."))) >= (0, 6, 4)


async def test_a_listed_model_has_what_its_file_says(rig: Management, tmp_path: Path) -> None:
    """A row has all the fields of Ollama's, and the same again while the file stays as it is."""
    offering(rig, of_file("tiny", tmp_path))
    first, second = (await rig.get("/api/tags")).json(), (await rig.get("/api/tags")).json()
    [row] = first["models"]
    size = (tmp_path / "tiny.gguf").stat().st_size

    assert first == second
    assert len(row["digest"]) == 64
    assert row == {
        "name": "tiny:latest",
        "model": "tiny:latest",
        "size": size,
        "digest": row["digest"],
        "details": {**TINY, "parameter_size": "1.2M"},
        "modified_at": "2023-11-14T22:13:20.000000Z",
    }


async def test_a_changed_file_is_another_model(rig: Management, tmp_path: Path) -> None:
    """The digest and the time follow the file."""
    offering(rig, of_file("tiny", tmp_path))
    [before] = (await rig.get("/api/tags")).json()["models"]
    os.utime(tmp_path / "tiny.gguf", (1_800_000_000, 1_800_000_000))
    [after] = (await rig.get("/api/tags")).json()["models"]

    assert before["digest"] != after["digest"]
    assert after["modified_at"] == "2027-01-15T08:00:00.000000Z"


async def test_models_of_which_nothing_is_known_are_listed(rig: Management) -> None:
    """Names with a tag stay as they are, unlisted models are left out, unknown fields are empty."""
    best = Selector("best", Strategy.PIN, ("qwen:7b",))
    far = RemoteModel(ModelName("box/far"), "box", Address("10.0.0.1", 80), BodyChanges("far"))
    models = spec("qwen:7b"), spec("hidden", unlisted=True)
    offering(rig, *models, selectors={"best": best}, remotes={"box/far": far, "far": far})
    rows = (await rig.get("/api/tags")).json()["models"]

    assert [row["name"] for row in rows] == ["qwen:7b", "best:latest", "box/far:latest"]
    assert all((row["size"], row["details"]) == (0, NOTHING_KNOWN) for row in rows)
    assert {row["modified_at"] for row in rows} == {"2023-11-14T22:13:20.500000Z"}


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF" + b"\xff" * 60])
async def test_a_broken_file_is_a_model_of_which_nothing_is_known(
    rig: Management, tmp_path: Path, content: bytes
) -> None:
    """It is listed all the same, because it may be replaced before it is loaded."""
    known = of_file("tiny", tmp_path)
    (tmp_path / "tiny.gguf").write_bytes(content)
    offering(rig, known)
    [row] = (await rig.get("/api/tags")).json()["models"]

    assert (row["name"], row["size"], row["details"]) == ("tiny:latest", 0, NOTHING_KNOWN)


async def test_running_models(rig: Management, tmp_path: Path) -> None:
    """A row has the memory as it counts, the part on GPUs, the context, and when the model is unloaded."""
    on_gpu, in_ram = 3 << 30, 1 << 30
    memory = {Place(LOCAL_HOST, DeviceName("gpu0")): on_gpu, HOST_MEMORY: in_ram}
    known = of_file("tiny", tmp_path, ttl_s=300.0, estimated=memory)
    offering(rig, known, spec("idle"), budgets=dict.fromkeys(memory, 8 << 30))
    rig.contexts["tiny"] = 4096
    before = (await rig.get("/api/ps")).json()
    await rig.dispatcher.operator.load(ModelName("tiny"))
    [row] = (await rig.get("/api/ps")).json()["models"]
    left = datetime.fromisoformat(row.pop("expires_at")) - datetime.now(UTC)

    assert before == {"models": []}
    assert timedelta(seconds=200) < left <= timedelta(seconds=300)
    assert row == {
        "name": "tiny:latest",
        "model": "tiny:latest",
        "size": on_gpu + in_ram,
        "digest": row["digest"],
        "details": {**TINY, "parameter_size": "1.2M"},
        "size_vram": on_gpu,
        "context_length": 4096,
    }


async def test_a_running_model_without_an_end(rig: Management) -> None:
    """A model without ttl expires in a century, which clients show as never; nothing is known of its memory."""
    await rig.dispatcher.operator.load(ModelName("org/model"))
    [row] = (await rig.get("/api/ps")).json()["models"]

    assert datetime.fromisoformat(row["expires_at"]) > datetime.now(UTC) + timedelta(days=99 * 365)
    assert (row["name"], row["size"], row["size_vram"], row["context_length"]) == ("org/model:latest", 0, 0, 0)


async def test_a_key_for_some_models_is_shown_those(rig: Management) -> None:
    """Lists have only these, and the others cannot be described or loaded."""
    rig.accounts.open([ApiKey("sesame", models=("alpha",))])
    await rig.dispatcher.operator.load(ModelName("org/model"))
    tags, ps = await rig.get("/api/tags", headers=OF_ALPHA), await rig.get("/api/ps", headers=OF_ALPHA)
    show = await post(rig, "/api/show", {"model": "slow"}, **OF_ALPHA)
    load = await post(rig, "/api/generate", {"model": "slow"}, **OF_ALPHA)

    assert [row["name"] for row in tags.json()["models"]] == ["alpha:latest"]
    assert ps.json() == {"models": []}
    assert (show.status_code, load.status_code) == (403, 403)
    assert show.json() == {"error": 'this API key may not use the model "slow"; ask your administrator'}
    assert not rig.launcher.is_starting("slow")


# One model


async def test_a_model_is_described(rig: Management, tmp_path: Path) -> None:
    """The keys of its file, what it can do, and the context of its server."""
    known = of_file("tiny", tmp_path, capabilities=Capabilities(takes=("text", "image"), tools=True))
    offering(rig, known)
    rig.contexts["tiny"] = 4096
    shown = (await post(rig, "/api/show", {"model": "tiny:latest"})).json()
    info = shown.pop("model_info")

    assert shown == {
        "modelfile": "FROM tiny:latest\n",
        "parameters": "num_ctx                        4096",
        "template": "",
        "details": {**TINY, "parameter_size": "1.2M"},
        "capabilities": ["completion", "vision", "tools"],
        "modified_at": "2023-11-14T22:13:20.000000Z",
    }
    assert (info["general.architecture"], info["llama.context_length"]) == ("llama", 512)
    assert info["general.parameter_count"] > 1_000_000
    assert "tokenizer.ggml.tokens" not in info


@pytest.mark.parametrize("body", [{"model": "al"}, {"name": "alpha"}, {"model": "first:latest", "verbose": True}])
async def test_a_model_is_described_by_any_of_its_names(rig: Management, body: dict[str, Any]) -> None:
    """Under `model`, or under `name` as older clients say it; nothing is known of this one."""
    shown = await post(rig, "/api/show", body)

    assert (shown.status_code, shown.json()["capabilities"], shown.json()["model_info"]) == (200, ["completion"], {})


async def test_the_content_type_does_not_matter(rig: Management) -> None:
    """curl says that its JSON is a form."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    shown = await rig.client.post("/api/show", content=b'{"model": "alpha"}', headers=kind)

    assert shown.status_code == 200


@pytest.mark.parametrize("path", ["/api/show", "/api/chat", "/api/generate"])
async def test_an_unknown_model_is_404_in_ollamas_words(rig: Management, path: str) -> None:
    """Clients look for `not found`; the nearest name helps people."""
    answer = await post(rig, path, {"model": "alpah"})

    assert answer.status_code == 404
    assert answer.json() == {"error": "model 'alpah' not found. Did you mean \"alpha\"?"}


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b'{"model": 7}', b"[" * 60_000])
async def test_a_body_that_is_not_understood_is_400(rig: Management, body: bytes) -> None:
    """The error is in Ollama's form."""
    answer = await rig.client.post("/api/show", content=body)

    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]
    assert answer.json()["error"].startswith("the request body must be JSON with a `model`")


# Refusals


@pytest.mark.parametrize(
    ("method", "path", "advice"),
    [
        ("POST", "/api/pull", "run `hotseat pull ORG/REPO` in a terminal"),
        ("DELETE", "/api/delete", "run `hotseat rm MODEL` in a terminal"),
        ("POST", "/api/create", "add it under `models` in the configuration"),
        ("POST", "/api/copy", "add it to its `aliases` in the configuration"),
        ("POST", "/api/push", "upload the file with the hub's own tools"),
        ("POST", "/api/blobs/sha256:00", "Copy the file to this machine"),
    ],
)
async def test_models_are_not_changed_over_the_network(rig: Management, method: str, path: str, advice: str) -> None:
    """The refusal says what to do instead, in the form that Ollama's clients show."""
    answer = await rig.client.request(method, path, json={"model": "alpha"})

    assert answer.status_code == 501
    assert list(answer.json()) == ["error"]
    assert advice in answer.json()["error"]


async def test_no_client_is_made_to_upload_a_file(rig: Management) -> None:
    """404 would mean that the file is missing, and clients would then send gigabytes."""
    assert (await rig.client.head("/api/blobs/sha256:00")).status_code == 501


# Loads


async def test_a_request_without_a_prompt_loads_its_model(rig: Management) -> None:
    """The response comes when the model is ready."""
    answer = await post(rig, "/api/generate", {"model": "alpha:latest"})
    body = answer.json()
    created_at = datetime.fromisoformat(body.pop("created_at"))

    assert body == {"model": "alpha:latest", "response": "", "done": True, "done_reason": "load"}
    assert datetime.now(UTC) - created_at < timedelta(minutes=1)
    assert rig.dispatcher.questions.is_running(ModelName("alpha"))
    assert rig.dispatcher.views.of(ModelName("alpha")).in_flight == 0


async def test_a_chat_without_messages_loads_its_model(rig: Management) -> None:
    """The same with the fields of a chat."""
    body = (await post(rig, "/api/chat", {"model": "alpha", "messages": []})).json()

    assert (body["message"], body["done_reason"]) == ({"role": "assistant", "content": ""}, "load")
    assert "response" not in body


async def test_a_load_can_say_how_long_the_model_stays(rig: Management) -> None:
    """keep_alive counts in place of the configured ttl."""
    await post(rig, "/api/generate", {"model": "alpha", "keep_alive": "10m"})

    assert rig.dispatcher.views.of(ModelName("alpha")).ttl_s == 600


async def test_a_model_is_unloaded(rig: Management) -> None:
    """With keep_alive 0, nothing is loaded, and an idle model is stopped."""
    await rig.dispatcher.operator.load(ModelName("alpha"))
    answer = await post(rig, "/api/chat", {"model": "alpha", "keep_alive": 0})

    assert answer.json()["done_reason"] == "unload"
    assert not rig.dispatcher.questions.is_running(ModelName("alpha"))
    assert not rig.launcher.is_starting("org/model")


async def test_a_model_that_does_not_run_is_not_loaded_to_be_unloaded(rig: Management) -> None:
    """The response is the same."""
    answer = await post(rig, "/api/generate", {"model": "alpha", "keep_alive": "0s"})

    assert answer.json()["done_reason"] == "unload"
    assert rig.launcher.alive == []


async def test_a_failed_load_is_503_without_the_servers_output(rig: Management) -> None:
    """The error is in Ollama's form; output of servers may contain what others have sent."""
    answer = await post(rig, "/api/generate", {"model": "dud"})

    assert answer.status_code == 503
    assert list(answer.json()) == ["error"]
    assert "dud" in answer.json()["error"]


async def test_a_load_for_a_client_clears_no_failures(rig: Management) -> None:
    """A model that backs off is not started again and again by whoever may only use it."""
    for _ in range(2):
        await post(rig, "/api/generate", {"model": "dud"})
    refused = await post(rig, "/api/generate", {"model": "dud"})

    assert "is backing off" in refused.json()["error"]
    assert rig.dispatcher.views.of(ModelName("dud")).failures == 2


async def test_a_client_that_leaves_takes_its_ticket_along(rig: Management) -> None:
    """No request waits for the model any more."""
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(post(rig, "/api/generate", {"model": "slow"}))
        await come_true(lambda: rig.dispatcher.views.current().queue)
        loading.cancel()

    await come_true(lambda: not rig.dispatcher.views.current().queue)


@pytest.mark.parametrize("value", ["soon", [], {}])
async def test_a_misspelt_keep_alive_is_400(rig: Management, value: Any) -> None:
    """Nothing is loaded."""
    answer = await post(rig, "/api/generate", {"model": "alpha", "keep_alive": value})

    assert answer.status_code == 400
    assert "keep_alive" in answer.json()["error"]
    assert not rig.dispatcher.questions.is_running(ModelName("alpha"))


async def test_a_selector_loads_a_model_of_this_machine(rig: Management) -> None:
    """And none of a peer, although that is the first of its targets."""
    far = RemoteModel(ModelName("box/far"), "box", Address("10.0.0.1", 80), BodyChanges("far"))
    best = Selector("best", Strategy.WARM, ("far", "tiny"))
    offering(rig, spec("tiny"), selectors={"best": best}, remotes={"box/far": far, "far": far})
    loaded = await post(rig, "/api/generate", {"model": "best"})

    assert loaded.json()["done_reason"] == "load"
    assert rig.dispatcher.questions.is_running(ModelName("tiny"))


@pytest.mark.parametrize("model", ["box/far:latest", "far", "best"])
async def test_a_model_that_runs_elsewhere_is_not_loaded_from_here(rig: Management, model: str) -> None:
    """It is listed, so clients that load before they ask get no error; its own host decides when it is loaded."""
    far = RemoteModel(ModelName("box/far"), "box", Address("10.0.0.1", 80), BodyChanges("far"))
    best = Selector("best", Strategy.PIN, ("far",))
    offering(rig, spec("tiny"), selectors={"best": best}, remotes={"box/far": far, "far": far})
    loaded, unloaded = [await post(rig, "/api/generate", {"model": model, "keep_alive": said}) for said in ("5m", 0)]

    assert [answer.json().get("done_reason") for answer in (loaded, unloaded)] == ["load", "unload"]
    assert rig.launcher.alive == []


async def test_the_address_for_ollamas_clients_says_that_it_runs(rig: Management) -> None:
    """The relay leads only the bare address of that listener here."""
    answer = await rig.get("/api")

    assert (answer.text, answer.headers["content-type"]) == ("Ollama is running", "text/plain; charset=utf-8")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_bare_address_while_no_model_runs(rig: Management, method: str) -> None:
    """One line for people who look there, and for programs that only want to know whether somebody answers."""
    answer = await rig.client.request(method, "/idle")
    text = "hotseat is running, and no model is loaded. GET /v1/models lists the models.\n"

    assert (answer.status_code, answer.text) == (200, text if method == "GET" else "")
