"""The models and command lines of the comparison: from a few MB to a few hundred, each with one special feature."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.estimates.shapes import Shape


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    shape: Shape
    options: str
    draft: Shape | None = None


WINDOWS = {"attention.sliding_window": 1024}
EXPERTS = {"expert_count": 16, "expert_used_count": 4, "expert_feed_forward_length": 512}
LATENT = {
    "attention.q_lora_rank": 256,
    "attention.kv_lora_rank": 512,
    "rope.dimension_count": 64,
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
    "leading_dense_block_count": 1 << 10,
    "expert_count": 4,
    "expert_used_count": 2,
    "expert_feed_forward_length": 64,
    "expert_shared_count": 1,
}
STATES = {"ssm.conv_kernel": 4, "ssm.inner_size": 2048, "ssm.state_size": 16, "ssm.time_step_rank": 64}

SMALL = Shape(layers=4, dim=256, ff=512, heads=4, kv_heads=4, vocab=1024)
MIDDLE = Shape(layers=16, dim=1024, ff=2816, heads=16, kv_heads=4, vocab=8192)
LARGE = Shape(layers=10, dim=1024, ff=4096, heads=16, kv_heads=16, vocab=32000)

CASES = (
    Case("small, f16", SMALL, "-c 512"),
    Case("all heads cached", LARGE, "-c 4096 -np 1"),
    Case("grouped heads, q8_0 cache", replace(LARGE, kv_heads=4, quant="Q8_0"), "-c 16384 -ctk q8_0 -ctv q8_0"),
    Case("long context, q4_0 cache", replace(MIDDLE, quant="Q4_0"), "-c 65536 -np 1 -ctk q4_0 -ctv q4_0"),
    Case("four slots, large vocabulary", replace(MIDDLE, vocab=128_000, quant="Q4_K"), "-c 16384 -np 4"),
    Case("not mapped", LARGE, "-c 4096 -np 1 --load-mode none"),
    Case("not reordered", replace(LARGE, quant="Q6_K"), "-c 8192 --no-repack"),
    Case("no flash attention", MIDDLE, "-c 1024 -np 1 -fa off"),
    Case("sliding windows", replace(MIDDLE, arch="gemma3", layers=18, more=WINDOWS), "-c 32768 -np 2"),
    Case("experts", replace(MIDDLE, arch="qwen3moe", quant="Q4_0", more=EXPERTS), "-c 8192"),
    Case("latent attention", replace(MIDDLE, arch="deepseek2", kv_heads=1, more=LATENT), "-c 8192 --no-repack"),
    Case("states", replace(MIDDLE, arch="mamba", heads=0, kv_heads=0, head_dim=0, ff=0, more=STATES), "-c 8192 -np 8"),
    Case("with a draft", LARGE, "-c 4096 -np 1 -ctkd q8_0", draft=replace(SMALL, vocab=LARGE.vocab)),
)
