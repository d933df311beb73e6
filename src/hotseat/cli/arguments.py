"""What people type, brought into one form."""

from __future__ import annotations

import re

SINGLE_DASHED = re.compile(r"-(config|config-dir|listen|watch-config|tls-cert-file|tls-key-file)(=.*)?", re.DOTALL)


def normalised(argv: list[str]) -> list[str]:
    """llama-swap's long flags have one dash; scripts that use them go on working."""
    return [f"-{word}" if SINGLE_DASHED.fullmatch(word) else word for word in argv]
