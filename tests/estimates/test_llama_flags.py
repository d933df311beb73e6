"""llama-server's options that affect memory."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from tests.support.gguf_heads import FoundModels
from tests.support.llama import SERVER, present

from hotseat.estimates.estimate import estimate
from hotseat.estimates.llama_flags import ALL, MEANS, SWITCHES, VARIABLES, Attention, LlamaFlags
from hotseat.estimates.report import CannotEstimate

GONE = {"--mmap", "--no-mmap", "-cd", "--ctx-size-draft"}
"""Options of older versions."""


def flags(command: str, **env: str) -> LlamaFlags:
    return LlamaFlags.parse(tuple(shlex.split(command)), env)


@pytest.mark.llama
def test_the_options_are_llama_servers_own() -> None:
    """Every option name is in the help of the real server, except those of older versions."""
    help_text = subprocess.run([present(SERVER), "--help"], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", help_text)) | set(re.findall(r"LLAMA_ARG_\w+", help_text))
    asked = {*MEANS, *VARIABLES, *(name for sides in SWITCHES.values() for side in sides for name in side)}

    assert asked - names == GONE


def test_silence_means_what_llama_server_does_by_itself() -> None:
    """The default is four slots that share the trained context, f16, flash attention and mapped weights."""
    said = flags("-m m.gguf")

    assert (said.slots, said.unified, said.context(8192), said.micro_batch(8192)) == (4, True, 8192, 512)
    assert (said.quant("cache_keys").name, said.attention, said.is_mapped) == ("F16", Attention.FLASH, True)
    assert said.gpu_layers() is None


@pytest.mark.parametrize(
    ("command", "context"),
    [
        ("-c 4096", 4096),
        ("--ctx_size 4096", 4096),
        ("-c 4096 -np 2", 4096),
        ("-np 2", 2 * 8192),
        ("-np 2 -kvu", 8192),
        ("-np 2 --fit off", 8192),
        ("-np 2 --kv-unified-per-slot 3000", 6000),
        ("-c 512 -c 1024", 1024),
    ],
)
def test_the_context_of_all_slots(command: str, context: int) -> None:
    """A given context is for all slots together; otherwise each slot with its own cache gets the trained one."""
    assert flags(command).context(8192) == context


def test_a_word_wins_over_a_variable() -> None:
    """llama-server decides the same way."""
    said = flags("-c 1024", LLAMA_ARG_CTX_SIZE="2048", LLAMA_ARG_BATCH="64", LLAMA_ARG_KV_UNIFIED="0")

    assert (said.context(1), said.micro_batch(1024), said.unified) == (1024, 64, False)


@pytest.mark.parametrize(
    ("command", "is_mapped"),
    [("--no-mmap", False), ("--mmap", True), ("-lm none", False), ("-lm mmap+mlock", True), ("-lm mlock", False)],
)
def test_old_and_new_ways_to_load(command: str, is_mapped: bool) -> None:
    """`--no-mmap` became `--load-mode none`; both are understood."""
    assert flags(command).is_mapped is is_mapped


@pytest.mark.parametrize(
    ("command", "attention"),
    [("-fa off", Attention.TABLE), ("-fa on", Attention.FLASH), ("-fa -ctk q8_0", Attention.FLASH)],
)
def test_flash_attention_with_and_without_a_word(command: str, attention: Attention) -> None:
    """Older versions take -fa alone; the next word is still read as an option of its own."""
    said = flags(command)

    assert said.attention is attention
    assert said.quant("cache_keys").name == ("Q8_0" if "q8_0" in command else "F16")


@pytest.mark.parametrize(
    ("command", "layers"), [("-ngl 12", 12), ("-ngl all", ALL), ("-ngl 5 -dev none", 0), ("", None)]
)
def test_layers_on_a_device(command: str, layers: int | None) -> None:
    """A number, all, none, or the server's choice."""
    assert flags(command).gpu_layers() == layers


@pytest.mark.parametrize("said", ["-c many", "-ctk q9_9", "-np x"])
def test_nonsense_is_refused(said: str) -> None:
    """The message quotes the value."""
    with pytest.raises(CannotEstimate, match=said.split()[1]):
        estimate(("llama-server", "-m", "m.gguf", *said.split()), FoundModels())
