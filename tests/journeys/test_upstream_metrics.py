"""The metrics of real llama-servers on one page, and models that are unloaded in spite of a scraper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.llama import llama
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama

SIDE_BY_SIDE = {"all": {"swap": False, "exclusive": False, "members": ["alpha", "beta", "plain"]}}


def scraped(rig: Hotseat) -> dict[str, dict[str, float]]:
    """The values of each metric by model; no sample has another label."""
    answer = rig.call("GET", "/metrics/upstreams")
    assert answer.status == 200, answer
    families = text_string_to_metric_families(answer.body.decode())
    samples = [sample for family in families for sample in family.samples]
    assert {label for sample in samples for label in sample.labels} <= {"model"}
    found: dict[str, dict[str, float]] = {}
    for sample in samples:
        found.setdefault(sample.name, {})[sample.labels["model"]] = sample.value
    return found


def test_the_metrics_of_two_models_are_on_one_page(serve: Callable[..., Hotseat]) -> None:
    """Each sample has its model; a key of the server is sent to it, and a server without metrics is reported."""
    models = {
        "alpha": llama("alpha", "--metrics --api-key sesame"),
        "beta": llama("beta", "--metrics"),
        "plain": llama("alpha"),
    }
    rig = serve(models, groups=SIDE_BY_SIDE)
    for model in models:
        rig.load(model)
    assert rig.chat("beta", max_tokens=3).status == 200

    assert scraped(rig)["hotseat_upstream_up"] == {"alpha": 1, "beta": 1, "plain": 0}
    eventually(lambda: scraped(rig)["llamacpp:tokens_predicted_total"] == {"alpha": 0, "beta": 3})


def test_a_model_is_unloaded_while_it_is_scraped(serve: Callable[..., Hotseat]) -> None:
    """A scrape does not count as use: the ttl of an idle model goes on, and nothing loads it again."""
    rig = serve({"alpha": llama("alpha", "--metrics", ttl=1)})

    def was_unloaded_between_scrapes() -> bool:
        assert rig.call("GET", "/upstream/alpha/load").status == 200
        pages = [scraped(rig)]
        while rig.running():
            pages.append(scraped(rig))
        assert eventually(lambda: scraped(rig) == {})
        return pages[0].get("hotseat_upstream_up") == {"alpha": 1}  # else the machine was too slow for the ttl

    assert eventually(was_unloaded_between_scrapes)
    assert rig.running() == []
    assert rig.health() == {}
