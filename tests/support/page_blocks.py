"""The blocks of a documentation page, and the comparison of what they show with what was printed.

Blocks of a page, in its order:
- `sh` runs as a whole; a block that ends with `hotseat serve` or `nats-server` keeps running.
- `console` has commands after `$ `, each followed by its output; … stands for anything in a line, or for lines.
- A `console` block after `<!-- repeat: UNTIL WHEN -->` is repeated until it shows what the page shows.
- Any block after the comment `<!-- file: NAME -->` is written to that file.
- `<!-- copied: NAME from PAGE -->` writes the file of that name of another page below docs.
- A block after `<!-- not run: REASON -->` is skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scripts.make_docs import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator

SHELL = ("sh", "console")
BLOCK = re.compile(
    r"^<!-- copied: (?P<copy>\S+) from (?P<page>\S+) -->$"
    r"|(?:^<!-- (?P<mark>file|not run|repeat): (?P<about>.+?) -->\n+)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    kind: str
    text: str
    mark: str = ""
    about: str = ""
    """The file's name, until when it is repeated, or why it is not run."""


def blocks_of(page: str) -> list[Block]:
    return [_block(found) for found in BLOCK.finditer(page)]


def _block(found: re.Match[str]) -> Block:
    if found["copy"]:
        return Block("", file_of(found["page"], found["copy"]), "file", found["copy"])
    return Block(found["kind"], found["text"], found["mark"] or "", found["about"] or "")


def file_of(page: str, name: str) -> str:
    """The text of the file that a page below docs tells its readers to write."""
    [text] = [
        block.text for block in blocks_of((DOCS / page).read_text()) if (block.mark, block.about) == ("file", name)
    ]
    return text


def can_be_followed(page: str) -> bool:
    """Whether a page has commands to run."""
    return any(block.kind in SHELL and block.mark != "not run" for block in blocks_of(page))


def session(shown: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block and its expected output."""
    for part in re.split(r"^\$ ", shown, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        ends = next(number for number, line in enumerate(lines) if not line.endswith("\\\n"))
        yield "".join(lines[: ends + 1]), "".join(lines[ends + 1 :])


def matches(shown: str, printed: str) -> bool:
    """Compare line by line; … matches any part of a line, and alone any lines. Widths and empty lines do not matter."""
    seen = _lines(printed)
    reached = {0}  # the numbers of printed lines that what was compared so far can stand for
    for line in _lines(shown):
        if line == "…":
            reached = {*range(min(reached), len(seen) + 1)}
        else:
            reached = {n + 1 for n in reached if n < len(seen) and _is_like(line, seen[n])}
        if not reached:
            return False
    return len(seen) in reached


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _is_like(shown: str, printed: str) -> bool:
    """Not by a regular expression, which may take minutes to find that a line with several … does not match."""
    first, *parts = shown.split("…")
    if not parts:
        return shown == printed
    *between, last = parts
    at = len(first)
    for part in between:
        found = printed.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return printed.startswith(first) and printed.endswith(last) and len(printed) - len(last) >= at
