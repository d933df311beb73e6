"""Parses YAML files into one document of plain values, with the position of every path.

The dialect is YAML 1.2: `no`, `on` and `12:30` stay text; object tags are refused; depth is limited. Problems have
their place in the text as written: before variables were substituted.

Of several files, mappings merge, lists concatenate, null gives way to a value, anything else is a conflict.
"""

from __future__ import annotations

import re
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace
from yaml.composer import Composer, ComposerError
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import AliasEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from hotseat.catalog.template import holes
from hotseat.config.environment import Concealed, Substituted, substitute
from hotseat.config.problems import Path, Problems, Severity, Spot, value_at

try:
    from yaml._yaml import CParser
except ImportError:  # PyYAML was built without libyaml
    CParser = None  # type: ignore[assignment,misc]  # the stub has it always

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotseat.config.environment import Place

MAX_CHARACTERS = 4_000_000
MAX_VALUES = 200_000
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

# A name that two files define is an error, even if the definitions could be merged.
OWNED: set[Path] = {(key,) for key in ("models", "groups", "profiles", "selectors", "peers", "matrix")}
OWNED |= {("routing", "router", "settings", key) for key in ("groups", "matrix")}


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


def merge(documents: Sequence[Document], problems: Problems) -> Document:
    """Merge the documents; `problems` gets each conflict with both positions."""
    merged = documents[0]
    for later in documents[1:]:
        merged = _Merge(merged, later, problems).document()
    return merged


class Provenance:
    """Maps each value of a document to the variables it was made from, also through macros."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def variables(self, path: Path) -> frozenset[str]:
        found: set[str] = set()
        seen: set[Path] = set()
        waiting = [path]
        while waiting:
            here = waiting.pop()
            if here in seen:
                continue
            seen.add(here)
            found |= self._document.variables.get(here, frozenset())
            waiting += self._macros(value_at(self._document.value, here), path)
        return frozenset(found)

    def _macros(self, text: Any, path: Path) -> Iterator[Path]:
        """A model's own macros and those of the whole file, since the text may use either."""
        for name in holes(text) if isinstance(text, str) else ():
            yield ("macros", name)
            if path[0] == "models":
                yield (*path[:2], "macros", name)

    def by_place(self) -> dict[Place, frozenset[str]]:
        """The places that hold values of variables, each with the variables' names."""
        found: dict[Place, frozenset[str]] = {}
        for path in self._document.spots if self._document.variables else ():
            if variables := self.variables(path):
                place = Concealed.place_of(path)
                found[place] = found.get(place, frozenset()) | variables
        return found


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
            tree = compose(self._source.text)
        except YAMLError as error:
            self._problems.report_syntax(error)
            return None
        return self._read(tree.root, tree.aliases)

    def _read(self, root: Node | None, aliases: Sequence[tuple[int, Node]]) -> Document | None:
        if root is None or (isinstance(root, ScalarNode) and root.tag == NULL):
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
        if self._left < 0 or depth > MAX_DEPTH:
            raise _TooMuch

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        self._refuse_tag(node, MAP, path)
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
            if key.tag != MERGE and (name := self._key(key, path)) is not None:
                self._refuse_duplicate(name, key, members, path)
                members[name] = (key, value)
        for merged in [value for key, value in node.value if key.tag == MERGE]:
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
        self._refuse_tag(node, SEQ, path)
        items = []
        for position, item in enumerate(node.value):
            self._document.spots[(*path, position)] = self._problems.spot(item)
            items.append(self._value(item, (*path, position)))
        return items

    def _scalar(self, node: Node, path: Path) -> Any:
        self._note_variables(node, path)
        try:
            value = scalar(node.tag, node.value)
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


class YamlProblems:
    def __init__(self, source: Substituted, original: str, file: str, problems: Problems) -> None:
        self._source, self._original, self._file, self._problems = source, original, file, problems

    def spot(self, node: Node) -> Spot:
        return self._spot_of_mark(node.start_mark)

    def report(self, node: Node, path: Path, message: str) -> None:
        self._write(self.spot(node), path, message)

    def report_substitution(self) -> None:
        """Variables that could not be substituted."""
        for problem in self._source.problems:
            self._write(self._spot_of_original(problem.index), (), problem.message, problem.hint)

    def report_variable(self, index: int, path: Path) -> bool:
        """If the value of a variable is what YAML fails on, name the variable and do not quote its value."""
        if name := self._source.holder_of(index):
            said = f"the value of ${{env.{name}}} cannot be read as YAML here"
            self._write(self._spot_of_substituted(index), path, said, "Put it in double quotes")
        return bool(name)

    def report_syntax(self, error: YAMLError) -> None:
        spot, said = Spot(self._file, 1, 1), str(error)
        if isinstance(error, MarkedYAMLError) and error.problem_mark:
            spot, said = self._spot_of_mark(error.problem_mark), self._said(error)
            if self.report_variable(error.problem_mark.index, ()):
                return
        elif isinstance(error, ReaderError):
            spot = self._spot_of_substituted(error.position)
            said = f"{error.reason} (#x{error.character:04x})"
        self._write(spot, (), f"not valid YAML: {said}", _syntax_hint(said))

    def _said(self, error: MarkedYAMLError) -> str:
        """What is wrong, and where the construct begins: a missing quote is often noticed many lines later."""
        context, said = error.context or "", error.problem or str(error)
        if context and not context.startswith("while"):
            return f"{context}, {said}"
        begin, found = error.context_mark, error.problem_mark
        if not begin or not found or begin.line == found.line:
            return said
        return f"{said} ({context} that begins in line {self._spot_of_mark(begin).line})"

    def _write(self, spot: Spot, path: Path, message: str, hint: str = "") -> None:
        self._problems.write(Severity.ERROR, spot, path, message, hint)

    def _spot_of_mark(self, mark: Any) -> Spot:
        line_start = self._source.original(mark.index - mark.column)
        return Spot(self._file, mark.line + 1, self._source.original(mark.index) - line_start + 1)

    def _spot_of_substituted(self, index: int) -> Spot:
        return self._spot_of_original(self._source.original(index))

    def _spot_of_original(self, index: int) -> Spot:
        before = self._original[:index]
        return Spot(self._file, before.count("\n") + 1, index - before.rfind("\n"))


def _syntax_hint(said: str) -> str:
    if "'\\t'" in said:
        return "Indent with spaces"
    return "Inside [ ] and { }, quote strings with ${…}" if "got '{'" in said else ""


class _Merge:
    def __init__(self, earlier: Document, later: Document, problems: Problems) -> None:
        self._earlier = earlier
        self._later = later
        self._problems = problems
        self._spots = dict(earlier.spots)
        self._written = dict(earlier.written)
        self._variables = dict(earlier.variables)
        self._broken = set(earlier.broken)

    def document(self) -> Document:
        value = self._mappings(self._earlier.value, self._later.value, ())
        anchors_only = self._earlier.anchors_only | self._later.anchors_only
        values = {**self._earlier.values, **self._later.values}
        return Document(
            value, self._spots, self._written, self._variables, values, frozenset(self._broken), anchors_only
        )

    def _mappings(self, ours: dict[str, Any], theirs: dict[str, Any], path: Path) -> dict[str, Any]:
        merged = dict(ours)
        for key, value in theirs.items():
            here = (*path, key)
            if merged.get(key) is None:
                merged[key] = value
                self._carry(here, here)
            elif path in OWNED:
                self._clash(here, "is also defined")
            else:
                merged[key] = self._values(merged[key], value, here)
        return merged

    def _values(self, ours: Any, theirs: Any, path: Path) -> Any:
        if theirs is None:
            return ours
        if isinstance(ours, dict) and isinstance(theirs, dict):
            return self._mappings(ours, theirs, path)
        if isinstance(ours, list) and isinstance(theirs, list):
            for position in range(len(theirs)):
                self._carry((*path, position), (*path, len(ours) + position))
            return ours + theirs
        if ours != theirs or type(ours) is not type(theirs):
            self._clash(path, "has another value")
        return ours

    def _carry(self, source: Path, target: Path) -> None:
        """Apply the facts about the later document's values below `source` to those below `target`."""
        for kept, known in (
            (self._spots, self._later.spots),
            (self._written, self._later.written),
            (self._variables, self._later.variables),
        ):
            moved = {_moved(path, source, target): fact for path, fact in known.items() if _beneath(path, source)}
            kept.update(moved)  # type: ignore[arg-type]  # each pair holds the same kind of fact
        self._broken |= {_moved(path, source, target) for path in self._later.broken if _beneath(path, source)}

    def _clash(self, path: Path, how: str) -> None:
        first = self._earlier.spots[path]
        self._problems.write(Severity.ERROR, self._later.spots[path], path, f"{how} in {first}")


def _beneath(path: Path, parent: Path) -> bool:
    return path[: len(parent)] == parent


def _moved(path: Path, source: Path, target: Path) -> Path:
    return (*target, *path[len(source) :])


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
