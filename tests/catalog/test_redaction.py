"""Which of a server's arguments are secrets."""

from __future__ import annotations

import pytest

from hotseat.catalog.redaction import secrets_in


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
