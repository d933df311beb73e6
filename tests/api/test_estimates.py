"""The estimated memory of a model over the API."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench.estimates.shapes import Shape, write_zeros
from tests.support.fake_launcher import catalog, spec

from hotseat.scheduling.events import CatalogChanged

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.management import Management

SHAPE = Shape(layers=2, dim=256, ff=256, heads=4, kv_heads=4, vocab=512, context=512)


async def test_an_estimate_has_a_line_for_each_part(rig: Management, tmp_path: Path) -> None:
    """The lines add up to the sums, and secrets of the command line are left out, as in its file names."""
    known = spec("org/model")
    argv = ("llama-server", "-m", str(write_zeros(tmp_path / "hush.gguf", SHAPE)), "-c", "512", "--no-mmap")
    recipe = replace(known.recipe, argv=argv, secrets=("hush",))
    rig.dispatcher.tell(CatalogChanged(catalog(replace(known, recipe=recipe))))
    found = (await rig.get("/hotseat/models/org/model/estimate")).json()
    needed = sum(line["bytes"] for line in found["lines"] if line["backing"] != "read once")

    assert {line["kind"] for line in found["lines"]} >= {"weights", "kv", "compute", "overhead"}
    assert found["needed"] == {"device": 0, "host": needed}
    assert "hush" not in str(found)


async def test_an_estimate_that_is_not_possible_says_why(rig: Management) -> None:
    """The model is known, but its command is no known server."""
    answer = await rig.get("/hotseat/models/alpha/estimate")

    assert answer.status_code == 422
    assert "serve" in answer.json()["message"]


async def test_an_unknown_model_has_no_estimate(rig: Management) -> None:
    """As elsewhere, the answer is 404."""
    assert (await rig.get("/hotseat/models/nobody/estimate")).status_code == 404
