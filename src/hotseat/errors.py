"""Errors, grouped by who must act. Each has an HTTP status; error_bodies.py renders it.

Every type says whether a retry can help. Only then there is `Retry-After`, on which some clients repeat for minutes.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from heapq import nlargest, nsmallest
from itertools import takewhile
from operator import eq
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotseat.identifiers import Seconds


LONGEST_LINE = 400
"""Of a failed start's message: clients show it in one line."""
LAST_LINE = ' Last output: "{}"'
SHORTEST_QUOTE = 20
MOST_MEANT = 3
MOST_WEIGHED = 100
"""Names whose common beginning and end with a wrong one are looked at."""
MOST_COMPARED = 5
"""Names that a wrong one is compared with in full: that takes 0.2 ms for 60 characters, in which nobody is served."""
LONGEST_COMPARED = 100


class HotseatError(Exception):
    """A message for people: what happened, to what, and what to do."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    retry_helps: bool | None = None
    """False: somebody must change something first; None: unknown, so clients follow their own rule."""

    def __init__(self, message: str, *, retry_after: Seconds | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after

    def without_names(self) -> HotseatError:
        """For a key that is for some models: it does not learn the names of others."""
        return self


class NewerFormat(OSError):
    """A stored file that this version must neither read nor change."""

    def __init__(self, found: int, known: int) -> None:
        said = f"was written by a newer version of hotseat (format {found}; this version reads {known})"
        super().__init__(f"{said}. Reinstall that version, or move the file away.")
        self.found = found


# The client must change its request.


class ClientError(HotseatError):
    status = 400
    code = "bad_request"
    retry_helps = False

    def __init__(self, message: str, names: str = "", *, retry_after: Seconds | None = None) -> None:
        """`names` ends the message with names of models that the client has not sent."""
        super().__init__(message + names, retry_after=retry_after)
        self._names = names

    def without_names(self) -> HotseatError:
        return type(self)(self.message.removesuffix(self._names)) if self._names else self


class UnknownModel(ClientError):
    status = 404
    code = "model_not_found"


class UnknownProfile(ClientError):
    status = 404
    code = "profile_not_found"


class UnknownTicket(ClientError):
    status = 404
    code = "ticket_not_found"


class UnknownDevice(ClientError):
    status = 404
    code = "device_not_found"


class UnknownHost(ClientError):
    status = 404
    code = "host_not_found"


class NotInAFleet(ClientError):
    """Sent to a host that is not in a fleet."""

    status = 409
    code = "not_in_a_fleet"


class CannotMove(ClientError):
    """The target host may not load the model."""

    status = 409
    code = "cannot_move"


class NotRunning(ClientError):
    status = 409
    code = "model_not_running"


class UnknownKey(ClientError):
    status = 404
    code = "key_not_found"


class KeyConflict(ClientError):
    """The change of the API keys is not possible as they are."""

    status = 409
    code = "key_conflict"


class RestartInProgress(ClientError):
    status = 409
    code = "restart_in_progress"


class Forbidden(ClientError):
    status = 403
    code = "forbidden"


class ForeignHost(Forbidden):
    """Only without a valid key: with one, any Host is accepted."""


class HostUnproven(Forbidden):
    """A request claims to be forwarded by another host and does not prove it: nothing was done."""

    code = "host_unproven"


class Unauthorized(ClientError):
    status = 401
    code = "invalid_api_key"


class TooLarge(ClientError):
    status = 413
    code = "request_too_large"


class HeadTooLarge(ClientError):
    status = 431
    code = "request_head_too_large"


class UnsupportedEncoding(ClientError):
    status = 415
    code = "unsupported_encoding"


class TooSlow(ClientError):
    status = 408
    code = "request_timeout"


class ExpectationFailed(ClientError):
    status = 417
    code = "expectation_failed"


class NotImplementedHere(ClientError):
    status = 501
    code = "not_implemented"


# The model server failed: mostly the operator must act.


class UpstreamError(HotseatError):
    status = 502
    code = "upstream_failed"


class LoadFailed(UpstreamError):
    """The start failed, or the model backs off; `retry_after` says that waiting may help. `output` is for operators."""

    status = 503
    code = "model_failed_to_start"

    def __init__(
        self, message: str, *, retry_after: Seconds | None = None, output: Sequence[str] = (), may_pass: bool = False
    ) -> None:
        super().__init__(clipped(message, LONGEST_LINE), retry_after=retry_after)
        self.retry_helps = retry_after is not None
        self.output = output
        """The last lines that the server wrote."""
        self.may_pass = may_pass
        """A later start may succeed although nobody changes anything, as after a crash; not if a file is missing."""

    def for_operators(self) -> LoadFailed:
        """With the last meaningful output line."""
        line = last_meaningful(self.output)
        space = LONGEST_LINE - len(self.message) - len(LAST_LINE.format(""))
        if not line or space < SHORTEST_QUOTE:
            return self
        message = self.message + LAST_LINE.format(clipped(line, space))
        return LoadFailed(message, retry_after=self.retry_after, output=self.output)


class NeverFits(UpstreamError):
    status = 503
    code = "model_never_fits"
    retry_helps = False


class Unloaded(UpstreamError):
    """An operator stopped the model while requests waited for it."""

    status = 503
    code = "model_unloaded"
    retry_helps = True


class Unresponsive(UpstreamError):
    """The model server runs but does not answer."""

    code = "upstream_unresponsive"
    retry_helps = True


class HostUnresponsive(UpstreamError):
    """Another host did not do what was asked, or did not answer."""

    code = "host_unresponsive"


class ForwardingLoop(UpstreamError):
    """A peer sent a request back, directly or through others."""

    status = 508
    code = "forwarding_loop"
    retry_helps = False


class CancelledByOperator(UpstreamError):
    status = 503
    code = "request_cancelled"
    retry_helps = False


# Nobody is at fault: retry.


class Busy(HotseatError):
    status = 429
    code = "queue_full"
    retry_helps = True


class NoMemory(HotseatError):
    """It would fit, but other programs use the device at present, or what pinned models take is a guess."""

    status = 503
    code = "insufficient_memory"
    retry_helps = True


class NotServed(HotseatError):
    """This host did nothing with a forwarded request: it may be forwarded to the next host."""

    status = 503
    code = "not_served"
    retry_helps = True


class NotLoaded(NotServed):
    """The same, because the model cannot be started there."""

    code = LoadFailed.code

    def __init__(self, message: str, *, retry_after: Seconds | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.retry_helps = retry_after is not None


class NoHostAvailable(HotseatError):
    """No host of the fleet can take the request; `may_pass` says that waiting may help."""

    status = 503
    code = "no_host_available"

    def __init__(self, message: str, *, retry_after: Seconds | None = None, may_pass: bool = True) -> None:
        super().__init__(message, retry_after=retry_after)
        self.retry_helps = may_pass


class FleetDisconnected(HotseatError):
    """Hosts cannot agree while their store is unreachable."""

    status = 503
    code = "fleet_disconnected"
    retry_helps = True


class Yielding(HotseatError):
    """Models must yield memory to somebody with precedence."""

    status = 503
    code = "memory_yielded"
    retry_helps = True


class OverLimit(HotseatError):
    """A key exceeds its limits, and may try again soon."""

    status = 429
    code = "rate_limit_exceeded"
    retry_helps = True

    def __init__(self, message: str, *, retry_after: Seconds | None = None, fields: Sequence[str] = ()) -> None:
        """`fields`: header lines that tell the client its limits."""
        super().__init__(message, retry_after=retry_after)
        self.fields = fields


class OverBudget(OverLimit):
    """A key has used up what it may use for longer than clients wait."""

    code = "budget_exhausted"
    retry_helps = False


class TooManyWrongKeys(HotseatError):
    """A client guesses keys."""

    status = 429
    code = "too_many_wrong_keys"
    retry_helps = True


class ShuttingDown(HotseatError):
    status = 503
    code = "shutting_down"
    retry_helps = True


class RestartFailed(HotseatError):
    """The new process could not take over, and the old one continues."""

    status = 503
    code = "restart_failed"
    retry_helps = False


class NotStored(HotseatError):
    """The disk did not take what must survive a restart, so nothing was changed."""

    status = 503
    code = "not_stored"
    retry_helps = True


class NotAudited(HotseatError):
    """The audit file did not take a line about an action, so the action was not begun."""

    status = 503
    code = "not_audited"
    retry_helps = True


# Bugs in hotseat.


class InvalidMove(HotseatError):
    code = "invalid_move"


def broken(problem: BaseException) -> HotseatError:
    """An unexpected exception, for the client: the log has the details."""
    return HotseatError(
        f"internal error in hotseat ({type(problem).__name__}). See its log for details, and please report it."
    )


def clipped(text: str, most: int) -> str:
    """One line of at most `most` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def last_meaningful(lines: Sequence[str]) -> str:
    """The last line about trouble, or else the last one; exit messages and separators do not count."""
    said = [line.strip() for line in lines if any(map(str.isalpha, line)) and not _GOODBYE.search(line)]
    about_trouble = [line for line in said if _TROUBLE.search(line)]
    return (about_trouble or said or [""])[-1]


_GOODBYE = re.compile(r"\b(?:exiting|cleaning up|shutting down|terminating)\b", re.IGNORECASE)
_TROUBLE = re.compile(
    r"error|exception|fail|cannot|unable|invalid|denied|panic|no such|not found|out of memory", re.IGNORECASE
)


def with_output(text: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{text.removesuffix('.')}; its last output was:", *lines]) if lines else text


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """` Did you mean "qwen"?` for a near miss or for names that only lack their folder, else an empty string."""
    if len(wrong) > LONGEST_COMPARED:
        return ""
    names, below = list(known), f"/{wrong}"
    in_folders = [f'"{name}"' for name in names if name.endswith(below)]
    if in_folders:
        return f" Did you mean {' or '.join(in_folders[:MOST_MEANT])}?"
    nearest = get_close_matches(wrong, _likely(wrong, names), n=1, cutoff=0.6)
    return f' Did you mean "{nearest[0]}"?' if nearest else ""


def _likely(wrong: str, names: list[str]) -> list[str]:
    """Those that share most with the wrong one at the beginning and the end together."""
    begin, end = wrong[:3], wrong[-3:]
    weighed = nsmallest(
        MOST_WEIGHED,
        (name for name in names if len(name) <= LONGEST_COMPARED),
        key=lambda name: (not name.startswith(begin)) + (not name.endswith(end)),
    )
    return nlargest(
        MOST_COMPARED,
        weighed,
        key=lambda name: _alike(name, wrong) + _alike(name[::-1], wrong[::-1]),
    )


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(takewhile(bool, map(eq, one, other)))
