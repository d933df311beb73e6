"""The estimate for llama-server, with made-up heads, and which matrices it reorders, as measured with its builds."""

from __future__ import annotations

import shlex
import time

import pytest
from tests.support.gguf_heads import KEYS, TENSORS, FoundModels, head

from hotseat.estimates.estimate import estimate
from hotseat.estimates.gguf import Head, Long, Tensor, Value
from hotseat.estimates.gguf_architecture import anatomy_of
from hotseat.estimates.llama import copied_size
from hotseat.estimates.machine import Gpu
from hotseat.estimates.quants import BY_NAME
from hotseat.estimates.report import Backing, CannotEstimate, Estimate, Kind, Where

MIB = 1 << 20
AMX = frozenset({"amx_int8", "avx512bw", "avx2"})
WEIGHTS = sum(tensor.size for tensor in TENSORS)


def guess(options: str = "", files: FoundModels | None = None, gpu: Gpu = Gpu.UNSAID) -> Estimate:
    return estimate(tuple(shlex.split(f"llama-server -m m.gguf {options}")), files or FoundModels(), gpu=gpu)


def size(found: Estimate, kind: Kind, where: Where = Where.HOST, backing: Backing | None = None) -> int:
    lines = [line for line in found.lines if (line.kind, line.where) == (kind, where)]
    return sum(line.size for line in lines if backing in (None, line.backing))


# Placement


def test_without_a_word_about_devices_everything_is_on_the_host() -> None:
    """A note says that a device would change that."""
    found = guess("-c 4096")

    assert found.needed(Where.DEVICE) == 0
    assert size(found, Kind.WEIGHTS, backing=Backing.MAPPED) == WEIGHTS
    assert size(found, Kind.KV) == 4 * 4096 * 2 * (2 * 64) * 2
    assert any("-ngl is not set" in note for note in found.notes)


@pytest.mark.parametrize(("options", "gpu"), [("-ngl 99", Gpu.UNSAID), ("-ngl all", Gpu.UNSAID), ("", Gpu.SOME)])
def test_a_device_takes_all_but_the_embedding(options: str, gpu: Gpu) -> None:
    """llama-server looks up token embeddings on the host."""
    found = guess(f"-c 4096 {options}", gpu=gpu)

    assert size(found, Kind.WEIGHTS, Where.DEVICE) == WEIGHTS - MIB
    assert size(found, Kind.WEIGHTS) == MIB
    assert size(found, Kind.KV) == 0
    assert any("driver" in note for note in found.notes)


def test_some_layers_on_a_device_are_the_last_ones() -> None:
    """-ngl 3 of 4 layers: the output, and the two layers before it with their cache."""
    found = guess("-c 4096 -ngl 3")

    assert size(found, Kind.WEIGHTS, Where.DEVICE) == MIB + 2 * (MIB // 2)
    assert size(found, Kind.KV, Where.DEVICE) == size(found, Kind.KV, Where.HOST) > 0


def test_layers_that_predict_further_lie_with_the_last() -> None:
    """They are numbered after the others and have no placement of their own."""
    files = FoundModels({"m.gguf": head(nextn_predict_layers=1)})

    assert size(guess(files=files), Kind.WEIGHTS) == WEIGHTS
    assert size(guess("-ngl 99", files), Kind.WEIGHTS) == MIB


def test_the_cache_can_stay_on_the_host() -> None:
    """-nkvo keeps it there, wherever the layers are."""
    assert size(guess("-c 4096 -ngl 99 -nkvo"), Kind.KV, Where.DEVICE) == 0


def test_no_device_whatever_the_command_says() -> None:
    """-ngl has no effect on a machine without a device."""
    assert guess("-ngl 99", gpu=Gpu.NONE).needed(Where.DEVICE) == 0


@pytest.mark.parametrize("options", ["-cmoe", "-ncmoe 1", r"-ot '\.ffn_.*_exps\.=CPU'"])
def test_experts_can_stay_on_the_host(options: str) -> None:
    """All of them, those of the first layers, or those that match a pattern."""
    experts = Tensor("blk.0.ffn_up_exps.weight", (512, 64, 8), "F16", MIB)
    files = FoundModels({"m.gguf": Head(KEYS, (*TENSORS, experts))})

    assert size(guess(f"-ngl 99 {options}", files), Kind.WEIGHTS) == MIB + MIB


# Copies for the processor


def test_weights_are_copied_for_a_processor_that_wants_them_otherwise() -> None:
    """The copy is needed and the file's pages only to load; the embedding is not multiplied, so it is not copied."""
    found = guess(files=FoundModels(flags=AMX))

    assert size(found, Kind.WEIGHTS, backing=Backing.ANONYMOUS) == WEIGHTS - MIB
    assert size(found, Kind.WEIGHTS, backing=Backing.READ_ONCE) == WEIGHTS - MIB
    assert size(found, Kind.WEIGHTS, backing=Backing.MAPPED) == MIB
    assert found.needed(Where.HOST) == found.backed(Where.HOST, Backing.ANONYMOUS, Backing.MAPPED)


@pytest.mark.parametrize("options", ["--no-repack", "-ngl 1"])
def test_nothing_is_copied_where_copies_are_not_used(options: str) -> None:
    """No copy is made if it is switched off, or with a device."""
    assert size(guess(options, FoundModels(flags=AMX)), Kind.WEIGHTS, backing=Backing.READ_ONCE) == 0


def test_a_model_without_an_output_matrix_gets_one() -> None:
    """Its embedding is copied, and stays mapped as well."""
    found = guess(files=FoundModels({"m.gguf": Head(KEYS, TENSORS[:1])}, flags=AMX))

    assert size(found, Kind.WEIGHTS, backing=Backing.ANONYMOUS) == MIB
    assert size(found, Kind.WEIGHTS, backing=Backing.MAPPED) == MIB


def test_weights_that_are_not_mapped_are_all_anonymous() -> None:
    """No page of the file stays."""
    found = guess("--no-mmap", FoundModels(flags=AMX))

    assert size(found, Kind.WEIGHTS) == size(found, Kind.WEIGHTS, backing=Backing.ANONYMOUS) == WEIGHTS


# More than one file


def test_a_draft_has_weights_and_a_cache_of_its_own() -> None:
    """The draft has its own formats, and its parts are listed as the draft's."""
    files = FoundModels({"m.gguf": head(), "d.gguf": head(block_count=2)})
    found = guess("-c 4096 -np 1 -md d.gguf -ctkd q8_0 -ctvd q8_0", files)

    draft = {line.what: line.size for line in found.lines if line.kind is Kind.DRAFT}
    assert draft["weights of d.gguf"] == WEIGHTS
    assert draft["cache of 4096 tokens, q8_0 and q8_0 of the draft"] == 2 * 4096 * 2 * (128 // 32 * 34)


def test_a_draft_remembers_as_much_as_its_model() -> None:
    """Its own training does not matter; older servers let it have its own context."""
    files = FoundModels({"m.gguf": head(), "d.gguf": head(context_length=512)})

    assert any(
        "cache of 8192 tokens" in line.what for line in guess("-md d.gguf", files).lines if line.kind is Kind.DRAFT
    )
    assert any("cache of 1024 tokens" in line.what for line in guess("-md d.gguf -cd 1024", files).lines)


def test_projectors_and_adapters_are_counted() -> None:
    """By the size of their tensors."""
    found = guess(
        "--mmproj p.gguf --lora a.gguf", FoundModels({name: head() for name in ("m.gguf", "p.gguf", "a.gguf")})
    )

    assert size(found, Kind.MMPROJ) == WEIGHTS
    assert any(line.what == "adapter a.gguf" for line in found.lines)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("llama-server -hf org/model:Q4_K_M", "org/model:Q4_K_M names a model that llama-server downloads itself"),
        ("llama-server -c 512", "-m FILE is missing"),
        ("llama-server -m x.gguf", "x.gguf cannot be read"),
    ],
)
def test_what_is_not_there_is_said(command: str, said: str) -> None:
    """A file that cannot be opened gives an error, not an estimate."""
    with pytest.raises(CannotEstimate, match=said):
        estimate(tuple(command.split()), FoundModels())


# Architectures


def layers(architecture: str, **more: Value) -> list[tuple[int, int, int | None, int]]:
    keys = {key.replace("llama", architecture): value for key, value in head(**more).keys.items()}
    model = anatomy_of(Head({**keys, "general.architecture": architecture}, TENSORS), "m.gguf")
    return [(layer.keys, layer.values, layer.window, layer.state) for layer in model.layers]


def test_each_layer_may_have_its_own_heads() -> None:
    """Some pruned models have this."""
    assert [keys for keys, *_ in layers("llama", attention__head_count_kv=(8, 4, 2, 1))] == [512, 256, 128, 64]


def test_shared_and_predicting_layers_have_no_cache() -> None:
    """The last ones use others' caches, and layers that predict further tokens are not run."""
    assert [keys for keys, *_ in layers("gemma4", attention__shared_kv_layers=2)] == [128, 128, 0, 0]
    assert len(layers("glm4moe", nextn_predict_layers=1)) == 3


def test_windows_may_have_smaller_heads() -> None:
    """The file may mark each layer."""
    marks: dict[str, Value] = {"attention__sliding_window_pattern": (True, True, False, True)}
    marks |= {"attention__key_length_swa": 32, "attention__value_length_swa": 32}
    found = layers("gemma4", **marks, attention__sliding_window=512)

    assert [(keys, window) for keys, _, window, _ in found] == [(64, 512), (64, 512), (128, None), (64, 512)]


def test_latent_attention_caches_one_vector() -> None:
    """The values are a part of the keys."""
    mla = {"attention__kv_lora_rank": 512, "attention__key_length_mla": 192, "attention__value_length_mla": 128}
    found = layers("deepseek2", **mla, attention__key_length=576, attention__value_length=512)

    assert found == [(576, 0, None, 0)] * 4


SSM: dict[str, Value] = {"ssm__inner_size": 1024, "ssm__state_size": 16, "ssm__conv_kernel": 4}
STATE = 3 * 1024 + 16 * 1024


def test_recurrent_layers_carry_a_state() -> None:
    """All layers, those without heads, all but every n-th, or every layer together with attention."""
    assert layers("mamba", **SSM, attention__head_count_kv=0) == [(0, 0, None, STATE)] * 4
    assert [s for *_, s in layers("jamba", **SSM, attention__head_count_kv=(0, 2, 0, 2))] == [STATE, 0, STATE, 0]
    assert [s for *_, s in layers("qwen3next", **SSM)] == [STATE, STATE, STATE, 0]
    assert layers("falcon-h1", **SSM)[0] == (128, 128, None, STATE)
    assert layers("rwkv7", wkv__head_size=64)[0] == (0, 0, None, 512 * (2 + 64))
    assert layers("lfm2", shortconv__l_cache=3, attention__head_count_kv=(0, 0, 2, 2))[0] == (0, 0, None, 1024)


def test_models_that_remember_nothing_have_no_cache() -> None:
    """Embedding models process a text as a whole."""
    assert layers("bert") == [(0, 0, None, 0)] * 4


def test_sizes_below_zero_count_nothing() -> None:
    """They would make a model look smaller than it is."""
    assert layers("lfm2", shortconv__l_cache=0, attention__head_count_kv=0)[0][3] == 0
    assert layers("gemma4", attention__sliding_window=-512)[0][2] is None


def test_thousands_of_layers_with_their_own_heads() -> None:
    """The time grows with their number, not with its square."""
    number = 4000
    began = time.process_time()
    heads: dict[str, Value] = {"attention__head_count": (8,) * number, "attention__head_count_kv": (2,) * number}
    found = layers("llama", block_count=number, **heads)

    assert len(found) == number
    assert time.process_time() - began < 1


def test_an_unknown_architecture_is_said() -> None:
    """The general formula is used, and a note says so."""
    keys = {key.replace("llama", "novel"): value for key, value in KEYS.items()}
    files = FoundModels({"m.gguf": Head({**keys, "general.architecture": "novel"}, TENSORS)})
    found = guess("-c 4096", files)

    assert size(found, Kind.KV) == size(guess("-c 4096"), Kind.KV)
    assert any('"novel" is unknown' in note for note in found.notes)


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"general.architecture": "llama"},
        {**KEYS, "llama.block_count": 1 << 40},
        {**KEYS, "llama.block_count": -1},
        {**KEYS, "llama.embedding_length": "wide"},
        {**KEYS, "llama.attention.head_count": Long(9)},
        {**KEYS, "llama.attention.head_count_kv": (1,)},
        {**KEYS, "llama.attention.head_count_kv": (8, -1_000_000, 8, 8)},
        {**KEYS, "llama.feed_forward_length": (8, -8, 8, 8)},
    ],
)
def test_a_head_that_says_too_little_is_refused(keys: dict[str, Value]) -> None:
    """The error names the missing key, and a wrong value costs no time."""
    with pytest.raises(CannotEstimate, match=r"^m\.gguf "):
        guess(files=FoundModels({"m.gguf": Head(keys, TENSORS)}))


WITH_AVX: frozenset[str] = frozenset({"sse4_2", "avx"})
WITH_AVX2 = WITH_AVX | {"avx2"}
WITH_AVX512 = WITH_AVX2 | {"avx512f", "avx512bw"}
WITH_AMX = WITH_AVX512 | {"amx_tile", "amx_int8"}


def matrix(quant: str, *shape: int, name: str = "blk.0.attn_q.weight") -> Tensor:
    columns, *rows = shape or (512, 512)
    count = columns
    for each in rows:
        count *= each
    return Tensor(name, (columns, *rows), quant, BY_NAME[quant.lower()].size(count))


@pytest.mark.parametrize(
    ("processor", "copied"),
    [
        (WITH_AVX, []),
        (WITH_AVX2, ["Q4_0", "Q4_K", "IQ4_NL", "MXFP4"]),
        (WITH_AVX512, ["Q4_0", "Q2_K", "Q4_K", "IQ4_NL", "MXFP4"]),
        (WITH_AMX, ["F16", "Q4_0", "Q4_1", "Q8_0", "Q2_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]),
    ],
    ids=["old", "avx2", "avx512", "amx"],
)
def test_each_processor_wants_its_own_formats(processor: frozenset[str], copied: list[str]) -> None:
    """Newer processors use more formats; f32, bf16 and rare formats are never copied."""
    names = [quant.name for quant in BY_NAME.values()]

    assert [name for name in names if copied_size(matrix(name), processor)] == copied


@pytest.mark.parametrize(
    ("quant", "bits"), [("F16", 16), ("Q8_0", 9.5), ("Q4_0", 4.5), ("Q4_K", 4.625), ("Q5_K", 5.625), ("IQ4_XS", 4.3125)]
)
def test_some_copies_are_larger_than_the_original(quant: str, bits: float) -> None:
    """AMX's layout stores sums with some formats."""
    assert copied_size(matrix(quant), WITH_AMX) == 512 * 512 * bits / 8


def test_rows_must_fit_the_tiles() -> None:
    """An odd number of tokens prevents the copy of the output matrix, or leaves the one for AVX."""
    assert copied_size(matrix("F16", 512, 1001), WITH_AMX) == 0
    assert copied_size(matrix("Q4_0", 512, 1001), WITH_AMX) == 0
    assert copied_size(matrix("Q4_0", 512, 1000), WITH_AMX) == 512 * 1000 * 4.5 / 8


def test_experts_are_copied_only_where_a_format_allows() -> None:
    """AMX supports no stacks of matrices."""
    assert copied_size(matrix("F16", 512, 64, 8), WITH_AMX) == 0
    assert copied_size(matrix("Q4_0", 512, 64, 8), WITH_AMX) == 512 * 64 * 8 * 4.5 / 8


def test_what_is_looked_up_and_what_is_no_matrix_stays() -> None:
    """Embeddings and norms are not multiplied."""
    assert copied_size(matrix("F16", name="token_embd.weight"), WITH_AMX) == 0
    assert copied_size(matrix("F16", 512), WITH_AMX) == 0
