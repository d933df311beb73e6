"""The problems of one YAML file, each with its place in the text as written: before variables were substituted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaml.error import MarkedYAMLError, YAMLError
from yaml.reader import ReaderError

from hotseat.config.problems import Path, Problems, Severity, Spot

if TYPE_CHECKING:
    from yaml.nodes import Node

    from hotseat.config.env import Substituted


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
