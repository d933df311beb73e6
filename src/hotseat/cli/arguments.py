"""Normalises command line arguments."""

from __future__ import annotations

import re

SINGLE_DASHED = re.compile(r"-(config|config-dir|listen|watch-config|tls-cert-file|tls-key-file)(=.*)?", re.DOTALL)


def normalised(argv: list[str]) -> list[str]:
    """Accept llama-swap's long options with one dash, so that scripts with them keep working."""
    return [f"-{word}" if SINGLE_DASHED.fullmatch(word) else word for word in argv]
