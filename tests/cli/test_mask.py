"""What leaves this machine in a bundle or a report has no secrets, wherever a program prints them."""

from __future__ import annotations

import pytest

from hotseat.cli.reports.mask import Mask

MASK = Mask(None, {"HOME": "/srv/ada", "SETTING": "an unusual value", "LANG": "C"}, "the-key-of-ada")
HEAD = "2026-11-17T23:51:47.584Z qwen |"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("sent the-key-of-ada to it", "sent (hidden) to it"),
        ("{'HF_TOKEN': 'abc d', \"api_key\": \"x\"}", "{'HF_TOKEN': '(hidden)', \"api_key\": \"(hidden)\"}"),
        ("HF_TOKEN=abc and ?api_key=abc&x=1", "HF_TOKEN=(hidden) and ?api_key=(hidden)&x=1"),
        ("with Bearer abcdefgh", "with Bearer (hidden)"),
        ("nats://u:abc@host:4222", "nats://u:(hidden)@host:4222"),
        ("key hs-JCHNd-MmNKwt91_NLF4XD", "key (hidden)"),
        ("it was an unusual value", "it was ${env.SETTING}"),
        ("/srv/ada/m.gguf /home/bob/m.gguf /Users/eve/m.gguf", "~/m.gguf ~/m.gguf ~/m.gguf"),
        ('"prompt_tokens": 20, tokens: 4, 14 tokens/s', '"prompt_tokens": 20, tokens: 4, 14 tokens/s'),
    ],
)
def test_a_text(text: str, masked: str) -> None:
    """Secrets are known by their value, their name or their form; figures stay."""
    assert MASK.text(text) == masked


def test_a_tree() -> None:
    """Names in it are masked like values, and numbers stay."""
    assert MASK.tree({"/srv/ada": ["the-key-of-ada", 7, None, True]}) == {"~": ["(hidden)", 7, None, True]}


@pytest.mark.parametrize(
    "said",
    [
        'request: {"messages": [{"role": "user", "content": "secret"}]}',
        "Received request chatcmpl-1: prompt: 'secret', params: x",
        "slot process_toke: n_gen = 4, next token: 700 ' secret'",
        "environ({'PATH': '/bin', 'A': 'secret'})",
        "SOMETHING=secret",
    ],
)
def test_a_line_of_a_model_server(said: str) -> None:
    """Contents of requests and environments are removed; the lines around them stay, as far as they are not long."""
    kept = MASK.output(f"{HEAD} before\n{HEAD} {said}\n{HEAD} after {'x' * 1000}").splitlines()

    assert (kept[0], len(kept), len(kept[2])) == (f"{HEAD} before", 3, 500)
    assert "secret" not in kept[1]
