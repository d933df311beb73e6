"""PURE: find secrets in command lines, variables and URLs by their names, and remove them from text.

Values taken from the environment are secrets everywhere; config/environment.py knows them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HIDDEN = "(hidden)"
SHORTEST_SECRET = 6
"""Of a variable's value: hiding every `us` because of KEYBOARD=us would make output unreadable."""

NAMES = "api[-_]?key|token|secret|password|passwd|passphrase|credentials?|auth|authorization"
_FLAG = rf"(?:-hft|(?:--|-(?!-))(?!no-|enable-|disable-)(?:[\w-]*[-_])?(?:{NAMES}))"
_OPTION = re.compile(rf"{_FLAG}(?:=(?P<value>.*))?", re.IGNORECASE | re.DOTALL)
_INLINE = re.compile(rf"((?:^|(?<=\s)){_FLAG}(?:=|\s+))(\S+)", re.IGNORECASE)
_HEADER = re.compile(
    r"""(?<![\w-])([\w-]*(?:authorization|cookie|api-?key|token|secret))(\s*:\s*)([^\r\n"']+)""", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://[^\s/?#:@]*:)([^\s/?#@]+)(?=@)", re.IGNORECASE)
_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH", re.IGNORECASE)


def is_secret_name(variable: str) -> bool:
    return _NAME.search(variable) is not None


def redacted(argv: Sequence[str], secrets: Sequence[str] = ()) -> list[str]:
    """The command line without these secrets and without the values of `--api-key` and similar options."""
    words: list[str] = []
    hide_next = False
    for word in argv:
        hidden = hide_next or any(secret in word for secret in secrets)
        option = _OPTION.fullmatch(word)
        hide_next = option is not None and option["value"] is None
        words.append(HIDDEN if hidden else redacted_text(word))
    return words


def redacted_text(text: str) -> str:
    """The text without values that are secret by name: options, headers, passwords in URLs."""
    text = _HEADER.sub(rf"\1\2{HIDDEN}", without_url_passwords(text))
    return _INLINE.sub(rf"\1{HIDDEN}", text)


def without_url_passwords(text: str) -> str:
    return _URL_PASSWORD.sub(rf"\1{HIDDEN}", text)


def secrets_in(argv: Sequence[str], env: Iterable[tuple[str, str]] = ()) -> Iterator[str]:
    """Values of secret variables and of options such as --api-key, each key of a comma-separated list."""
    yield from (value for name, value in env if is_secret_name(name) and len(value) >= SHORTEST_SECRET)
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if option := _OPTION.fullmatch(word):
            value = following if option["value"] is None else option["value"]
            yield from (part for part in (value, *value.split(",")) if part)
        else:
            yield from _inside(word)


def _inside(word: str) -> Iterator[str]:
    """Secrets inside one word: in a header, a URL or a nested command line."""
    for pattern in (_URL_PASSWORD, _HEADER, _INLINE):
        for found in pattern.finditer(word):
            value = found[found.re.groups].strip()
            yield from (part for part in (value, value.partition(" ")[2]) if len(part) >= SHORTEST_SECRET)


def without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text
