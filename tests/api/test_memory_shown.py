"""Memory over HTTP: what models count as, what devices have left, and models that yield."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import GIB, gpu, model, on_any, with_budget
from tests.support.management import Management, management
from tests.support.waiting import come_true

from hotseat.identifiers import LaunchId, ModelName
from hotseat.scheduling.events import DevicesChanged, MemoryMeasured

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

QWEN = ModelName("qwen")
GUESS = {gpu(0): 4 * GIB}
CATALOG = with_budget(model("qwen", estimated=GUESS), model("llama", gib=8), model("unknown"))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Management]:
    async with management(tmp_path / "socket", CATALOG) as rig:
        yield rig


async def test_every_figure_says_where_it_comes_from(rig: Management) -> None:
    """The source of a footprint is estimated, declared or unknown."""
    models = (await rig.get("/hotseat/models")).json()["models"]

    assert [each["footprint"] for each in models] == [
        {"reserved": {"gpu0": 4 * GIB}, "source": "estimated", "estimated": {"gpu0": 4 * GIB}, "measured": None},
        {"reserved": {"gpu0": 8 * GIB}, "source": "declared", "estimated": None, "measured": None},
        {"reserved": None, "source": "unknown", "estimated": None, "measured": None},
    ]


async def test_what_was_measured_is_shown_with_the_devices(rig: Management) -> None:
    """A measured footprint replaces the estimate; devices show budget, available and reserved memory."""
    await rig.dispatcher.operator.load(QWEN)
    rig.dispatcher.tell(MemoryMeasured(QWEN, LaunchId(1), {gpu(0): 5 * GIB}))
    rig.dispatcher.tell(DevicesChanged({gpu(0): 20 * GIB}))
    answer = (await rig.get("/hotseat/models")).json()

    assert answer["models"][0]["footprint"] == {
        "reserved": {"gpu0": 5 * GIB},
        "source": "measured",
        "estimated": {"gpu0": 4 * GIB},
        "measured": {"gpu0": 5 * GIB},
    }
    assert answer["devices"] == [{"device": "gpu0", "budget": 24 * GIB, "available": 20 * GIB, "reserved": 5 * GIB}]


async def test_the_feed_tells_what_was_measured(rig: Management) -> None:
    """The event of a measurement also has the estimate and the budgets, by device name."""
    await rig.dispatcher.operator.load(QWEN)
    measured = MemoryMeasured(QWEN, LaunchId(1), {gpu(0): 5 * GIB}, GUESS, CATALOG.budgets)
    rig.dispatcher.tell(measured)
    history = (await rig.get("/hotseat/models/qwen")).json()["history"]

    assert history[-1]["event"] == {
        "type": "MemoryMeasured",
        "model": "qwen",
        "launch": 1,
        "memory": {"gpu0": 5 * GIB},
        "estimated": {"gpu0": 4 * GIB},
        "budgets": {"gpu0": 24 * GIB},
    }


async def test_models_yield_memory_and_load_again(rig: Management) -> None:
    """During a yield a load gets 503 with Retry-After; after it, the model loads again."""
    await rig.dispatcher.operator.load(QWEN)
    made = await rig.client.post("/hotseat/yield")
    await come_true(lambda: not rig.dispatcher.views.current().running())
    refused = await rig.get("/upstream/qwen/load")
    shown = (await rig.get("/hotseat/models")).json()["yielding"]
    back = await rig.delete("/hotseat/yield")
    loaded = await rig.get("/upstream/qwen/load")

    assert made.json()["message"] == "all models are being unloaded"
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
    assert shown == "an operator needs the memory"
    assert back.json()["message"] == "models may load again"
    assert loaded.status_code == 200


async def test_one_device_is_yielded(rig: Management) -> None:
    """A yield of one device names it; an unknown device is 404 with the nearest name."""
    made = await rig.client.post("/hotseat/yield?device=gpu0")
    wrong = await rig.client.post("/hotseat/yield?device=gpu7")

    assert made.json()["message"] == "the models on gpu0 are being unloaded"
    assert (wrong.status_code, wrong.json()["error"]) == (
        404,
        'no device called "gpu7" has a budget. Did you mean "gpu0"?',
    )


async def test_a_model_on_chosen_cards_names_them(tmp_path: Path) -> None:
    """They are those of its current server: a model that does not run, or whose cards nobody chose, has none."""
    catalog = with_budget(on_any("wide", 40, 0, 1), on_any("small", 2, 0, 1), model("other", gib=1), gib={0: 24, 1: 24})
    async with management(tmp_path / "socket", catalog) as rig:
        for name in ("wide", "other"):
            await rig.dispatcher.operator.load(ModelName(name))
        models = (await rig.get("/hotseat/models")).json()["models"]

    assert {each["model"]: each["gpus"] for each in models} == {"wide": ["gpu0", "gpu1"], "small": [], "other": []}
