"""What is said about a launch that failed or ended: the reason, the server's last lines, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hotseat.catalog.redaction import without
from hotseat.errors import LoadFailed
from hotseat.model_servers.exit_hints import LASTING, REJECTED_OPTION, count_oom_kills, hint

if TYPE_CHECKING:
    from hotseat.catalog.spec import ModelSpec
    from hotseat.model_servers.output import Output

LAST_LINES = 20


class Trouble(Exception):
    """Why a start failed, as the second half of a sentence."""


class Exited(Trouble):
    """Its process exited before it was ready."""

    def __init__(self, exit_status: str) -> None:
        super().__init__(too_soon(exit_status))
        self.exit_status = exit_status


class End(NamedTuple):
    """How a server ended that had been ready."""

    exit_status: str
    output: tuple[str, ...] = ()
    """Its last lines, if the end was not requested."""
    hint: str = ""
    """What to do about it, if the end was not requested."""


class LaunchFailures:
    def __init__(self, spec: ModelSpec, output: Output) -> None:
        self._spec, self._output = spec, output
        self._began_at = output.written
        self._oom_kills_before = count_oom_kills()

    def begin_again(self) -> None:
        """Another process is started: what the first one said is not about the second."""
        self._began_at = self._output.written

    def crash(self, exit_status: str) -> End:
        """Of a ready server that was not asked to end."""
        lines = self._last_lines()
        return End(exit_status, tuple(lines), self._hint(exit_status, lines, was_ready=True))

    def failed_start(self, trouble: Exception) -> LoadFailed:
        why = without(str(trouble), self._spec.recipe.secrets)
        lines = self._last_lines()
        advice = self._advice(trouble, lines)
        may_pass = isinstance(trouble, Exited) and not trouble.exit_status.endswith(LASTING)
        where = f"See `hotseat logs {self._spec.name}`" if lines else ""
        sentences = (f"{self._spec.name} is not ready: {why}", advice, where)
        text = ". ".join(filter(None, sentences)) + "."
        return LoadFailed(text, output=lines, may_pass=may_pass and advice != REJECTED_OPTION)

    def _advice(self, trouble: Exception, lines: list[str]) -> str:
        if isinstance(trouble, FileNotFoundError):
            return "Install it, or correct `cmd`"
        if not isinstance(trouble, Exited):
            return ""
        silent = f"It printed nothing: run its command in a terminal (`hotseat show {self._spec.name}` prints it)"
        return self._hint(trouble.exit_status, lines, was_ready=False) or ("" if lines else silent)

    def _hint(self, exit_status: str, lines: list[str], *, was_ready: bool) -> str:
        kills = count_oom_kills() - self._oom_kills_before
        return hint(exit_status, lines, oom_kills=kills, was_ready=was_ready)

    def _last_lines(self) -> list[str]:
        return [line.text for line in self._output.tail(LAST_LINES, since=self._began_at)]


def too_soon(how: str) -> str:
    hint = " (a server must stay in the foreground)" if how.endswith("code 0") else ""
    return f"it {how} while loading{hint}"
