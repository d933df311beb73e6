"""What is said about a launch that failed or ended: the reason, the server's last lines, and what an operator can do.

Most advice is a guess: a line about a missing file or a used port need not be why the server ended. So clients are told
not to wait only after an end in LASTING, or where the server rejected an option of `cmd`.
The hint goes to clients too, so it never quotes the output: that may contain prompts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hotseat.catalog.redaction import without
from hotseat.errors import LoadFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.catalog.spec import ModelSpec
    from hotseat.model_servers.output import Output

LAST_LINES = 20
VMSTAT = Path("/proc/vmstat")
LONGEST = 512
"""Of each line so many characters are searched, on the loop that serves all requests: a line may have 256 KiB."""
LESS_MEMORY = "use a smaller context or quantisation, or declare `memory` so that fewer models run beside it"
KILLED = f"The kernel killed it because memory ran out: {LESS_MEMORY}"
BY_SIGNAL = {
    "SIGKILL": "Another process killed it, or the kernel did because memory ran out (see `dmesg`)",
    "SIGILL": "It uses CPU instructions that this machine lacks: install a build for this CPU",
}
BY_CODE = {
    "code 137": BY_SIGNAL["SIGKILL"],  # what a shell or a container reports for SIGKILL
    "code 125": "The container engine could not start the container; its output says why",
    "code 126": "A program is not executable: run `cmd` in a terminal to see which",
    "code 127": "A program or shared library is missing: run `cmd` in a terminal to see which",
}
OUT_OF_MEMORY = (
    r"out of memory|cudaMalloc failed|(failed|unable) to allocate|cannot allocate memory|bad_alloc",
    f"It ran out of memory: {LESS_MEMORY}",
)
REJECTED_OPTION = "It does not accept an option of `cmd`; the server's output names it"
LASTING = ("code 0", "code 126", "code 127", "SIGILL")
"""How an exit status ends that the same command will have again."""
AT_START = (
    (
        r"container name \S+ is already in use",
        "A container with the name in `cmd` already exists: remove it, for example with `docker rm -f NAME`;"
        " `--rm` in `cmd` and a `cmdStop` keep containers from staying",
    ),
    (
        r"cannot connect to the docker daemon|failed to connect to the docker api"
        r"|permission denied while trying to connect to the docker",
        "The container engine cannot be reached: start it, and let this user use it",
    ),
    (
        r"manifest unknown|pull access denied|repository does not exist|did not resolve to an alias|image not known",
        "The image of the container is missing and cannot be downloaded: pull or build it",
    ),
    (
        # with its dash: "Invalid argument" alone is what the kernel says of a call
        r"(invalid|unknown|unrecognized|unrecognised|unexpected) (argument|option)s?:? ['\"`]?-|error: the argument",
        REJECTED_OPTION,
    ),
    (r"error while loading shared libraries", "A shared library is missing: set LD_LIBRARY_PATH in `env`"),
    (
        r"no such file or directory|failed to open|file not found|does not exist",
        "A file that `cmd` names is missing; the server's output has its path",
    ),
    (
        r"address already in use|couldn't bind|port is already allocated",
        "Its port is in use by another process: end that process, or let `cmd` use ${PORT},"
        " for which hotseat chooses a free port",
    ),
)


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


def hint(exit_status: str, output: Sequence[str], *, oom_kills: int = 0, was_ready: bool = False) -> str:
    """One sentence without a full stop, or an empty string. `oom_kills`: while it ran, of any process."""
    is_killed = exit_status.endswith(("SIGKILL", "code 137"))
    if is_killed and oom_kills:
        return KILLED
    for pattern, advice in (OUT_OF_MEMORY,) if was_ready else (OUT_OF_MEMORY, *AT_START):
        if any(re.search(pattern, line[:LONGEST], re.IGNORECASE) for line in output):
            return advice
    return next((advice for end, advice in (BY_SIGNAL | BY_CODE).items() if exit_status.endswith(end)), "")


def count_oom_kills(vmstat: Path = VMSTAT) -> int:
    """Processes that the kernel has killed since boot because memory ran out; 0 where it does not say."""
    try:
        lines = vmstat.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
