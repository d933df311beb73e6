"""What each host of a fleet can do for a model."""

from __future__ import annotations

from tests.support.fleet import GIB, GPU, QWEN, RosterRig, fleet_catalog, host, offer, there

from hotseat.fleet.model_outlook import outlooks
from hotseat.fleet.placement import Obstacle
from hotseat.fleet.records import DeviceBudget
from hotseat.fleet.store import Bucket
from hotseat.identifiers import ModelName


def obstacles(rig: RosterRig, model: ModelName = QWEN) -> dict[str, Obstacle | None]:
    return {each.host: each.obstacle for each in outlooks(rig.roster, model, rig.now)}


def test_what_prevents_a_load_on_each_host() -> None:
    """A host with free memory and one that can unload a model have no obstacle."""
    rig = RosterRig().hosts(
        host("here"),
        host("cordoned"),
        host("full", there("llama", gib=20, pinned=True)),
        host("small", gib=4),
        host("taken", devices={GPU: DeviceBudget(24 * GIB, 2 * GIB)}),
        host("idle", there("llama", gib=20)),
        host("without", missing_files={"qwen": "/srv/qwen.gguf"}),
    )
    rig.order("cordoned", cordoned=True)

    assert obstacles(rig) == {
        "cordoned": Obstacle.CORDONED,
        "full": Obstacle.NO_MEMORY,
        "here": None,
        "idle": None,
        "small": Obstacle.TOO_SMALL,
        "taken": Obstacle.OTHER_PROGRAMS,
        "without": Obstacle.MISSING_FILE,
    }
    assert [each.explanation for each in outlooks(rig.roster, QWEN, rig.now)][-3:] == [
        "too small for it (it needs 8 GiB on gpu0)",
        "short of memory that other programs use",
        "missing its file (/srv/qwen.gguf)",
    ]


def test_an_estimate_is_no_obstacle() -> None:
    """The model may be tried alone there."""
    rig = RosterRig(catalog=fleet_catalog(qwen=offer(20, is_estimate=True)))
    rig.hosts(host("here", gib=4), host("full", there("llama", gib=8, pinned=True)))

    assert obstacles(rig) == {"full": None, "here": None}


def test_a_host_that_has_the_model_needs_no_place_for_it() -> None:
    """Cordoned, it still serves it; drained, it gets no requests."""
    rig = RosterRig().hosts(host("here"), host("b", there("qwen", gib=24)), host("c", there("qwen", gib=24)))
    rig.order("b", cordoned=True).order("c", drained=True)

    assert obstacles(rig) == {"here": None, "b": None, "c": Obstacle.DRAINED}


def test_a_host_without_the_model() -> None:
    """It has no obstacle, because nothing would be placed there; a model that a reload removed has a phase."""
    rig = RosterRig()
    rig.write(Bucket.CATALOGS, "other", fleet_catalog("llama"))
    rig.hosts(host("here"), host("b", catalog="other"), host("c", there("qwen"), catalog="other"))
    found = {each.host: (each.is_configured, each.phase, each.obstacle) for each in outlooks(rig.roster, QWEN, rig.now)}

    assert found == {"here": (True, None, None), "b": (False, None, None), "c": (False, "ready", None)}


def test_definitions_are_compared_with_this_host() -> None:
    """Of a model that this host does not have, they are compared with the first host that has it."""
    rig = RosterRig(catalog=fleet_catalog("llama"))
    rig.write(Bucket.CATALOGS, "one", fleet_catalog(qwen=offer(8), llama=offer(9)))
    rig.write(Bucket.CATALOGS, "two", fleet_catalog(qwen=offer(7)))
    rig.hosts(host("here"), host("b", catalog="one"), host("c", catalog="two"))
    llama = {str(each.host): each for each in outlooks(rig.roster, ModelName("llama"), rig.now)}
    qwen = {str(each.host): each for each in outlooks(rig.roster, QWEN, rig.now)}

    assert {name for name, each in llama.items() if each.drift} == {"b"}
    assert llama["b"].compared_with == "here"
    assert {name for name, each in qwen.items() if each.drift} == {"c"}
    assert qwen["c"].compared_with == "b"


def test_a_model_of_nobody() -> None:
    """No host has it, and there is nothing to compare."""
    rig = RosterRig().hosts(host("here"), host("b"))

    assert [each.is_configured for each in outlooks(rig.roster, ModelName("nobody"), rig.now)] == [False, False]
