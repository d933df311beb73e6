"""Hosts that define one model differently say so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fake_launcher import catalog, spec
from tests.support.fleet import GIB, GPU, QWEN, RosterRig, fleet_catalog, host, offer
from tests.support.fleet_in_process import in_process_fleet
from tests.support.waiting import come_true

from hotseat.catalog.spec import LaunchRecipe, Replicas
from hotseat.fleet.drift import MOST_LINES, WINDOW_S, Drifts, differing, drifts
from hotseat.fleet.recipe_fingerprint import recipe_fingerprint
from hotseat.fleet.records import Offer
from hotseat.fleet.store import Bucket
from hotseat.scheduling.events import CatalogChanged

if TYPE_CHECKING:
    from hotseat.catalog.spec import ModelSpec

PLAIN = spec("qwen", memory={})
RECIPE = LaunchRecipe(("llama-server", "--api-key", "hush-hush"), "http://127.0.0.1:${PORT}", env=(("A", "1"),))


# In a fleet


def with_command(*argv: str) -> ModelSpec:
    return replace(PLAIN, recipe=replace(PLAIN.recipe, argv=argv))


def drift_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "is defined differently" in record.getMessage()]


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (with_command("serve", "--other"), "command: "),
        (replace(PLAIN, aliases=("q",)), "aliases: "),
        (replace(PLAIN, replicas=Replicas(1, 2)), "replicas.min: 0, replicas.max: 1"),
        (replace(PLAIN, host_labels={"gpu": "h100"}), "hosts: {}"),
    ],
)
async def test_two_definitions_of_a_model_are_logged_on_both_hosts(
    other: ModelSpec, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of the two names both hosts, the model, and both values of each key that differs."""
    async with in_process_fleet("a", "b", models=lambda name: [PLAIN if name == "a" else other, spec("llama")]):
        await come_true(lambda: len(drift_lines(caplog)) == 2)
    here, there = sorted(drift_lines(caplog))

    assert "model=qwen host=a other_host=b" in here
    assert "model=qwen host=b other_host=a" in there
    assert f"ours='{shown}" in here.replace('"', "'")
    assert f"theirs='{shown}" in there.replace('"', "'")


async def test_a_command_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the log nor the catalog that others read has a word of a command."""
    other = with_command("serve", "--api-key", "hush-hush")
    async with in_process_fleet("a", "b", models=lambda name: [PLAIN if name == "a" else other]) as fleet:
        await come_true(lambda: len(drift_lines(caplog)) == 2)
        stored = [written.value for written in fleet.board.current(Bucket.CATALOGS).values()]

    assert len(stored) == 2
    assert b"hush-hush" not in b"".join(stored)
    assert "hush-hush" not in caplog.text


async def test_a_difference_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A reload that leaves a difference as it was does not repeat it; another definition is another difference."""
    first, second = with_command("serve", "--first"), with_command("serve", "--second")
    async with in_process_fleet("a", "b", models=lambda name: [PLAIN if name == "a" else first]) as fleet:
        b = fleet["b"].dispatcher
        await come_true(lambda: len(drift_lines(caplog)) == 2)
        b.tell(CatalogChanged(catalog(first, spec("llama"))))
        await come_true(lambda: "llama" in fleet["a"].dispatcher.catalog.fleet_models)
        b.tell(CatalogChanged(catalog(second, spec("gemma"))))
        await come_true(lambda: "gemma" in fleet["a"].dispatcher.catalog.fleet_models)
        await come_true(lambda: len(drift_lines(caplog)) == 4)


async def test_hosts_with_one_configuration_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Different models are no difference, and neither are equal definitions."""
    async with in_process_fleet("a", "b", models=lambda name: [PLAIN, spec(f"only-{name}")]) as fleet:
        await come_true(lambda: "only-b" in fleet["a"].dispatcher.catalog.fleet_models)

    assert drift_lines(caplog) == []


# Limits


def test_many_differences_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    """At most twenty lines an hour are logged, however many models differ."""
    now = 0.0
    names = [f"model-{n:02}" for n in range(MOST_LINES + 5)]
    rig = RosterRig(catalog=fleet_catalog(*names)).hosts(host("here"))
    seen = Drifts(clock=lambda: now)
    rig.write(Bucket.CATALOGS, "other", fleet_catalog(**{name: offer(most=2) for name in names}))
    seen.look(rig.hosts(host("there", catalog="other")).roster)
    at_first = len(drift_lines(caplog))
    now = WINDOW_S
    rig.write(Bucket.CATALOGS, "third", fleet_catalog(**{names[0]: offer(most=3)}))
    seen.look(rig.hosts(host("there", catalog="third")).roster)

    assert at_first == MOST_LINES
    assert len(drift_lines(caplog)) == MOST_LINES + 1


def test_old_differences_are_forgotten_when_there_are_too_many(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered is bounded, so a difference may be logged again."""
    monkeypatch.setattr("hotseat.fleet.drift.MOST_REMEMBERED", 1)
    rig, seen = RosterRig().hosts(host("here")), Drifts()
    rig.write(Bucket.CATALOGS, "two", fleet_catalog(qwen=offer(most=2)))
    rig.write(Bucket.CATALOGS, "three", fleet_catalog(qwen=offer(most=3)))
    for digest in ("two", "three", "two"):
        seen.look(rig.hosts(host("there", catalog=digest)).roster)

    assert len(drift_lines(caplog)) == 3


# What counts as a difference


@pytest.mark.parametrize(
    ("other", "keys"),
    [
        ({"most": 2}, ["replicas.max"]),
        ({"aliases": ["b", "a"]}, []),
        ({"aliases": ["a"]}, ["aliases"]),
        ({"memory": {GPU: GIB}}, ["memory"]),
        ({"memory": {GPU: GIB}, "is_estimate": True}, ["memory"]),
        ({"gpus": 2}, ["gpus"]),
        ({"load_s": 99.0}, []),
        ({"recipe": "other"}, ["command"]),
    ],
)
def test_keys_that_differ(other: dict[str, Any], keys: list[str]) -> None:
    """The order of aliases and load times do not count."""
    plain: dict[str, Any] = {"memory": {GPU: 8 * GIB}, "aliases": ["a", "b"], "recipe": "one"}

    assert differing(Offer(**plain), Offer(**plain | other)) == keys


def test_estimates_of_different_machines_are_no_difference() -> None:
    """An estimate depends on the devices of a host."""
    ours, theirs = (Offer(memory={GPU: size}, is_estimate=True) for size in (8 * GIB, 9 * GIB))

    assert list(drifts({QWEN: ours}, {QWEN: theirs})) == []


# The fingerprint of a command


@pytest.mark.parametrize(
    "other",
    [
        {"argv": ("llama-server",)},
        {"proxy": "http://127.0.0.1:1"},
        {"stop": ("kill", "${PID}")},
        {"env": (("A", "2"),)},
        {"check_endpoint": None},
    ],
)
def test_another_recipe_has_another_fingerprint(other: dict[str, Any]) -> None:
    """The command, its variables and how its server is reached and stopped count."""
    assert recipe_fingerprint(replace(RECIPE, **other)) != recipe_fingerprint(RECIPE)


def test_values_of_the_environment_do_not_count() -> None:
    """Hosts may have different ones, and nobody can guess them from it; nor does an assigned port count."""
    here = replace(RECIPE, secrets=("hush-hush",), preferred_port=5800)
    there = replace(RECIPE, argv=("llama-server", "--api-key", 'quo"ted-word'), secrets=('quo"ted-word',))

    assert recipe_fingerprint(here) == recipe_fingerprint(there) != recipe_fingerprint(RECIPE)
