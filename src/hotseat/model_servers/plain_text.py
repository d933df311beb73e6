"""Server output as text without terminal control codes, in time proportional to its length."""

from __future__ import annotations

import re

# A string (title, link, clipboard) ends before the next ESC, as in terminals. A pattern that looked beyond would read
# the rest of the line once per ESC.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*+[ -/]*+[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)"  # titles, links, clipboard
    r"|\x1b[ -/]*+[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def plain_line(line: bytes) -> str:
    """One line without terminal escapes; of a progress bar, its last state."""
    text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
    return _ESCAPE.sub("", text)
