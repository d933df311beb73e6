"""Plain text for terminals: aligned columns, short durations and counts, no control sequences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NOTHING = "-"

# Whole CSI and OSC sequences, then every other control character except the tab.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)
_LINE_END = re.compile(r"(\r?\n)")


def without_escapes(text: str) -> str:
    return _ESCAPES.sub("", text)


def without_escapes_but_lines(text: str) -> str:
    """Line ends stay as they are, for programs that read them."""
    parts = enumerate(_LINE_END.split(text))
    return "".join(part if number % 2 else without_escapes(part) for number, part in parts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart, each as wide as its widest cell."""
    cells = [tuple(head), *(tuple(without_escapes(cell) or NOTHING for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def memory_text(size: int) -> str:
    """`210 MiB`; from a thousand on `1.2 GiB`."""
    return f"{size / (1 << 20):.0f} MiB" if size < 1000 << 20 else f"{size / (1 << 30):.1f} GiB"


def count_text(number: int) -> str:
    """`7.62 B`, `270 M`."""
    for unit, factor in (("T", 10**12), ("B", 10**9), ("M", 10**6)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return str(number)


def duration(seconds: float | None) -> str:
    """`42s`, `3m05s`, `2h07m`, `4d02h`; a dash for None."""
    if seconds is None:
        return NOTHING
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    for big, small, size, step in (("m", "s", 60, 1), ("h", "m", 3600, 60), ("d", "h", 86400, 3600)):
        if whole < size * 60 or big == "d":
            return f"{whole // size}{big}{whole % size // step:02}{small}"
    raise AssertionError("days have no end")
