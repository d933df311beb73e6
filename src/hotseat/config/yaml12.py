"""Parses YAML 1.2 into nodes: `no`, `on` and `12:30` stay text; object tags are refused; depth is limited."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from yaml.composer import Composer, ComposerError
from yaml.error import YAMLError
from yaml.events import AliasEvent
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

try:
    from yaml._yaml import CParser
except ImportError:  # PyYAML was built without libyaml
    CParser = None  # type: ignore[assignment,misc]  # the stub has it always

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yaml.nodes import Node

MAX_DEPTH = 64
_READ_DIFFERENTLY = re.compile("[\\t!?*\\x85\\u2028\\u2029\\ufeff]")
"""libyaml does not say where aliases are used, and accepts or counts some of the others differently."""

_TAG = "tag:yaml.org,2002:"
STR, NULL, BOOL, INT, FLOAT, MERGE = (_TAG + kind for kind in ("str", "null", "bool", "int", "float", "merge"))
MAP, SEQ = _TAG + "map", _TAG + "seq"

_PLAIN = (
    (NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (INT, r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (FLOAT, r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    (MERGE, r"<<", ["<"]),
)


class Tree(NamedTuple):
    root: Node | None
    aliases: Sequence[tuple[int, Node]] = ()
    """Where each alias is used, and what it stands for."""


def compose(text: str) -> Tree:
    """Raises YAMLError. libyaml takes a tenth of the time of PyYAML, but PyYAML's errors say more."""
    if CParser is not None and not _READ_DIFFERENTLY.search(text):
        with suppress(YAMLError, UnicodeEncodeError):
            return Tree(_WithLibyaml(text).get_single_node())
    composing = _WithPython(text)
    return Tree(composing.get_single_node(), composing.aliases)


class _Resolver(BaseResolver):
    """Says which type a plain scalar has."""


# PyYAML's classes are cooperative base classes without annotations.
class _WithPython(Reader, Scanner, Parser, Composer, _Resolver):
    """Composes one document and records where each alias is used."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        _Resolver.__init__(self)
        self.aliases: list[tuple[int, Node]] = []
        self._depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # the stub has no types
        mark: Any = event.start_mark
        if isinstance(event, AliasEvent):
            node = super().compose_node(parent, index)
            assert node is not None, "an alias always leads to a node"
            self.aliases.append((mark.index, node))
            return node
        self.anchors.pop(getattr(event, "anchor", None), None)  # an anchor may be redefined
        return self._one_deeper(parent, index, mark)

    def _one_deeper(self, parent: Node | None, index: Any, mark: Any) -> Node | None:
        if self._depth == MAX_DEPTH:
            raise ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


if CParser is not None:

    class _WithLibyaml(CParser, _Resolver):
        """Composes one document. libyaml calls these methods before and after each node."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            _Resolver.__init__(self)
            self._depth = 0

        def descend_resolver(self, current_node: Node | None, current_index: Any) -> None:
            if self._depth == MAX_DEPTH:
                raise ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", None)
            self._depth += 1

        def ascend_resolver(self) -> None:
            self._depth -= 1


for _tag, _pattern, _first in _PLAIN:
    _Resolver.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)


def scalar(tag: str, text: str) -> Any:
    """The value of a scalar; ValueError if its text does not match its tag."""
    if tag not in _VALUE_OF:
        raise ValueError(f'the tag "{tag.removeprefix(_TAG)}" is not supported')
    return _VALUE_OF[tag](text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f'"{text}" is not a boolean')
    return text.lower() == "true"


def _integer(text: str) -> int:
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


_VALUE_OF: dict[str, Callable[[str], Any]] = {
    STR: str,
    MERGE: str,
    NULL: lambda _: None,
    BOOL: _boolean,
    INT: _integer,
    FLOAT: float,
}
