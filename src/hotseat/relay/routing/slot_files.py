"""PURE: which requests make a llama-server write or read the file of a slot.

In hotseat's folder of saved conversations only hotseat does that: what others write there is in no budget, and is
removed when the server ends. Without hotseat's folder a llama-server refuses these requests itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote_to_bytes

from hotseat.errors import Forbidden

if TYPE_CHECKING:
    from hotseat.catalog.spec import ModelSpec

HARMLESS = b"erase"
_SLOT = re.compile(rb".*/slots/[^/]+/?")
"""In a decoded path; llama-server may have been told to expect a prefix."""


def check_slot_files(spec: ModelSpec, method: bytes, target: bytes) -> None:
    """Raises if the request would use a file of a slot whose conversations hotseat keeps."""
    if not spec.keeps_conversations or method != b"POST":
        return
    path, _, query = target.partition(b"?")
    if _SLOT.fullmatch(unquote_to_bytes(path)) and not _only_erases(query):
        raise Forbidden(
            f"hotseat keeps the conversations of {spec.name} itself, so clients cannot save or restore its slots."
            " To do that, set --slot-save-path in its command; hotseat does not keep its conversations then."
        )


def _only_erases(query: bytes) -> bool:
    """Of several actions a server may choose any, and without one it may find it in the body."""
    actions = [value for name, value in parse_qsl(query, keep_blank_values=True) if name == b"action"]
    return bool(actions) and all(action == HARMLESS for action in actions)
