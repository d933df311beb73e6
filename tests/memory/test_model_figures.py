"""The memory that each model counts as, from its files, its command and measurements."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from bench.estimates.shapes import Shape, write_zeros
from tests.support.machines import Pool
from tests.support.waiting import eventually

from hotseat.catalog.catalog import Catalog
from hotseat.catalog.groups import TOGETHER, Groups
from hotseat.catalog.spec import Footprint, GpuChoice, LaunchRecipe, ModelSpec, Source
from hotseat.estimates.report import DRIVER, Backing, CannotEstimate, Estimate, Kind, Line, Where
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, RAM, DeviceName, LaunchId, ModelName, Place
from hotseat.memory import model_figures
from hotseat.memory.machine import Machine
from hotseat.memory.measurement import Use
from hotseat.memory.model_figures import Figures, Footprints, Placing, is_unified, key_of, needed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MiB, GiB = 1 << 20, 1 << 30
GPU = DeviceName("gpu0")
CARD, MEMORY = Place(LOCAL_HOST, GPU), Place(LOCAL_HOST, RAM)
SECOND, THIRD = DeviceName("gpu1"), DeviceName("gpu2")
CARDS = (CARD, Place(LOCAL_HOST, SECOND), Place(LOCAL_HOST, THIRD))
ANY = GpuChoice(None, CARDS)
QWEN = ModelName("qwen")
SHAPE = Shape(layers=2, dim=256, ff=256, heads=4, kv_heads=4, vocab=512, context=512)


class Memory:
    """A store in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def recall(self) -> Mapping[str, Any]:
        return self.kept

    def keep(self, key: str, fact: Any) -> None:
        self.kept[key] = fact


def catalog(argv: tuple[str, ...], *places: Place, **known: Any) -> Catalog:
    spec = ModelSpec(QWEN, LaunchRecipe(argv, "http://localhost:1"), **known)
    return Catalog({QWEN: spec}, Groups(default=TOGETHER), dict.fromkeys(places or (MEMORY,), 8 * GiB))


def figures(footprints: Footprints | None = None, **devices: Pool) -> Figures:
    found = {DeviceName(name): pool for name, pool in (devices or {"ram": Pool()}).items()}
    return Figures(footprints or Footprints(Memory()), {}, lambda: Machine(found))


def filled(rig: Catalog, by: Figures | None = None) -> Footprint | None:
    by = by or figures()
    full = by.fill(rig)
    return full.models[QWEN].footprint(by.measured(full).get(QWEN))


@pytest.fixture
def server(tmp_path: Path) -> tuple[str, ...]:
    """The command of a model of about a megabyte."""
    return ("llama-server", "-m", str(write_zeros(tmp_path / "model.gguf", SHAPE)), "-c", "512", "--no-mmap")


def test_a_model_whose_disk_does_not_answer(server: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A start goes on without its estimate, and whoever asks for it gets the reason."""
    stuck, by, rig = threading.Event(), figures(), catalog(server)
    monkeypatch.setattr(model_figures, "LOOK_S", 0.01)
    monkeypatch.setattr("hotseat.memory.model_figures.os.stat", lambda _: stuck.wait())
    filled_late = filled(rig, by)
    with pytest.raises(CannotEstimate, match="does not respond"):
        by.explain(rig.models[QWEN], rig.budgets)
    monkeypatch.undo()
    stuck.set()

    assert filled_late is None
    assert eventually(lambda: filled(rig, by))


def test_a_model_without_a_figure_is_estimated(server: tuple[str, ...]) -> None:
    """Its file and its command give the estimate, and on a machine without a card it is all in RAM."""
    found = filled(catalog(server))

    assert found is not None
    assert found.source is Source.ESTIMATED
    assert list(found.memory) == [MEMORY]
    assert found.memory[MEMORY] > MiB


def test_on_a_machine_with_a_card_the_weights_go_there(server: tuple[str, ...]) -> None:
    """A llama-server uses a card wherever there is one."""
    found = filled(catalog(server, CARD, MEMORY), figures(gpu0=Pool(), ram=Pool()))

    assert found is not None
    assert found.memory[CARD] > MiB
    assert found.memory[MEMORY] > 0


def test_a_declared_figure_is_left_alone(server: tuple[str, ...]) -> None:
    """The estimate is shown beside it, and changes nothing."""
    spec = figures().fill(catalog(server, memory={MEMORY: GiB})).models[QWEN]

    assert spec.footprint({MEMORY: 2 * GiB}) == Footprint({MEMORY: GiB}, Source.DECLARED)
    assert spec.estimated is not None
    assert MiB < spec.estimated[MEMORY] < GiB


def test_without_budgets_nothing_is_looked_at() -> None:
    """Where memory decides nothing, no driver is queried and no file is read."""

    def machine() -> Machine:
        raise AssertionError("nobody should look for devices")

    rig = Catalog({})

    by = Figures(Footprints(Memory()), {}, machine)

    assert by.fill(rig) is rig
    assert by.measured(rig) == {}


def test_what_was_measured_goes_before_the_estimate(server: tuple[str, ...]) -> None:
    """An earlier launch of the same command has been measured."""
    footprints = Footprints(Memory())
    rig = catalog(server)
    footprints.note(key_of(rig.models[QWEN].recipe), LaunchId(1), {RAM: Use(3 * GiB, GiB), GPU: Use(GiB)})
    by = figures(footprints)
    spec = by.fill(rig).models[QWEN]

    assert filled(rig, by) == Footprint({MEMORY: 4 * GiB}, Source.MEASURED)
    assert spec.estimated is not None
    assert spec.estimated[MEMORY] < GiB


def test_a_server_that_nobody_knows_has_no_figure() -> None:
    """It takes a whole device."""
    assert filled(catalog(("serve", "qwen"))) is None


def test_a_file_that_changed_is_estimated_again(server: tuple[str, ...], tmp_path: Path) -> None:
    """An estimate is kept for as long as the file is the same."""
    rig, by = catalog(server), figures()
    before = filled(rig, by)
    again = filled(rig, by)
    write_zeros(tmp_path / "model.gguf", Shape(layers=8, dim=256, ff=256, heads=4, kv_heads=4, vocab=512, context=512))
    after = filled(rig, by)

    assert before == again
    assert before is not None
    assert after is not None
    assert after.memory[MEMORY] > before.memory[MEMORY]


def test_a_file_that_breaks_the_reader_costs_only_the_figure(
    server: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """hotseat starts all the same, and the log names the model."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("hotseat.estimates.estimate.estimate", broken)

    assert filled(catalog(server)) is None
    assert "memory could not be estimated model=qwen" in caplog.text


def test_pages_that_were_only_read_to_load_are_not_counted() -> None:
    """The kernel may reclaim them, and they are never needed again."""
    assert needed(Use(100, 80), read_once=70) == 110
    assert needed(Use(100, 80), read_once=90) == 100


def guess(host: int, device: int, share: float | None = None) -> Estimate:
    lines = (
        Line("weights", device, Kind.WEIGHTS, Where.DEVICE),
        Line("buffers", host, Kind.COMPUTE, Where.HOST),
        Line("file", 7, Kind.WEIGHTS, Where.HOST, Backing.READ_ONCE),
    )
    return Estimate(lines, device_share=share)


def test_parts_lie_where_there_is_a_budget() -> None:
    """Parts on places without a budget do not count."""
    budgets = {CARD: 10, MEMORY: 10}

    assert Placing(budgets, {}).of(guess(1, 5)) == {CARD: 5, MEMORY: 1}
    assert Placing({CARD: 10}, {}).of(guess(1, 5)) == {CARD: 5}
    assert Placing({MEMORY: 10}, {}).of(guess(1, 5)) == {MEMORY: 1}


def test_a_gpu_that_works_in_the_ram_holds_both_parts() -> None:
    """One budget covers the same bytes."""
    assert Placing({CARD: 10}, {}, is_unified=True).of(guess(1, 5)) == {CARD: 6}
    assert is_unified({CARD: 10}, {GPU})
    assert not is_unified({CARD: 10, MEMORY: 5}, {GPU})


def test_a_server_that_takes_a_part_of_the_card() -> None:
    """The share is of the whole card, not of the budget."""
    assert Placing({CARD: 100}, {CARD: 200}).of(guess(0, 5, share=0.9)) == {CARD: 180}
    assert Placing({CARD: 100}, {}).of(guess(0, 5, share=0.9)) == {CARD: 90}


# Models whose cards are chosen when they start


def test_an_estimate_is_for_whatever_card_the_model_gets(server: tuple[str, ...]) -> None:
    """The part on cards is on none in particular, and a further card costs its buffers and the driver."""
    machine = figures(gpu0=Pool(), gpu1=Pool(), gpu2=Pool(), ram=Pool())
    chosen = machine.fill(catalog(server, *CARDS, MEMORY, gpus=ANY)).models[QWEN]
    fixed = machine.fill(catalog(server, *CARDS, MEMORY)).models[QWEN]

    assert chosen.estimated is not None
    assert fixed.estimated is not None
    assert list(chosen.estimated) == [ANY_GPU, MEMORY]
    assert chosen.estimated[ANY_GPU] == fixed.estimated[CARD]
    assert DRIVER < chosen.per_gpu < DRIVER + chosen.estimated[ANY_GPU]
    assert fixed.per_gpu == 0


def test_what_was_measured_on_other_cards_counts(server: tuple[str, ...]) -> None:
    """Each launch is added up over its cards before the highest counts: two launches on two cards are not one."""
    footprints = Footprints(Memory())
    rig = catalog(server, *CARDS, MEMORY, gpus=ANY)
    key = key_of(rig.models[QWEN].recipe)
    footprints.note(key, LaunchId(1), {GPU: Use(5 * GiB), RAM: Use(GiB)})
    footprints.note(key, LaunchId(2), {SECOND: Use(2 * GiB), THIRD: Use(4 * GiB), RAM: Use(2 * GiB)})
    found = filled(rig, figures(footprints, gpu0=Pool(), gpu1=Pool(), gpu2=Pool(), ram=Pool()))

    assert found == Footprint({ANY_GPU: 6 * GiB, MEMORY: 2 * GiB}, Source.MEASURED)


def test_a_card_without_a_budget_does_not_count(server: tuple[str, ...]) -> None:
    """As for a model with fixed cards."""
    footprints = Footprints(Memory())
    rig = catalog(server, CARD, gpus=GpuChoice(None, (CARD,)))
    footprints.note(key_of(rig.models[QWEN].recipe), LaunchId(1), {GPU: Use(5 * GiB), SECOND: Use(GiB), RAM: Use(GiB)})

    assert filled(rig, figures(footprints, gpu0=Pool(), ram=Pool())) == Footprint({ANY_GPU: 5 * GiB}, Source.MEASURED)


def test_declared_cards_are_not_added_up(server: tuple[str, ...]) -> None:
    """`gpus` may name the same devices as `memory`; the estimate stays on the device."""
    rig = catalog(server, *CARDS, MEMORY, gpus=GpuChoice(1, (CARD,)), memory={CARD: GiB})
    spec = figures(gpu0=Pool(), gpu1=Pool(), gpu2=Pool(), ram=Pool()).fill(rig).models[QWEN]

    assert spec.footprint(None) == Footprint({CARD: GiB}, Source.DECLARED)
    assert spec.estimated is not None
    assert list(spec.estimated) == [CARD, MEMORY]


@pytest.mark.parametrize(("count", "taken"), [(1, 90), (2, 135)])
def test_a_server_that_takes_a_part_of_each_card(count: int, taken: int) -> None:
    """Which cards it gets is not known, so the largest count."""
    placing = Placing(dict.fromkeys(CARDS, 40), dict(zip(CARDS, (50, 100, 20), strict=True)))

    assert placing.of(guess(0, 5, share=0.9), GpuChoice(count, CARDS)) == {ANY_GPU: taken}
    assert guess(0, 5, share=0.9).per_further_device == 0
    assert guess(1, 0).per_further_device == 0
