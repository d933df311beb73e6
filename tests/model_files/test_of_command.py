"""The files that a command needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotseat.model_files.of_command import is_missing, needed_files

HERE = Path("/srv")
IN_DOCKER = ("docker", "run", "--rm")
LLAMA_IMAGE = ("ghcr.io/ggml-org/llama.cpp:server", "-m", "/models/chat.gguf")


@pytest.mark.parametrize(
    ("command", "files"),
    [
        (("llama-server", "-m", "models/chat.gguf"), ["/srv/models/chat.gguf"]),
        (("/opt/llama-server-b7000", "--model", "/m/chat.gguf"), ["/opt/llama-server-b7000", "/m/chat.gguf"]),
        (("nice", "-n", "5", "llama-server", "-m", "/m/chat.gguf"), ["/m/chat.gguf"]),
        (
            ("llama-server", "-m", "/m/c-00001-of-00002.gguf"),
            ["/m/c-00001-of-00002.gguf", "/m/c-00002-of-00002.gguf"],
        ),
        (
            ("llama-server", "-m", "/m/a.gguf", "--mmproj", "/m/p.gguf", "-md", "/m/d.gguf"),
            ["/m/a.gguf", "/m/p.gguf", "/m/d.gguf"],
        ),
        (("whisper-server", "-m", "models/base.bin"), ["/srv/models/base.bin"]),
        (("/opt/whisper-server", "-m", "/m/a.bin", "--model", "/m/b.bin"), ["/opt/whisper-server", "/m/b.bin"]),
        (("vllm", "serve", "/m/qwen", "--model", "/m/other"), ["/m/qwen"]),
        (("vllm", "serve", "--port", "1", "--model", "./qwen"), ["/srv/qwen"]),
        (
            ("/venv/bin/python3.12", "-m", "mlx_lm.server", "--model", "../m/qwen"),
            ["/venv/bin/python3.12", "/srv/../m/qwen"],
        ),
        (("llama-server", "-m", "/m/a.gguf", "--lora", "/m/l.gguf,/m/k.gguf"), ["/m/a.gguf", "/m/l.gguf", "/m/k.gguf"]),
        ((*IN_DOCKER, "-v", "/disk:/models", *LLAMA_IMAGE), ["/disk/chat.gguf"]),
        ((*IN_DOCKER, "-v", "/models:/models", *LLAMA_IMAGE), ["/models/chat.gguf"]),
    ],
    ids=[
        "relative",
        "absolute",
        "through nice",
        "parts",
        "projector and draft",
        "whisper",
        "the last option counts",
        "vLLM",
        "vLLM with an option",
        "MLX",
        "adapters",
        "mounted",
        "mounted in place",
    ],
)
def test_a_command_that_tells_its_files(command: tuple[str, ...], files: list[str]) -> None:
    """The files are found with all parts, and where they are on this machine."""
    assert needed_files(command, (), HERE) == [Path(file) for file in files]


@pytest.mark.parametrize(
    "command",
    [
        ("serve", "qwen"),
        ("whisper-server", "--port", "1"),
        ("vllm", "serve", "qwen/qwen3"),
        ("vllm", "serve", "~/qwen"),
        ("vllm", "bench", "/m/qwen"),
        ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "qwen/qwen3"),
        ("python3", "-m", "mlx_lm", "server", "--model", "mlx-community/qwen3"),
        ("python3", "-m", "mlx_lm", "server"),
        ("python3", "serve.py", "--model", "/m/qwen"),
        ("nice", "vllm", "serve", "/m/qwen"),
        ("sudo", "llama-server", "-m", "/m/chat.gguf"),
        ("sh", "-c", "exec llama-server -m /m/chat.gguf"),
        (*IN_DOCKER, "-v", "/disk:/models", "vllm/vllm-openai", "--model", "/models/qwen"),
        ("ssh", "gpu", "llama-server", "-m", "/m/chat.gguf"),
        ("bash", "-c", "llama-server -m $HOME/chat.gguf"),
        ("env", "-C", "/m", "llama-server", "-m", "chat.gguf"),
        ("llama-server", "-hf", "org/repo", "-m", "/m/chat.gguf"),
        ("llama-server", "-m", "/m/c-00001-of-00000.gguf"),
        (*IN_DOCKER, *LLAMA_IMAGE),
        (*IN_DOCKER, "-v", "volume:/models", *LLAMA_IMAGE),
    ],
    ids=[
        "unknown program",
        "whisper's own default",
        "a name for vLLM",
        "a home folder",
        "no server of vLLM",
        "a name for a module of vLLM",
        "a name for MLX",
        "MLX without a model",
        "a script",
        "vLLM through nice",
        "another user",
        "exec in a shell",
        "vLLM in a container",
        "another machine",
        "a shell",
        "another folder",
        "its own download",
        "impossible parts",
        "in the image",
        "in a volume",
    ],
)
def test_a_command_that_does_not_tell_its_files(command: tuple[str, ...]) -> None:
    """Where the files may be elsewhere, none is called missing."""
    assert needed_files(command, (), HERE) == []


@pytest.mark.parametrize(
    ("name", "missing"), [("there", False), ("absent", True), ("there/below", True), ("a" * 300, False), ("\0", False)]
)
def test_only_a_file_that_is_surely_not_there_is_missing(tmp_path: Path, name: str, missing: bool) -> None:
    """An error other than its absence says nothing about the file."""
    (tmp_path / "there").touch()

    assert is_missing(tmp_path / name) is missing
