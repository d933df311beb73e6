"""Removes secrets, environment values, home directories and contents of requests from what leaves this machine.

The server masks what it knows already. This is the second pass, over every text, with all that this machine knows.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from hotseat.catalog.redaction import HIDDEN, NAMES, SHORTEST_SECRET, redacted_text, secrets_in, without
from hotseat.config.effective import secrets_of_settings
from hotseat.config.environment import Concealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotseat.catalog.spec import LaunchRecipe
    from hotseat.config.load import Loaded

_QUOTED = re.compile(
    rf"""((?<![\w-])[\w-]*(?:{NAMES}|cookie)\\*["']?\s*[:=]\s*[rbuf]?)(\\*["'])(?:(?!\2)(?:\\.|.))*(?:\2|$)""",
    re.IGNORECASE | re.MULTILINE,
)
"""`'HF_TOKEN': '…'`, `"api_key": "…"` and `token='…'`, as programs print their settings, also inside a JSON string."""
_ASSIGNED = re.compile(
    rf"""(?<![\w-])([\w-]*(?:{NAMES})(?:=|\s+=\s+|\s*:\s+))(?![rbuf]?\\*["'])[^\s"',;&]+""", re.IGNORECASE
)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE)
_KEY = re.compile(
    r"\b(?:(?:hs|sk|hf|nvapi|gh[opsur]|github_pat|glpat|xox[abp])[-_][\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|eyJ[\w-]{8,}(?:\.[\w-]+){1,4})"
)
"""Keys with a usual beginning, such as `hs-` of `hotseat keys` and that of a JWT."""
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)|(?:(?<=\| )|^)[A-Za-z0-9+/]{60,}={0,2}$",
    re.DOTALL | re.MULTILINE,
)
"""Keys in files, and lines of one whose beginning is not among the lines."""
_HOME = re.compile(r"(?:/home|/Users)/[^/\s\"':,]+")
_PARTS = "messages|content|prompts?|inputs?|text|system|query|documents"
_TEMPLATE = r"<\|(?:im_start|start_header_id|system|user|assistant)\|>|<start_of_turn>|\[INST\]"
_TEMPLATE_END = re.compile(r"<\|(?:im_end|eot_id|end)\|>|<end_of_turn>|\[/INST\]")
_CONTENT = re.compile(
    rf"""\\*["'](?:{_PARTS})\\*["']\s*:"""
    rf"""|(?<![a-z])(?:{_PARTS})\s*[:=]\s*[\[(]*[rbuf]?\\*["']"""
    rf"""|(?:input|token)_ids\\*["']?\s*[:=]\s*\[+\d|formatted[ _](?:prompt|chat)\b|next token:|{_TEMPLATE}""",
    re.IGNORECASE,
)
"""Model servers that log a lot print the bodies of requests and what they answer."""
_OPENED = re.compile(_TEMPLATE)
_ENVIRONMENT = re.compile(r"""(?<!\w)PATH["']?\s*[:=]""")
"""A line with a whole environment."""
_VARIABLE = re.compile(r"(\| [A-Z_][A-Z0-9_]*=).+")
"""A line of `env`, after the time and the name of the model."""
_AUDIT = re.compile(r"\| [A-Z]+ (?:audit actor=|API key )")
"""Lines of hotseat's own log with names of keys and of clients."""
LONGEST_LINE = 500
LEFT_OUT = "(a line was left out: it has contents of a request, an environment, or who did what)"


class Mask:
    def __init__(self, loaded: Loaded | None, environ: Mapping[str, str], api_key: str | None = None) -> None:
        """Without a configuration, only the names of things tell what is secret."""
        known = {*(secrets_in_configuration(loaded) if loaded else ()), api_key or ""}
        self._secrets = sorted((each for each in known if len(each) >= SHORTEST_SECRET), key=len, reverse=True)
        self._environment = Concealed({name: value for name, value in environ.items() if name != "HOME"})
        self._home = environ.get("HOME", "")

    def text(self, text: str) -> str:
        text = redacted_text(without(text, self._secrets))
        text = _QUOTED.sub(rf"\1\2{HIDDEN}\2", _PEM.sub(HIDDEN, text))
        text = _ASSIGNED.sub(rf"\1{HIDDEN}", text)
        text = _KEY.sub(HIDDEN, _BEARER.sub(rf"\1 {HIDDEN}", text))
        return self._without_home(self._environment.text(text))

    def tree(self, value: Any, masked: Callable[[str], str] | None = None) -> Any:
        """A JSON value with every text in it masked, keys included. `masked` is for the texts; see `output`."""
        if isinstance(value, dict):
            return {self.text(str(key)): self.tree(member, masked) for key, member in value.items()}
        if isinstance(value, list | tuple):
            return [self.tree(item, masked) for item in value]
        return (masked or self.text)(value) if isinstance(value, str) else value

    def output(self, text: str) -> str:
        """Of a model server, which may print requests and its environment; also what hotseat quotes from it."""
        lines = _PEM.sub(HIDDEN, text).splitlines()  # before its lines are cut
        prompts = inside_templates(lines)
        kept = (LEFT_OUT if number in prompts else self._line(line) for number, line in enumerate(lines))
        return self.text("\n".join(kept))

    @staticmethod
    def _line(line: str) -> str:
        if _CONTENT.search(line) or _ENVIRONMENT.search(line) or _AUDIT.search(line):
            return LEFT_OUT
        return _VARIABLE.sub(rf"\1{HIDDEN}", line[:LONGEST_LINE])

    def _without_home(self, text: str) -> str:
        if len(self._home) > 1:
            text = text.replace(self._home, "~")
        return _HOME.sub("~", text)


def inside_templates(lines: Sequence[str]) -> set[int]:
    """Numbers of the lines from the beginning of a message, `<|im_start|>`, to its end."""
    inside: set[int] = set()
    opened = None
    for number, line in enumerate(lines):
        if opened is not None and _TEMPLATE_END.search(line):
            inside.update(range(opened, number + 1))
            opened = None
        if _OPENED.search(line):
            opened = number
    return inside


def secrets_in_configuration(loaded: Loaded) -> Iterator[str]:
    yield from secrets_of_settings(loaded)
    yield from loaded.concealed.long_values
    for spec in loaded.catalog.models.values():
        yield from _secrets_of(spec.recipe)


def _secrets_of(recipe: LaunchRecipe) -> Iterator[str]:
    """Every value of `env` that is no path of this machine, whatever its name."""
    yield from secrets_in((*recipe.argv, *(recipe.stop or ())))
    yield from (value for _, value in recipe.env if not os.path.exists(value))
