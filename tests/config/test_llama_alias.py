"""The name under which llama-server reports its model."""

from __future__ import annotations

import pytest

from hotseat.config.specs import ALIAS, with_alias


def test_llama_server_gets_the_name_of_its_model() -> None:
    """Beside the variables that the configuration sets."""
    assert with_alias("qwen", ("llama-server", "-m", "x.gguf"), (("A", "b"),)) == (("A", "b"), (ALIAS, "qwen"))


@pytest.mark.parametrize(
    ("command", "env"),
    [
        ("llama-server --alias other", ()),
        ("llama-server -a other", ()),
        ("llama-server --alias=other", ()),
        ("llama-server -m x.gguf", ((ALIAS, "other"),)),
        ("vllm serve qwen", ()),
        ("python server.py", ()),
    ],
)
def test_other_servers_and_other_aliases_are_left_alone(command: str, env: tuple[tuple[str, str], ...]) -> None:
    """An alias of the configuration wins, and only llama-server knows the variable."""
    assert with_alias("qwen", tuple(command.split()), env) == env
