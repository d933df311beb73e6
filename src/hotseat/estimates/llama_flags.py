"""The options of llama-server that affect its memory, from its arguments and its environment.

Names are those of llama-server's own help and those of older versions that configurations still use.
"""

from __future__ import annotations

from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct, field

from hotseat.estimates.quants import BY_NAME
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.estimates.quants import Quant

ALL = 1 << 30
"""All layers."""

VALUES = {
    "model": ("-m", "--model"),
    "context": ("-c", "--ctx-size"),
    "slots": ("-np", "--parallel"),
    "per_slot": ("--kv-unified-per-slot",),
    "batch": ("-b", "--batch-size"),
    "micro_batch": ("-ub", "--ubatch-size"),
    "cache_keys": ("-ctk", "--cache-type-k"),
    "cache_values": ("-ctv", "--cache-type-v"),
    "gpu_layers": ("-ngl", "--gpu-layers", "--n-gpu-layers"),
    "devices": ("-dev", "--device"),
    "cpu_experts": ("-ncmoe", "--n-cpu-moe"),
    "overrides": ("-ot", "--override-tensor"),
    "flash": ("-fa", "--flash-attn"),
    "load_mode": ("-lm", "--load-mode"),
    "fit": ("-fit", "--fit"),
    "prompt_cache": ("-cram", "--cache-ram"),
    "projector": ("-mm", "--mmproj"),
    "adapters": ("--lora",),
    "draft": ("-md", "--model-draft", "--spec-draft-model"),
    "draft_context": ("-cd", "--ctx-size-draft"),
    "draft_gpu_layers": ("-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft", "--spec-draft-ngl"),
    "draft_cache_keys": ("-ctkd", "--cache-type-k-draft", "--spec-draft-type-k"),
    "draft_cache_values": ("-ctvd", "--cache-type-v-draft", "--spec-draft-type-v"),
    "draft_micro_batch": ("--spec-draft-n-ubatch",),
    "fetched": ("-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr", "--docker-repo"),
    "fetched_draft": ("-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf"),
}
SWITCHES = {
    "unified": (("-kvu", "--kv-unified"), ("-no-kvu", "--no-kv-unified")),
    "cache_on_device": (("-kvo", "--kv-offload"), ("-nkvo", "--no-kv-offload")),
    "repack": (("--repack",), ("-nr", "--no-repack")),
    "mapped": (("--mmap",), ("--no-mmap",)),
    "windows_in_full": (("--swa-full",), ()),
    "experts_on_host": (("-cmoe", "--cpu-moe"), ()),
    "projector_on_device": (("--mmproj-offload",), ("--no-mmproj-offload",)),
}
VARIABLES = {
    "LLAMA_ARG_MODEL": "model",
    "LLAMA_ARG_CTX_SIZE": "context",
    "LLAMA_ARG_N_PARALLEL": "slots",
    "LLAMA_ARG_KV_UNIFIED_PER_SLOT": "per_slot",
    "LLAMA_ARG_BATCH": "batch",
    "LLAMA_ARG_UBATCH": "micro_batch",
    "LLAMA_ARG_CACHE_TYPE_K": "cache_keys",
    "LLAMA_ARG_CACHE_TYPE_V": "cache_values",
    "LLAMA_ARG_N_GPU_LAYERS": "gpu_layers",
    "LLAMA_ARG_DEVICE": "devices",
    "LLAMA_ARG_N_CPU_MOE": "cpu_experts",
    "LLAMA_ARG_OVERRIDE_TENSOR": "overrides",
    "LLAMA_ARG_FLASH_ATTN": "flash",
    "LLAMA_ARG_LOAD_MODE": "load_mode",
    "LLAMA_ARG_FIT": "fit",
    "LLAMA_ARG_CACHE_RAM": "prompt_cache",
    "LLAMA_ARG_MMPROJ": "projector",
    "LLAMA_ARG_SPEC_DRAFT_MODEL": "draft",
    "LLAMA_ARG_N_GPU_LAYERS_DRAFT": "draft_gpu_layers",
    "LLAMA_ARG_HF_REPO": "fetched",
    "LLAMA_ARG_KV_UNIFIED": "unified",
    "LLAMA_ARG_KV_OFFLOAD": "cache_on_device",
    "LLAMA_ARG_REPACK": "repack",
    "LLAMA_ARG_SWA_FULL": "windows_in_full",
    "LLAMA_ARG_CPU_MOE": "experts_on_host",
}
TRUE = ("1", "on", "true", "enabled")
MEANS = {name: what for what, names in VALUES.items() for name in names}
TURNS = {name: (what, on) for what, (ons, offs) in SWITCHES.items() for on in (True, False) for name in (offs, ons)[on]}
AUTO_SLOTS = 4


class Attention(Enum):
    """How attention is computed: in small tiles, or as one table of every head, token and cell."""

    FLASH = "flash"
    TABLE = "table"


class LlamaFlags(Struct, frozen=True):
    """The given options, and llama-server's defaults for the others."""

    values: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, bool] = field(default_factory=dict)

    @staticmethod
    def parse(words: tuple[str, ...], env: Mapping[str, str]) -> LlamaFlags:
        """The last occurrence wins, and an argument wins over a variable."""
        values = {what: env[name] for name, what in VARIABLES.items() if name in env and what in VALUES}
        switches = {
            what: env[name].lower() in TRUE for name, what in VARIABLES.items() if env.get(name) and what in SWITCHES
        }
        for word, following in _pairs(words):
            if word in MEANS and following is not None:
                values[MEANS[word]] = following
            elif word in TURNS:
                what, on = TURNS[word]
                switches[what] = on
        return LlamaFlags(values, switches)

    def text(self, what: str) -> str | None:
        return self.values.get(what) or None

    def number(self, what: str, default: int) -> int:
        said = self.values.get(what)
        if said is None:
            return default
        try:
            return int(said)
        except ValueError:
            raise CannotEstimate(f"{VALUES[what][-1]} must be a number, not {said[:40]!r}") from None

    def is_on(self, what: str, default: bool) -> bool:
        return self.switches.get(what, default)

    def quant(self, what: str) -> Quant:
        said = self.values.get(what, "f16").lower()
        if said not in BY_NAME:
            raise CannotEstimate(
                f"{VALUES[what][-1]} {said[:40]!r} is not a cache type; use for example f16, q8_0 or q4_0"
            )
        return BY_NAME[said]

    # Derived values

    @property
    def slots(self) -> int:
        said = self.number("slots", -1)
        return said if said > 0 else AUTO_SLOTS

    @property
    def unified(self) -> bool:
        """One cache for all slots is the default only if the number of slots is left to the server."""
        return self.is_on("unified", self.number("slots", -1) < 1)

    def context(self, trained: int) -> int:
        """Tokens of all slots together."""
        said = self.number("context", 0)
        if said > 0:
            return said
        if per_slot := self.number("per_slot", 0):
            return per_slot * self.slots
        is_fitted = self.values.get("fit", "on") != "off"
        return trained * self.slots if is_fitted and not self.unified else trained

    def micro_batch(self, context: int, of: str = "micro_batch") -> int:
        """Tokens that go through the layers at once."""
        usual = self.number("micro_batch", 512)
        requested = self.number(of, usual) or usual
        return max(min(requested, self.number("batch", 2048), context), 1)

    @property
    def attention(self) -> Attention:
        return Attention.TABLE if self.values.get("flash", "auto") in ("off", "0", "false") else Attention.FLASH

    @property
    def is_mapped(self) -> bool:
        mode = self.values.get("load_mode")
        return "mmap" in mode or mode == "auto" if mode else self.is_on("mapped", True)

    def gpu_layers(self, of: str = "gpu_layers") -> int | None:
        """Layers on a device; None if the server decides."""
        said = self.values.get(of, "auto")
        if self.values.get("devices") == "none":
            return 0
        if said in ("auto", "all") or said.startswith("-"):
            return ALL if said == "all" else None
        return self.number(of, 0)


def _pairs(words: tuple[str, ...]) -> Iterator[tuple[str, str | None]]:
    """Each word in llama-server's own spelling, with the next word."""
    for word, following in pairwise((*words, None)):
        if word is not None:
            yield word.replace("_", "-") if word.startswith("--") else word, following
