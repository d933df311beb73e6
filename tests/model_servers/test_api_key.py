"""The key with which hotseat asks a server, as its command line and environment have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hotseat.model_servers.api_key import authorization, key_of, with_key

if TYPE_CHECKING:
    from pathlib import Path

SERVER = ("llama-server", "-m", "a.gguf")


@pytest.mark.parametrize(
    ("argv", "env", "key"),
    [
        (SERVER, {}, ""),
        ((*SERVER, "--api-key", "one"), {}, "one"),
        ((*SERVER, "--api_key", "one,two"), {}, "one"),
        ((*SERVER, "--api-key", " ,two"), {}, "two"),
        (SERVER, {"LLAMA_API_KEY": "three,four"}, "three"),
        ((*SERVER, "--api-key", "one"), {"LLAMA_API_KEY": "three"}, "one"),
        (("sh", "-c", "exec llama-server --api-key one"), {}, "one"),
        (("serve.sh", "--api-key", "one"), {}, "one"),
        (("docker", "run", "-e", "LLAMA_API_KEY=one", "ghcr.io/llama.cpp"), {"LLAMA_API_KEY": "ours"}, "one"),
        (("docker", "run", "ghcr.io/llama.cpp"), {"LLAMA_API_KEY": "ours"}, ""),
        ((*SERVER, "--api-key", "on\r\ne"), {}, ""),
        ((*SERVER, "--api-key"), {}, ""),
        (("vllm", "serve", "m"), {"VLLM_API_KEY": "five", "LLAMA_API_KEY": "three"}, "five"),
    ],
)
def test_where_a_server_has_its_key_from(argv: tuple[str, ...], env: dict[str, str], key: str) -> None:
    """The first of several is enough; one that would break the header is not sent."""
    assert key_of(argv, env) == key


@pytest.mark.parametrize(
    ("argv", "env", "variable"),
    [
        (SERVER, {}, "LLAMA_API_KEY"),
        (("sh", "-c", "exec llama-server"), {}, "LLAMA_API_KEY"),
        (("vllm", "serve", "m"), {"LLAMA_API_KEY": "another program's"}, "VLLM_API_KEY"),
        (("docker", "run", "-e", "LLAMA_API_KEY", "ghcr.io/llama.cpp"), {}, "LLAMA_API_KEY"),
        (("docker", "run", "ghcr.io/llama.cpp"), {}, None),
        (("whisper-server", "-m", "a.bin"), {}, None),
        (("serve.sh",), {}, None),
        ((*SERVER, "--api-key", "one"), {}, None),
        (("vllm", "serve", "m", "--api_key=one"), {}, None),
        ((*SERVER, "--api-key-file", "/keys"), {}, None),
        (SERVER, {"LLAMA_API_KEY": "one"}, None),
        (SERVER, {"LLAMA_API_KEY": ""}, None),
        (SERVER, {"LLAMA_ARG_API_KEY_FILE": "/keys"}, None),
    ],
)
def test_which_servers_get_a_key(argv: tuple[str, ...], env: dict[str, str], variable: str | None) -> None:
    """Those that read it from their environment, unless the configuration says something about keys."""
    made = with_key(argv, env)

    assert [*made] == [variable] * bool(variable)
    assert key_of(argv, {**env, **made}) == (made[variable] if variable else key_of(argv, env))
    assert made == {} or made != with_key(argv, env)


@pytest.mark.parametrize("text", ["# comment\n\none\ntwo\n", "one", "\none \r\n"])
def test_a_file_of_keys(tmp_path: Path, text: str) -> None:
    """One on each line, comments aside; the option and the variable name the same file."""
    file = tmp_path / "keys"
    file.write_text(text)

    assert key_of((*SERVER, "--api-key-file", str(file)), {}) == "one"
    assert key_of(SERVER, {"LLAMA_ARG_API_KEY_FILE": str(file)}) == "one"
    mounted = ("docker", "run", "-v", f"{tmp_path}:/keys", "ghcr.io/llama.cpp", "--api-key-file", "/keys/keys")
    assert key_of(mounted, {}) == "one"


def test_a_file_of_keys_that_cannot_be_read(tmp_path: Path) -> None:
    """The server does not start then either."""
    assert key_of((*SERVER, "--api-key-file", str(tmp_path)), {}) == ""


def test_no_header_without_a_key() -> None:
    """An empty one would be refused."""
    assert authorization("") == b""
    assert authorization("one") == b"Authorization: Bearer one\r\n"
