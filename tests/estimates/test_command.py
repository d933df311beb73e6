"""Finds the server in a command line."""

from __future__ import annotations

import shlex

import pytest

from hotseat.estimates.command import Engine, server_in
from hotseat.estimates.report import CannotEstimate

SERVER = "llama-server -m m.gguf -c 4096"
LLAMAS = {
    "bare": SERVER,
    "by its path": "/opt/llama.cpp/build/bin/llama-server -m m.gguf -c 4096",
    "with its own environment": f"env -u X CUDA_VISIBLE_DEVICES=0 {SERVER}",
    "nicely": f"nice -n 5 taskset -c 0-3 {SERVER}",
    "in a shell": f"bash -c 'exec {SERVER}'",
    "in a login shell": f"bash -lc 'cd /srv && {SERVER}'",
    "in a shell in a shell": f"sh -c \"bash -c '{SERVER}'\"",
    "in a container": "docker run --rm -it --gpus all -v /srv:/m ghcr.io/ggml-org/llama.cpp:server -m m.gguf -c 4096",
    "in a container by name": "podman run --name=x -p 9:9 my/image:1 /app/llama-server -m m.gguf -c 4096",
    "as an entry point": "docker run --entrypoint /app/llama-server my/image -m m.gguf -c 4096",
}


@pytest.mark.parametrize("name", LLAMAS)
def test_llama_server_is_found(name: str) -> None:
    """Its own options count, whatever wraps it."""
    server = server_in(tuple(shlex.split(LLAMAS[name])))

    assert (server.engine, server.options) == (Engine.LLAMA, ("-m", "m.gguf", "-c", "4096"))


def test_a_program_of_another_name_is_known_by_its_model() -> None:
    """Forks and wrappers of llama-server take a GGUF file with -m like the original."""
    server = server_in(("/opt/ik/server", "-m", "m.gguf", "-c", "4096"))

    assert server.engine is Engine.LLAMA
    assert server.options[-2:] == ("-c", "4096")


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve /srv/qwen --max-model-len 8192",
        "uv run vllm serve /srv/qwen --max-model-len 8192",
        "python -m vllm.entrypoints.openai.api_server /srv/qwen --max-model-len 8192",
        "docker run --runtime nvidia -e HF_TOKEN=x --ipc=host vllm/vllm-openai:latest /srv/qwen --max-model-len 8192",
    ],
)
def test_vllm_is_found(command: str) -> None:
    """A command, a module and an image are recognised."""
    server = server_in(tuple(shlex.split(command)))

    assert (server.engine, server.options) == (Engine.VLLM, ("/srv/qwen", "--max-model-len", "8192"))


@pytest.mark.parametrize(
    "command", ["whisper-server -m base.bin", "bash start.sh", 'bash -c "\'"', "docker ps", "docker run --rm", ""]
)
def test_another_server_is_no_guess(command: str) -> None:
    """An unknown server gives an error that says what to do."""
    with pytest.raises(CannotEstimate, match="set memory manually"):
        server_in(tuple(shlex.split(command)))


def test_shells_without_end_are_given_up() -> None:
    """A command line that wraps itself repeatedly is refused."""
    command = SERVER
    for _ in range(9):
        command = f"sh -c {shlex.quote(command)}"

    with pytest.raises(CannotEstimate):
        server_in(tuple(shlex.split(command)))


@pytest.mark.parametrize(
    "mount",
    ["-v /data/gguf:/models:ro", "--volume=/data/gguf:/models", "--mount type=bind,source=/data/gguf,target=/models"],
)
def test_a_container_sees_files_under_other_names(mount: str) -> None:
    """A mounted path is mapped to this machine's; any other stays as it is."""
    command = f"docker run {mount} -v volume:/models2 ghcr.io/ggml-org/llama.cpp:server -m /models/m.gguf"
    server = server_in(tuple(shlex.split(command)))

    assert server.outside("/models/a/m.gguf") == "/data/gguf/a/m.gguf"
    assert server.outside("/models3/m.gguf") == "/models3/m.gguf"


def test_variables_of_every_layer_count() -> None:
    """The model's environment and env's count, the innermost last."""
    server = server_in(("env", "A=1", "B=1", "llama-server", "-m", "m.gguf"), {"A": "0", "Z": "0"})

    assert server.env == {"A": "1", "B": "1", "Z": "0"}


@pytest.mark.parametrize(
    ("options", "inside"),
    [
        ("-e B=2 -e C=2", {"B": "2", "C": "2"}),
        ("-e A --env B=2 -e NOWHERE", {"A": "1", "B": "2"}),
        ("--env-host -e B=2", {"A": "1", "B": "2", "Z": "0"}),
    ],
)
def test_only_what_a_container_is_given_is_in_its_environment(options: str, inside: dict[str, str]) -> None:
    """The client's variables stay outside unless an option passes them on."""
    command = f"env A=1 B=1 docker run {options} ghcr.io/ggml-org/llama.cpp:server -m m.gguf"
    server = server_in(tuple(shlex.split(command)), {"A": "0", "Z": "0"})

    assert server.env == inside
