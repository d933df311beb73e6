"""Which of a server's arguments are secrets."""

from __future__ import annotations

import time

import pytest

from hotseat.catalog.redaction import HIDDEN, redacted, secrets_in, without
from hotseat.catalog.template import sealed, unsealed


@pytest.mark.parametrize(
    ("argv", "secrets"),
    [
        (("--api-key", "sk-1"), ["sk-1"]),
        (("--api-key=sk-1",), ["sk-1"]),
        (("--api_key", "sk-1,sk-2"), ["sk-1,sk-2", "sk-1", "sk-2"]),
        (("--hf-token", "hf_1", "-m", "x"), ["hf_1"]),
        (("--password", "p"), ["p"]),
        (("--api-key",), []),
        (("--api-key=",), []),
        (("--max-tokens", "512", "--tokenizer", "x", "--api-key-file", "keys"), []),
    ],
)
def test_values_of_secret_options_are_found(argv: tuple[str, ...], secrets: list[str]) -> None:
    """In both spellings, and every key of a list; what only sounds alike is left alone."""
    assert list(dict.fromkeys(secrets_in(argv))) == secrets


@pytest.mark.parametrize("piece", ["a-", "a.", "--", "token", "token: ", "a://b:", "-hft "])
def test_a_long_text_takes_no_longer_than_it_is(piece: str) -> None:
    """A command line may be as long as a file allows, and is redacted whenever the configuration is shown."""
    began = time.process_time()
    redacted([piece * 20_000])
    list(secrets_in([piece * 20_000]))

    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "text", ["\ue000\ue001", "\ue000d800\ue001", "\ue000abc\ue001", "\ue000zz", "x\ue0000041004200\ue001y"]
)
def test_what_looks_sealed_does_no_harm(text: str) -> None:
    """Private-use characters are treated like any others."""
    assert isinstance(unsealed(text), str)


@pytest.mark.parametrize("name", ["a b", "it's", "\udcff.gguf", "日本", "🙂", ""])
def test_what_was_sealed_comes_back(name: str) -> None:
    """Also names of files that are no UTF-8."""
    assert unsealed(f"x{sealed(name)}y") == f"x{name}y"


def test_a_text_without_its_secrets() -> None:
    """Each of them is hidden wherever it stands."""
    assert without("sk-1 and p and sk-1", ["sk-1", "p"]) == f"{HIDDEN} and {HIDDEN} and {HIDDEN}"
