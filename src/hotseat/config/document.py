"""Parses one YAML file into plain values and the position of every path."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace
from yaml.error import YAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from hotseat.config import yaml12
from hotseat.config.env import Substituted, substitute
from hotseat.config.env_values import Concealed
from hotseat.config.problems import Path, Problems, Severity, Spot
from hotseat.config.yaml_problems import YamlProblems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_CHARACTERS = 4_000_000
MAX_VALUES = 200_000


class Document(Struct, frozen=True):
    value: dict[str, Any]
    spots: dict[Path, Spot] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)
    """Numbers, booleans and nulls as written: `4.10` is a valid name and differs from 4.1."""
    variables: dict[Path, frozenset[str]] = field(default_factory=dict)
    """Environment variables whose values were substituted into each scalar."""
    values: dict[str, str] = field(default_factory=dict)
    """The values of these variables."""
    broken: frozenset[Path] = frozenset()
    """Scalars with a variable that could not be substituted."""
    anchors_only: frozenset[str] = frozenset()
    """Top-level keys that hold anchors used elsewhere in the file."""


def parse(text: str, file: str, environ: Mapping[str, str], problems: Problems) -> Document | None:
    """Parse a file; None if it cannot be read at all. Errors go to `problems`."""
    if len(text) > MAX_CHARACTERS:
        problems.write(Severity.ERROR, Spot(file, 1, 1), (), f"the file is larger than {MAX_CHARACTERS:,} characters")
        return None
    source = substitute(text, environ)
    values = {name: environ[name] for name in {each.name for each in source.replacements} if name in environ}
    problems.hide_with(Concealed(values))
    document = _Parse(source, text, file, problems).document()
    return document and replace(document, values=values)


class _TooMuch(Exception):
    """Aliases expand a few lines into more values than anybody intends."""


class _Parse:
    def __init__(self, source: Substituted, original: str, file: str, problems: Problems) -> None:
        self._source = source
        self._problems = YamlProblems(source, original, file, problems)
        self._unset = frozenset(problem.name for problem in source.problems)
        self._left = MAX_VALUES
        self._broken: set[Path] = set()
        self._document = Document({})

    def document(self) -> Document | None:
        self._problems.report_substitution()
        try:
            tree = yaml12.compose(self._source.text)
        except YAMLError as error:
            self._problems.report_syntax(error)
            return None
        return self._read(tree.root, tree.aliases)

    def _read(self, root: Node | None, aliases: Sequence[tuple[int, Node]]) -> Document | None:
        if root is None or (isinstance(root, ScalarNode) and root.tag == yaml12.NULL):
            return self._document
        if not isinstance(root, MappingNode):
            self._problems.report(root, (), "the file must contain a mapping, as in `models: …`")
            return None
        try:
            value = self._mapping(root, ())
        except _TooMuch:
            self._problems.report(root, (), f"aliases expand to more than {MAX_VALUES:,} values, or endlessly")
            return None
        read = self._document
        anchors_only = frozenset(_anchors_only(root, aliases))
        return replace(read, value=value, broken=frozenset(self._broken), anchors_only=anchors_only)

    # Values

    def _value(self, node: Node, path: Path) -> Any:
        self._count(len(path))
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return self._sequence(node, path)
        return self._scalar(node, path)

    def _count(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > yaml12.MAX_DEPTH:
            raise _TooMuch

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        self._refuse_tag(node, yaml12.MAP, path)
        members = self._members(node, path)
        return {name: self._member(name, key, value, path) for name, (key, value) in members.items()}

    def _member(self, name: str, key: Node, value: Node, path: Path) -> Any:
        self._document.spots[(*path, name)] = self._problems.spot(key)
        return self._value(value, (*path, name))

    def _members(self, node: MappingNode, path: Path, depth: int = 0) -> dict[str, tuple[Node, Node]]:
        """A mapping's own keys, then those that `<<` merges in; earlier mappings win over later ones."""
        self._count(depth)
        members: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if key.tag != yaml12.MERGE and (name := self._key(key, path)) is not None:
                self._refuse_duplicate(name, key, members, path)
                members[name] = (key, value)
        for merged in [value for key, value in node.value if key.tag == yaml12.MERGE]:
            for source in merged.value if isinstance(merged, SequenceNode) else [merged]:
                members = {**self._merged(source, path, depth), **members}
        return members

    def _merged(self, source: Node, path: Path, depth: int) -> dict[str, tuple[Node, Node]]:
        if isinstance(source, MappingNode):
            return self._members(source, path, depth + 1)
        self._problems.report(source, (*path, "<<"), "must be a mapping or a list of mappings")
        return {}

    def _key(self, key: Node, path: Path) -> str | None:
        if isinstance(key, ScalarNode):
            return str(key.value)
        self._problems.report(key, path, "a key must be a scalar, not a list or a mapping")
        return None

    def _refuse_duplicate(self, name: str, key: Node, own: dict[str, tuple[Node, Node]], path: Path) -> None:
        if first := own.get(name):
            line = self._problems.spot(first[0]).line
            self._problems.report(key, (*path, name), f"duplicate key, first defined in line {line}")

    def _sequence(self, node: SequenceNode, path: Path) -> list[Any]:
        self._refuse_tag(node, yaml12.SEQ, path)
        items = []
        for position, item in enumerate(node.value):
            self._document.spots[(*path, position)] = self._problems.spot(item)
            items.append(self._value(item, (*path, position)))
        return items

    def _scalar(self, node: Node, path: Path) -> Any:
        self._note_variables(node, path)
        try:
            value = yaml12.scalar(node.tag, node.value)
        except ValueError as error:
            self._problems.report(node, path, str(error))
            return node.value
        if isinstance(value, float) and not isfinite(value):
            return node.value
        if "\0" in node.value:
            self._problems.report(node, path, "must not contain a NUL")
        if not isinstance(value, str):
            self._document.written[path] = node.value
        return value

    def _note_variables(self, node: Node, path: Path) -> None:
        names = self._source.names_within(node.start_mark.index, node.end_mark.index)
        if names:
            self._document.variables[path] = names
        if names & self._unset:
            self._broken.add(path)

    def _refuse_tag(self, node: Node, usual: str, path: Path) -> None:
        if node.tag != usual and not self._problems.report_variable(node.start_mark.index, path):
            self._problems.report(node, path, f'the tag "{node.tag}" is not supported')


def _anchors_only(root: MappingNode, aliases: Sequence[tuple[int, Node]]) -> Iterator[str]:
    """The top-level keys that contain an anchor whose alias is used outside of them."""
    for key, value in root.value:
        start, end = key.end_mark.index, value.end_mark.index  # an alias used as a value ends before its key begins
        if any(start <= node.start_mark.index < end and not start <= used < end for used, node in aliases):
            yield str(key.value)
