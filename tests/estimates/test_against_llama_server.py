"""Estimates compared with the real llama-server: small models here, larger ones in `just bench-estimates`."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from bench.estimates.cases import EXPERTS, LATENT, STATES, WINDOWS, Case
from bench.estimates.measure import MIB, compare
from bench.estimates.shapes import Shape, describe_tokens
from gguf import GGUFWriter
from tests.support.llama import SERVER, present

from hotseat.estimates.files import Disk
from hotseat.estimates.gguf_architecture import PATTERNS, anatomy_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.llama

SMALL = Shape(layers=4, dim=256, ff=1024, heads=4, kv_heads=2, vocab=2048)
CASES = (
    Case("plain", SMALL, "-c 8192"),
    Case("q4_0 weights, q8_0 cache", replace(SMALL, quant="Q4_0"), "-c 4096 -ctk q8_0 -ctv q8_0 -np 1"),
    Case("slots", replace(SMALL, quant="Q8_0"), "-c 3000 -np 3 -ub 128"),
    Case("not mapped, attention as a table", SMALL, "-c 2048 -np 1 -fa off --load-mode none"),
    Case("windows", replace(SMALL, arch="gemma3", layers=6, more=WINDOWS), "-c 8192 -np 2"),
    Case("experts", replace(SMALL, arch="qwen3moe", more=EXPERTS), "-c 2048"),
    Case("latent attention", replace(SMALL, arch="deepseek2", kv_heads=1, more=LATENT), "-c 2048 --no-repack"),
    Case(
        "states", replace(SMALL, arch="mamba", dim=1024, heads=0, kv_heads=0, head_dim=0, ff=0, more=STATES), "-c 512"
    ),
    Case("draft", SMALL, "-c 4096 -np 1", draft=replace(SMALL, layers=2)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_buffers_are_as_llama_server_logs_them(case: Case, tmp_path: Path) -> None:
    """Copies and cache agree up to rounding, the compute buffer to a tenth, the whole to a tenth or 10 MiB: a busy
    server touches less of its heap."""
    result = compare(case, tmp_path)
    guessed, real = result.estimated, result.measured

    assert guessed.copied == pytest.approx(real.copied, rel=0.001, abs=MIB // 10)
    assert guessed.cache == pytest.approx(real.cache, rel=0.001, abs=MIB // 10)
    assert guessed.compute == pytest.approx(real.compute, rel=0.10)
    assert guessed.resident == pytest.approx(real.resident, rel=0.10, abs=10 * MIB)


# llama-server logs which layers have windows before it looks for tensors, so that a head is enough.

HEAD: dict[str, Any] = {
    "vocab_size": 512,
    "context_length": 4096,
    "embedding_length": 256,
    "feed_forward_length": 256,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 64,
    "attention.value_length": 64,
    "attention.layer_norm_epsilon": 1e-5,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "attention.sliding_window": 512,
    "rope.dimension_count": 64,
    "rope.freq_base_swa": 10_000.0,
    "logit_scale": 1.0,
    "embedding_length_per_layer_input": 64,
    "expert_count": 4,
    "expert_used_count": 2,
    "expert_feed_forward_length": 64,
    "expert_shared_count": 0,
    "expert_shared_feed_forward_length": 64,
    "expert_gating_func": 1,
    "expert_weights_scale": 1.0,
    "interleave_moe_layer_step": 1,
    "leading_dense_block_count": 0,
}
LAYERS = 64
IS_WINDOW = re.compile(r"layer\s+(\d+) assigned to device \w+, is_swa = (\d)")


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "phi3", *PATTERNS])
def test_windows_are_where_llama_server_has_them(architecture: str, tmp_path: Path) -> None:
    """The windows agree layer by layer, for every architecture in the table."""
    path = tmp_path / "m.gguf"
    write_head(path, architecture)
    asked = subprocess.run([present(SERVER), "-m", path, "-lv", "5", "-fit", "off"], capture_output=True, text=True)
    windows = {int(layer): window == "1" for layer, window in IS_WINDOW.findall(asked.stdout + asked.stderr)}
    ours = anatomy_of(Disk(tmp_path).gguf("m.gguf"), "m.gguf")

    # Layers that share an earlier cache have no window of their own.
    cached = [number for number, layer in enumerate(ours.layers) if layer.keys]
    assert {number: ours.layers[number].window is not None for number in cached} == {n: windows[n] for n in cached}


def write_head(path: Path, architecture: str) -> None:
    out: Any = GGUFWriter(path, architecture)
    out.add_block_count(LAYERS)
    for key, value in HEAD.items():
        add = out.add_float32 if isinstance(value, float) else out.add_uint32
        add(f"{architecture}.{key}", value)
    describe_tokens(out, HEAD["vocab_size"])
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    out.close()
