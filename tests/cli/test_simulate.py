"""`hotseat simulate` on the command line."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from scripts.make_docs import DOCS, MACHINES

from hotseat.cli import simulate
from hotseat.identifiers import LOCAL_HOST, DeviceName, Place
from hotseat.simulation.trace import Closed, Job, Memory, Model, Pool, Prompt, Step, Trace, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import Typed

MODELS = tuple(Model(name, load=10.0, slots=4, size=20.0) for name in ("qwen", "gemma"))
AGENTS = tuple(Closed(name, tuple(Step(0.5, name, 2.0) for _ in range(10))) for name in ("qwen", "gemma"))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two agents on a model each, and memory for one."""
    file = tmp_path / "monday.jsonl"
    file.write_text(write(Trace(MODELS, AGENTS, Memory({"gpu0": 24.0}))))
    return file


def cells(text: str, row: str) -> list[str]:
    return next(line.removeprefix(row).split() for line in text.splitlines() if line.startswith(row))


def test_more_memory_is_answered_side_by_side(typed: Typed, trace: Path) -> None:
    """With memory for both there are two loads, and every request is served sooner."""
    said = typed("simulate", str(trace), "--memory", "48GiB")
    mean, mean_with_more = map(float, cells(said.out, "mean latency, s"))

    assert said.code == 0
    assert said.out.splitlines()[0].split() == ["unchanged", "memory", "48GiB"]
    assert cells(said.out, "requests served") == ["20", "20"]
    assert cells(said.out, "loads")[1] == "2"
    assert mean_with_more < mean


def test_a_trace_by_itself_is_one_column(typed: Typed, trace: Path) -> None:
    """Without a change there is nothing to compare."""
    said = typed("simulate", str(trace))

    assert cells(said.out, "requests served") == ["20"]


def test_programs_get_every_figure(typed: Typed, trace: Path) -> None:
    """The JSON names both configurations and has the unrounded figures."""
    report = json.loads(typed("simulate", str(trace), "--memory", "48GiB", "--json").out)

    assert list(report) == ["unchanged", "memory 48GiB"]
    assert report["unchanged"]["served"] == 20


def test_the_timeline_is_drawn(typed: Typed, trace: Path, tmp_path: Path) -> None:
    """Both configurations are in one chart."""
    typed("simulate", str(trace), "--memory", "gpu0=48GiB", "--svg", str(tmp_path / "monday.svg"))
    drawn = ElementTree.parse(tmp_path / "monday.svg").getroot()

    assert "memory gpu0=48GiB: 2 loads, 20 requests." in (drawn.findtext("{http://www.w3.org/2000/svg}desc") or "")


def test_another_configuration_is_played_to(typed: Typed, trace: Path, tmp_path: Path) -> None:
    """A group that lets both run is as good as memory for both."""
    config = tmp_path / "both.yaml"
    config.write_text(
        'models:\n  qwen: {cmd: "serve --port ${PORT}"}\n  gemma: {cmd: "serve --port ${PORT}"}\n'
        "groups:\n  both: {swap: false, members: [qwen, gemma]}\n"
    )
    said = typed("simulate", str(trace), "--config", str(config))

    assert cells(said.out, "loads")[1] == "2"
    assert "both.yaml" in said.out.splitlines()[0]


def test_a_guess_in_a_configuration_is_tried_alone(
    typed: Typed, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is on a real machine: only a declared figure is refused."""
    place = Place(LOCAL_HOST, DeviceName("gpu0"))
    guessed = SimpleNamespace(fill=lambda catalog: catalog, measured=lambda _: {"qwen": {place: 30 << 30}})
    monkeypatch.setattr(simulate, "figures_of_this_machine", lambda: guessed)
    (tmp_path / "c.yaml").write_text(
        'devices: {gpu0: {memory: 24GiB}}\nmodels:\n  qwen: {cmd: "serve --port ${PORT}"}\n'
        '  gemma: {cmd: "serve --port ${PORT}", memory: 30GiB}\n'
    )
    report = json.loads(typed("simulate", str(trace), "--config", str(tmp_path / "c.yaml"), "--json").out)

    assert (report["c.yaml"]["served"], report["c.yaml"]["unserved"]) == (10, 10)


def test_a_configuration_without_the_models_is_refused(typed: Typed, trace: Path, tmp_path: Path) -> None:
    """A model that is missing from the configuration is an error."""
    config = tmp_path / "config.yaml"
    config.write_text('models:\n  qwen: {cmd: "serve --port ${PORT}"}\n')
    said = typed("simulate", str(trace), "--config", str(config))

    assert said.code == 3
    assert "the trace has gemma, which" in said.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--memory", "gpu7=48GiB"), "no such device; available: gpu0"),
        (("--memory", "much"), "must be a size such as 18GiB"),
    ],
)
def test_a_mistaken_budget_is_refused_with_the_syntax(
    typed: Typed, trace: Path, words: tuple[str, ...], sentence: str
) -> None:
    """The message says how to write it."""
    said = typed("simulate", str(trace), *words)

    assert (said.code, said.out) == (1, "")
    assert sentence in said.err


def test_a_model_of_unknown_size_is_mentioned(typed: Typed, tmp_path: Path) -> None:
    """More memory does not help a model that takes a whole device."""
    (tmp_path / "t.jsonl").write_text(write(Trace((Model("qwen", 1.0),), ())))
    said = typed("simulate", str(tmp_path / "t.jsonl"), "--memory", "48GiB")

    assert said.err == "of unknown size, so each counts as a whole device: qwen\n"


def test_a_broken_trace_is_reported_line_by_line(typed: Typed, tmp_path: Path) -> None:
    """Every error has its file and line."""
    file = tmp_path / "broken.jsonl"
    file.write_text("{\n{}\n")
    said = typed("simulate", str(file))

    assert said.code == 1
    assert [line.rpartition("broken.jsonl, ")[2][:6] for line in said.err.splitlines()] == ["line 1", "line 2"]


def test_a_missing_trace_is_reported(typed: Typed, tmp_path: Path) -> None:
    """The message has the file and the reason."""
    said = typed("simulate", str(tmp_path / "none.jsonl"))

    assert (said.code, said.err) == (1, f"hotseat: {tmp_path}/none.jsonl cannot be read: No such file or directory\n")


def machines(*sizes: str) -> list[str]:
    return [word for each in sizes for word in ("--gpu", each)]


def test_machines_are_compared_in_one_table(typed: Typed, trace: Path) -> None:
    """The first row is as recorded; two cards are as good as one with their memory, and a smaller one is no help."""
    said = typed("simulate", str(trace), *machines("24GiB,24GiB", "48GiB", "20GiB"))
    head, before, *after = said.out.splitlines()

    assert (said.code, said.err) == (0, "")
    assert head.split("  ")[-1] == "not served"
    assert [line.split()[0] for line in (before, *after)] == ["unchanged", "24GiB,24GiB", "48GiB", "20GiB"]
    assert [line.split()[1] for line in after[:2]] == ["2", "2"]
    assert after[2].split()[1:] == before.split()[1:]


def test_the_example_of_the_how_to_says_what_the_command_says(typed: Typed) -> None:
    """32 GiB help the batch only, two cards are as good as a large one, and a third changes nothing."""
    said = typed("simulate", str(DOCS / "howto/office.jsonl"), *machines(*MACHINES), "--json")
    before, one_32, one_48, two, three = json.loads(said.out).values()

    assert one_32["slowdown"] > 0.9 * before["slowdown"] > 1.5 * two["slowdown"]
    assert one_32["batches_s"] < 0.9 * before["batches_s"]
    assert one_48 == two == three


def test_programs_get_the_figures_of_each_machine(typed: Typed, tmp_path: Path) -> None:
    """A batch is judged by its completion: eight jobs of 5 s by four workers, after a load of 10 s."""
    batch = Pool("batch", 4, tuple(Job("qwen", 5.0) for _ in range(8)))
    (tmp_path / "t.jsonl").write_text(write(Trace(MODELS, (batch,), Memory({"gpu0": 24.0}))))
    report = json.loads(typed("simulate", str(tmp_path / "t.jsonl"), *machines("48GiB"), "--json").out)

    assert report["48GiB"] == {
        "unserved": 0,
        "loads": 1,
        "slowdown": None,
        "p95_s": None,
        "longest_wait_s": None,
        "batches_s": 20.0,
        "stalled": 0.5,
    }


def test_machines_are_drawn_below_each_other(typed: Typed, trace: Path, tmp_path: Path) -> None:
    """Each with its GPUs as its title."""
    typed("simulate", str(trace), *machines("24GiB", "24GiB,24GiB"), "--svg", str(tmp_path / "monday.svg"))
    drawn = (tmp_path / "monday.svg").read_text()

    assert all(f">{title}<" in drawn for title in ("unchanged", "24GiB", "24GiB,24GiB"))


def test_a_machine_on_which_a_model_never_fits(typed: Typed, trace: Path) -> None:
    """The table says how many requests it would not serve; without a response it shows dashes."""
    said = typed("simulate", str(trace), *machines("16GiB"))

    assert said.out.splitlines()[-1].split() == ["16GiB", "0", *["-"] * 5, "20"]


def test_settings_with_which_a_model_never_fits(typed: Typed, trace: Path) -> None:
    """Nothing was served, so nothing but the counted figures has a value, for people and for programs."""
    said = typed("simulate", str(trace), "--memory", "16GiB")
    report = json.loads(typed("simulate", str(trace), "--memory", "16GiB", "--json").out)["memory 16GiB"]
    values = [line.split()[-1] for line in said.out.splitlines()[1:]]

    assert values == ["0", "20", "0", *["-"] * 9]
    assert {name: value for name, value in report.items() if value is not None} == {
        "served": 0,
        "unserved": 20,
        "loads": 0,
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (machines("24GiB,much"), "--gpu 24GiB,much: must be a size such as 18GiB"),
        (machines("24GiB,0GiB"), "--gpu 24GiB,0GiB: a GPU has more than 0 bytes"),
        (["--gpu=-8GiB"], "--gpu -8GiB: must be a size such as 18GiB"),
        ([*machines("24GiB"), "--memory", "48GiB"], "leave out --config and --memory"),
    ],
)
def test_a_mistaken_machine_is_refused(typed: Typed, trace: Path, words: list[str], sentence: str) -> None:
    """The message says how to write it."""
    said = typed("simulate", str(trace), *words)

    assert (said.code, said.out) == (1, "")
    assert sentence in said.err


def test_a_machine_without_a_device_that_the_trace_names(typed: Typed, tmp_path: Path) -> None:
    """Each such model is named, with the way out."""
    models = (
        Model("listed", 1.0, size=8.0, gpus=("gpu1",)),
        Model("split", 1.0, size={"gpu0": 8.0, "gpu1": 8.0}),
        Model("pair", 1.0, size=8.0, gpus=2),
        Model("anywhere", 1.0, size=8.0),
    )
    (tmp_path / "t.jsonl").write_text(write(Trace(models, (), Memory({"gpu0": 24.0, "gpu1": 24.0}))))
    said = typed("simulate", str(tmp_path / "t.jsonl"), *machines("24GiB,24GiB", "48GiB"))

    assert said.code == 1
    assert [line.partition(", but there is no such device on this machine.")[0] for line in said.err.splitlines()] == [
        "hotseat: --gpu 48GiB: the trace puts listed on gpu1",
        "--gpu 48GiB: the trace puts split on gpu1",
        "--gpu 48GiB: the trace gives pair 2 GPUs",
    ]


def test_a_model_of_unknown_size_takes_a_whole_gpu_of_a_machine(typed: Typed, tmp_path: Path) -> None:
    """Two of them run together on two GPUs, and the command mentions them."""
    models = tuple(Model(name, load=10.0) for name in ("qwen", "gemma"))
    (tmp_path / "t.jsonl").write_text(write(Trace(models, AGENTS)))
    said = typed("simulate", str(tmp_path / "t.jsonl"), *machines("8GiB,8GiB"))

    assert said.err == "of unknown size, so each counts as a whole GPU: qwen, gemma\n"
    assert said.out.splitlines()[-1].split()[1] == "2"


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    """An agent that asks two models in turn, in long conversations, and memory for one."""
    models = tuple(Model(name, 10.0, slots=4, size=20.0, compute_rate=1000.0) for name in ("qwen", "gemma"))
    prompts = (Prompt(9000), *[Prompt(100, 9000)] * 3)
    steps = tuple(Step(0.5, name, 2.0, prompt) for prompt in prompts for name in ("qwen", "gemma"))
    file = tmp_path / "long.jsonl"
    file.write_text(write(Trace(models, (Closed("agent", steps),), Memory({"gpu0": 24.0}))))
    return file


def kept(folder: Path, words: str) -> Path:
    config = folder / "kept.yaml"
    server = '{cmd: "llama-server -m nowhere.gguf -np 4 --port ${PORT}", memory: 20GiB}'
    devices = "{gpu0: {memory: 24GiB}}"
    config.write_text(f"conversations: {words}\ndevices: {devices}\nmodels: {{qwen: {server}, gemma: {server}}}\n")
    return config


def test_kept_conversations_are_answered_side_by_side(typed: Typed, conversation: Path, tmp_path: Path) -> None:
    """Six returns of 9,000 tokens at 1,000 tokens per second, and nearly none of it if they are kept."""
    said = typed("simulate", str(conversation), "--config", str(kept(tmp_path, "on")))
    off, on = map(float, cells(said.out, "computing conversations again, s"))

    assert (said.code, said.err) == (0, "")
    assert off == 54.0
    assert on < 0.1 * off


def test_conversations_that_were_kept_can_be_switched_off(typed: Typed, conversation: Path, tmp_path: Path) -> None:
    """The recorded setup is the first column, whatever it was."""
    recorded = conversation.read_text().replace('"compute_rate"', '"keeps_conversations":true,"compute_rate"')
    conversation.write_text(recorded)
    config = kept(tmp_path, "off")
    report = json.loads(typed("simulate", str(conversation), "--config", str(config), "--json").out)

    assert report["unchanged"]["recomputed_s"] < 6
    assert report["kept.yaml"]["recomputed_s"] == 54


def test_conversations_are_compared_between_machines(typed: Typed, conversation: Path) -> None:
    """With memory for both models there is nothing to compute again."""
    said = typed("simulate", str(conversation), *machines("24GiB", "48GiB"))
    head, *rows = said.out.splitlines()
    column = head.index("computing again, s")

    assert [row[column:].split()[0] for row in rows] == ["54.0", "54.0", "0.0"]


def test_a_trace_without_tokens_says_nothing_about_conversations(typed: Typed, trace: Path, tmp_path: Path) -> None:
    """The table has no row for them."""
    said = typed("simulate", str(trace), "--config", str(kept(tmp_path, "on")))

    assert cells(said.out, "requests served") == ["20", "20"]
    assert "computing" not in said.out


def test_a_model_that_sleeps_is_stopped_in_a_simulation(typed: Typed, trace: Path, tmp_path: Path) -> None:
    """So a configuration with `sleep` can be simulated, with the loads that it would save."""
    config = tmp_path / "asleep.yaml"
    server = '{cmd: "llama-server --port ${PORT} --sleep-idle-seconds 1", sleep: llama-server}'
    config.write_text(f"models:\n  qwen: {server}\n  gemma: {server}\n")
    said = typed("simulate", str(trace), "--config", str(config))

    assert said.code == 0
    assert cells(said.out, "requests served") == ["20", "20"]


def test_the_example_of_conversations_says_what_the_command_says(typed: Typed) -> None:
    """Nearly five minutes are computed again, of which keeping conversations saves nine tenths."""
    said = typed("simulate", str(DOCS / "howto/tuesday.jsonl"), "--config", str(DOCS / "howto/tuesday.yaml"), "--json")
    off, on = json.loads(said.out).values()

    assert 240 < off["recomputed_s"] < 300
    assert on["recomputed_s"] < 0.1 * off["recomputed_s"]
    assert on["mean_s"] < 0.85 * off["mean_s"]
