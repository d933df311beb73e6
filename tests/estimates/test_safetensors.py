"""Models in folders, and vLLM, which serves them."""

from __future__ import annotations

import json
import shlex
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.gguf_heads import FoundModels

from hotseat.estimates.estimate import estimate
from hotseat.estimates.files import Disk
from hotseat.estimates.report import CannotEstimate, Estimate, Where
from hotseat.estimates.safetensors import checkpoint_of

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "max_position_embeddings": 4096,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}
PER_TOKEN = 4 * 2 * (2 * 64) * 2


def tensors(*sizes: int) -> bytes:
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    entries = {
        f"t{n}": {"dtype": "F16", "data_offsets": [end - size, end]}
        for n, (end, size) in enumerate(zip(ends, sizes, strict=True))
    }
    text = json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(sum(sizes))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen/config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "qwen/model-00001-of-00002.safetensors").write_bytes(tensors(1000, 24))
    (tmp_path / "qwen/model-00002-of-00002.safetensors").write_bytes(tensors(976))
    return tmp_path


def guess(folder: Path, command: str) -> Estimate:
    return estimate(tuple(shlex.split(command)), Disk(folder))


def sizes(found: Estimate) -> list[int]:
    return [line.size for line in found.lines]


def test_weights_are_those_of_all_files(folder: Path) -> None:
    """The cache is that of one request of the trained length."""
    found = guess(folder, "vllm serve qwen")

    assert sizes(found) == [2000, 4096 * PER_TOKEN]
    assert found.needed(Where.HOST) == 0
    assert found.device_share == 0.9


@pytest.mark.parametrize(
    ("options", "tokens"),
    [("--max-model-len 1000", 1008), ("--max-model-len=2k", 2000), ("--max_model_len 1K", 1024)],
)
def test_the_longest_request_is_what_the_command_says(folder: Path, options: str, tokens: int) -> None:
    """All notations of vLLM work; the length is rounded up to blocks of sixteen tokens."""
    assert sizes(guess(folder, f"vllm serve qwen {options}"))[1] == tokens * PER_TOKEN


def test_vllm_says_what_it_takes_anyway(folder: Path) -> None:
    """A note has its share of each device, which is not what it needs."""
    found = guess(folder, "vllm serve qwen --gpu-memory-utilization 0.5 -tp 2 --kv-cache-dtype fp8")

    assert found.device_share == 0.5
    assert "50% of each of its 2 devices" in found.notes[0]
    assert sizes(found)[1] == 4096 * PER_TOKEN // 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("vllm serve", "no model is given"),
        ("vllm serve Qwen/Qwen3-8B", "downloaded by name"),
        ("vllm serve qwen --max-model-len long", "--max-model-len must be a number"),
        ("vllm serve qwen -tp none", "--tensor-parallel-size must be a number"),
        ("vllm serve qwen --gpu-memory-utilization all", "--gpu-memory-utilization must be a number"),
    ],
)
def test_what_cannot_be_read_is_said(folder: Path, command: str, said: str) -> None:
    """Each error names the option or the file."""
    with pytest.raises(CannotEstimate, match=said):
        guess(folder, command)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        struct.pack("<Q", 1 << 62) + b"{}",
        struct.pack("<Q", 4) + b"[[[[",
        struct.pack("<Q", 2) + b"[]",
        tensors(100)[:-1],
        struct.pack("<Q", 10) + b'{"a": {}} ',
    ],
)
def test_a_broken_file_is_refused(folder: Path, data: bytes) -> None:
    """The error names the file, whatever is wrong with it."""
    (folder / "qwen/model-00002-of-00002.safetensors").write_bytes(data)

    with pytest.raises(CannotEstimate, match="model-00002-of-00002"):
        guess(folder, "vllm serve qwen")


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    """A folder alone is not a model."""
    with pytest.raises(CannotEstimate, match=r"contains no \*\.safetensors"):
        Disk(tmp_path).checkpoint(".")


def keys_of(**more: Any) -> list[tuple[int, int, int | None]]:
    config = json.dumps({**CONFIG, **more}).encode()
    layers = checkpoint_of(config, 0, "config.json").anatomy.layers
    return [(layer.keys, layer.values, layer.window) for layer in layers]


def test_windows_latent_attention_and_inner_configurations_are_known() -> None:
    """The keys are read as real configurations write them."""
    kinds = ["sliding_attention", "full_attention"] * 2

    assert keys_of(layer_types=kinds, sliding_window=512)[:2] == [(128, 128, 512), (128, 128, None)]
    assert keys_of(kv_lora_rank=512, qk_rope_head_dim=64)[0] == (576, 0, None)
    assert len(keys_of(text_config={"num_hidden_layers": 7})) == 7


@given(st.dictionaries(st.sampled_from(list(CONFIG)), st.none() | st.integers() | st.text() | st.lists(st.integers())))
def test_any_configuration_is_read_or_refused(changes: dict[str, Any]) -> None:
    """An invalid configuration gives CannotEstimate and no other error."""
    try:
        found = keys_of(**changes)
    except CannotEstimate:
        return

    assert 0 < len(found) < 4096


def test_fake_files_serve_too() -> None:
    """The estimate needs no disk: any implementation of `Files` works."""
    files = FoundModels(folders={"/m": checkpoint_of(json.dumps(CONFIG).encode(), 2000, "config.json")})

    assert sizes(estimate(("vllm", "serve", "/m", "--max-model-len", "16"), files)) == [2000, 16 * PER_TOKEN]
