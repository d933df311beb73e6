"""What the files of configured models say about them."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.estimates.shapes import Shape, write_zeros
from gguf import GGUFWriter
from tests.support.fake_launcher import spec
from tests.support.waiting import eventually

from hotseat import threads
from hotseat.identifiers import ModelName
from hotseat.model_files.facts import FactsReader
from hotseat.model_files.file_kind import Role

if TYPE_CHECKING:
    from hotseat.catalog.spec import ModelSpec
    from hotseat.model_files.facts import ModelFacts

SHAPE = Shape(layers=1, dim=64, ff=64, heads=4, kv_heads=4, vocab=512, context=512)


def serving(*argv: str) -> ModelSpec:
    known = spec("m")
    return replace(known, recipe=replace(known.recipe, argv=("llama-server", *argv, "--port", "${PORT}")))


def facts_of(model: ModelSpec) -> ModelFacts | None:
    return FactsReader().of_all([model]).get(model.name)


def with_template(file: Path, template: str) -> Path:
    """A model without tensors, which has this template."""
    out = GGUFWriter(file, "llama")
    for name, number in (("block_count", 1), ("context_length", 512), ("embedding_length", 64)):
        out.add_uint32(f"llama.{name}", number)
    out.add_uint32("llama.attention.head_count", 4)
    out.add_chat_template(template)
    complete(out)
    return file


def complete(out: GGUFWriter) -> None:
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    out.close()


def test_a_model_with_a_projector(tmp_path: Path) -> None:
    """All its files count, and it sees images."""
    model, projector = write_zeros(tmp_path / "m.gguf", SHAPE), tmp_path / "mmproj.gguf"
    projector.write_bytes(b"x" * 100)
    facts = facts_of(serving("-m", str(model), "--mmproj", str(projector)))

    assert facts is not None
    assert (facts.size, facts.sees_images) == (model.stat().st_size + 100, True)
    assert (facts.role, facts.family, facts.quant) == (Role.CHAT, "llama", "F16")


@pytest.mark.parametrize(
    ("template", "uses_tools", "thinks"),
    [
        ("{{ messages }}", False, False),
        ("{% if tools %}{{ tools }}{% endif %}", True, False),
        ("{% if enable_thinking %}<think>{% endif %}" + " " * 20_000 + "{{ tools }}", True, True),
    ],
)
def test_the_chat_template_says_what_a_model_can_do(
    tmp_path: Path, template: str, uses_tools: bool, thinks: bool
) -> None:
    """However long it is; it is not kept."""
    facts = facts_of(serving("-m", str(with_template(tmp_path / "m.gguf", template))))

    assert facts is not None
    assert (facts.uses_tools, facts.thinks) == (uses_tools, thinks)
    assert "tokenizer.chat_template" not in facts.keys


def test_a_head_with_more_than_fits_into_a_response(tmp_path: Path) -> None:
    """Its first keys are kept, and no array is."""
    out = GGUFWriter(tmp_path / "m.gguf", "llama")
    for name, number in (("block_count", 1), ("context_length", 512), ("embedding_length", 64)):
        out.add_uint32(f"llama.{name}", number)
    out.add_array("llama.attention.head_count", [4])
    for n in range(500):
        out.add_string(f"note.{n}", "x" * 1_000)
    complete(out)
    facts = facts_of(serving("-m", str(tmp_path / "m.gguf")))

    assert facts is not None
    assert facts.keys["llama.block_count"] == 1
    assert "llama.attention.head_count" not in facts.keys
    assert 60 < len(facts.keys) < 70


def test_models_without_a_known_file_are_left_out(tmp_path: Path) -> None:
    """A missing file, a download by name, and another server."""
    other = replace(spec("other"), recipe=replace(spec("other").recipe, argv=("serve", "-m", "x.gguf")))

    assert facts_of(serving("-m", str(tmp_path / "missing.gguf"))) is None
    assert facts_of(serving("-hf", "org/repo")) is None
    assert facts_of(other) is None


def test_a_pipe_is_no_model(tmp_path: Path) -> None:
    """It is not opened: nobody may ever write to it."""
    os.mkfifo(tmp_path / "m.gguf")

    assert facts_of(serving("-m", str(tmp_path / "m.gguf"))) is None


def test_a_folder_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its models are left out, the log says so once, and models of another folder are listed."""
    stuck, status = threading.Event(), Path.stat
    names = ("gone/a.gguf", "gone/b.gguf", "here/c.gguf")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_zeros(tmp_path / name, SHAPE)
    specs = [replace(serving("-m", str(tmp_path / name)), name=ModelName(name)) for name in names]

    def stat(path: Path, **options: Any) -> os.stat_result:
        if path.parent.name == "gone":
            stuck.wait()
        return status(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr("hotseat.model_files.facts.LOOK_S", 0.5)
    reader = FactsReader()
    first, second = reader.of_all(specs), reader.of_all(specs)
    stuck.set()
    eventually(lambda: not threads._hanging)

    assert {*first} == {*second} == {"here/c.gguf"}
    assert caplog.text.count("files cannot be read because the disk does not respond of=gone/a.gguf") == 1
    assert {*reader.of_all(specs)} == {*names}


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it changes, only its time and size are looked at."""
    model, reader = serving("-m", str(write_zeros(tmp_path / "m.gguf", SHAPE))), FactsReader()
    first = reader.of_all([model])
    monkeypatch.setattr("hotseat.model_files.facts.read_gguf", None)

    assert reader.of_all([model]) == first


def test_files_that_changed_or_are_gone_are_forgotten(tmp_path: Path) -> None:
    """Only what the present files say is kept, however often they are replaced."""
    kept, changed, deleted = (write_zeros(tmp_path / f"{name}.gguf", SHAPE) for name in ("kept", "changed", "deleted"))
    reader = FactsReader()
    reader.of_all([serving("-m", str(file)) for file in (kept, changed, deleted)])
    deleted.unlink()
    os.utime(changed, (1, 1))
    reader.of_all([serving("-m", str(changed))])

    assert {Path(stamps[0][0]).name: stamps[0][1] for stamps in reader._known} == {
        "kept.gguf": kept.stat().st_mtime_ns,
        "changed.gguf": 1_000_000_000,
    }
    assert len(reader._known) == 2
