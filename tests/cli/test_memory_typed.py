"""Memory on the command line: ps, check and yield."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import gpu, model, with_budget

from hotseat.cli.queries import memory_in_words
from hotseat.config.load import read
from hotseat.identifiers import ModelName
from hotseat.memory.manager import SECTION
from hotseat.memory.model_figures import key_of
from hotseat.scheduling.events import CatalogChanged, DevicesChanged
from hotseat.simulation.trace import Model, Trace, write
from hotseat.state.learned_store import LEARNED, LearnedStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import CommandLine, Typed

GiB = 1 << 30


KNOWN = {"estimated": {"gpu0": 3 * GiB}, "measured": {"gpu0": 5 * GiB}}
UNKNOWN = {"estimated": None, "measured": None}


@pytest.mark.parametrize(
    ("footprint", "words"),
    [
        (None, ""),
        ({"reserved": None, "source": "unknown", **UNKNOWN}, "a whole device"),
        ({"reserved": {}, "source": "measured", **UNKNOWN}, "none (measured)"),
        (
            {"reserved": {"gpu0": 4 * GiB, "ram": GiB}, "source": "estimated", **UNKNOWN},
            "gpu0 4.0 GiB (estimated), ram 1.0 GiB (estimated)",
        ),
        (
            {"reserved": {"gpu0": 5 * GiB}, "source": "measured", **KNOWN},
            "gpu0 5.0 GiB (measured, estimated 3.0 GiB)",
        ),
        (
            {"reserved": {"gpu0": 8 * GiB}, "source": "declared", **KNOWN},
            "gpu0 8.0 GiB (declared, estimated 3.0 GiB, measured 5.0 GiB)",
        ),
    ],
)
def test_ps_shows_the_memory_reserved_for_a_model(footprint: dict[str, object] | None, words: str) -> None:
    """The text has the source of the figure, and the other figures."""
    assert memory_in_words(footprint) == words


async def test_ps_says_what_the_devices_have(command_line: CommandLine) -> None:
    """The budget, what other programs leave of it, and what the models take; and for whom models yield."""
    command_line.rig.dispatcher.tell(CatalogChanged(with_budget(model("qwen", gib=8))))
    command_line.rig.dispatcher.tell(DevicesChanged({gpu(0): 20 * GiB}))
    await command_line.type("load", "qwen")
    shown = await command_line.type("ps")
    await command_line.type("yield")
    without = await command_line.type("ps")

    assert "gpu0 8.0 GiB (declared)" in shown.out
    assert [" ".join(line.split()) for line in shown.out.splitlines()[-2:]] == [
        "DEVICE BUDGET FOR MODELS RESERVED",
        "gpu0 24.0 GiB 20.0 GiB 8.0 GiB",
    ]
    assert without.out.endswith("\nmemory is yielded: an operator needs the memory\n")


async def test_models_yield_memory_until_somebody_resumes(command_line: CommandLine) -> None:
    """Each of the two commands prints one sentence."""
    await command_line.type("load", "qwen")
    made, refused, back = [
        await command_line.type(*words) for words in (("yield",), ("load", "qwen"), ("yield", "--resume"))
    ]

    assert made.out == "all models are being unloaded\n"
    assert "no model can be loaded right now: an operator needs the memory" in refused.err
    assert back.out == "models may load again\n"


async def test_resuming_is_for_all_devices(command_line: CommandLine) -> None:
    """A device together with --resume is an error."""
    said = await command_line.type("yield", "--resume", "--device", "gpu0")

    assert said.code == 2
    assert "omit --device" in said.err


def test_check_says_what_models_count_as(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures are those of a hotseat started here and now."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    config = tmp_path / "config.yaml"
    models = "{small: {cmd: 'serve ${PORT}', memory: 2GiB}, other: {cmd: 'serve ${PORT}'}}"
    config.write_text(f"devices: {{ram: {{memory: 8GiB}}}}\nmodels: {models}\n")
    said = typed("check", str(config))

    assert "small counts as 2 GiB of ram (declared)." in said.out
    assert "other counts as a whole device, because its memory is neither declared nor known." in said.out


def test_what_an_earlier_run_measured_counts(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In `check` and in a simulation of another configuration, as after a start."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    config, trace = tmp_path / "config.yaml", tmp_path / "trace.jsonl"
    config.write_text("devices: {ram: {memory: 8GiB}}\nmodels: {small: {cmd: 'serve ${PORT}'}}\n")
    key = key_of(read([config], environ={}).catalog.models[ModelName("small")].recipe)
    section = LearnedStore(tmp_path / LEARNED).section(SECTION)
    section.keep(key, {"lives": [{"ram": {"anonymous": 3 * GiB}}]})
    trace.write_text(write(Trace((Model("small", 1.0),), ())))
    checked = typed("check", str(config))
    simulated = typed("simulate", str(trace), "--config", str(config), "--memory", "ram=9GiB")

    assert "small counts as 3 GiB of ram (measured)." in checked.out
    assert (simulated.code, simulated.err) == (0, "")


def test_auto_takes_what_this_machine_has(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every machine has at least its RAM."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    config = tmp_path / "config.yaml"
    config.write_text("devices: auto\nmodels: {small: {cmd: 'serve ${PORT}', memory: {ram: 1MiB}}}\n")
    said = typed("check", str(config))

    assert said.code == 0
    assert "run together as long as they fit into" in said.out
    assert "small counts as 1 MiB of ram (declared)." in said.out


@pytest.mark.parametrize(
    ("reserved", "gpus", "shown"),
    [
        ({"gpus": 40 << 30, "ram": 1 << 30}, ["gpu0", "gpu1"], "gpu0+gpu1 40.0 GiB (declared), ram 1.0 GiB (declared)"),
        ({"gpus": 40 << 30}, [], "gpus 40.0 GiB (declared)"),
        (None, ["gpu1"], "all of gpu1"),
        (None, [], "a whole device"),
        ({"gpu1": 2 << 30}, ["gpu1"], "gpu1 2.0 GiB (declared)"),
    ],
)
def test_the_memory_of_a_model_names_its_cards(reserved: dict[str, int] | None, gpus: list[str], shown: str) -> None:
    """Those that were chosen for it, if it runs."""
    footprint = {"reserved": reserved, "source": "declared", "estimated": None, "measured": None}

    assert memory_in_words(footprint, gpus) == shown
