"""The audit: who did what. Of each request that loads, unloads or changes something, a line is written to an audit
file before it takes effect, and one at its end, which the log has too; and one of each request that was refused because
of who sent it.

A request is charged to its key before it is recorded. What needs at least the role `operate` has a file of its own, by
the rule of the path: without keys, too, loads by Ollama's API and refusals push out nothing but each other.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hotseat.error_bodies import one_line
from hotseat.errors import Forbidden, NotAudited, TooManyWrongKeys, Unauthorized
from hotseat.relay.access.authority import LOCALHOST
from hotseat.relay.access.wrong_keys import MINUTE, MOST_WRONG, MinuteCounts, in_few_lines
from hotseat.settings import Role
from hotseat.state.audit_file import UNPRIVILEGED, AuditFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Instant, Seconds
    from hotseat.relay.access.api_keys import Verdict
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.http.request_head import RequestHead

log = logging.getLogger(__name__)
actions = logging.getLogger("hotseat.audit")
actions.setLevel(logging.INFO)  # regardless of `logLevel`: actions must always be recorded

LONGEST_PATH = 200
ABOUT_SENDER = (Unauthorized, Forbidden, TooManyWrongKeys)
MOST_LINES = 100
"""Refusals in a minute, of all addresses. Fewer than MOST_ADDRESSES, so that every address with a line has its own
counter."""


class Audit:
    """`file` is None where nothing is kept, as in tests of other parts."""

    def __init__(
        self,
        file: AuditFile | None,
        now: Callable[[], Instant],
        later: Callable[[Seconds, Callable[[], None]], object],
    ) -> None:
        self._file = file
        self._unprivileged = file and AuditFile(file.path.with_name(UNPRIVILEGED), file.largest)
        self._of_anonymous = RefusalLines(now, later, self._note_rest)
        self._of_known = RefusalLines(now, later, self._note_rest)
        """Of keys and users: whoever has no key cannot use up their lines."""
        self._failing: set[AuditFile] = set()

    def begin(self, request: Request, peer: str, *, is_required: bool) -> None:
        """Raises NotAudited if the line cannot be written and is required: what cannot be proven is not done.

        Without authentication everybody is anonymous, and a machine whose disk is full or read-only must still work.
        """
        try:
            file = self._file_for(request)
            self._write(file, "begin", peer, **about_sender(request), **about_action(request.head, request.id))
        except OSError as problem:
            if is_required:
                raise NotAudited(f"this was not done, because the audit file cannot be written: {problem}.") from None

    def end(self, request: Request, peer: str, status: int) -> None:
        action = about_action(request.head, request.id)
        self._try(self._file_for(request), "end", peer, **about_sender(request), **action, status=status)
        fields = actor(request.verdict), peer, Quoted(action["action"]), status, action["request"]
        if request.verdict.from_host:
            client = Quoted(request.client)
            actions.info("audit actor=%s address=%s action=%r status=%d request=%s client=%r", *fields, client)
        else:
            actions.info("audit actor=%s address=%s action=%r status=%d request=%s", *fields)

    def refused(
        self, error: HotseatError, verdict: Verdict, head: RequestHead, peer: str, counted: str, request_id: bytes
    ) -> None:
        """A bounded number of lines in a minute, then how many more there were: `counted` has its own limit."""
        lines = self._of_anonymous if verdict.is_anonymous else self._of_known
        if isinstance(error, ABOUT_SENDER) and lines.take(counted):
            action = about_action(head, request_id)
            facts = {**sender(verdict), **action, "status": error.status, "error": error.code}
            self._try(self._unprivileged, "refused", peer, **facts)

    def _note_rest(self, address: str, count: int) -> None:
        self._try(self._unprivileged, "refused", address, count=count, window_s=MINUTE)

    def _file_for(self, request: Request) -> AuditFile | None:
        return self._unprivileged if request.destination.rule.role is Role.INFERENCE else self._file

    def _try(self, file: AuditFile | None, event: str, address: str, **facts: Any) -> None:
        """For what has happened already: a failure is in the log."""
        with suppress(OSError):
            self._write(file, event, address, **facts)

    def _write(self, file: AuditFile | None, event: str, address: str, **facts: Any) -> None:
        if file is None:
            return
        try:
            file.write({"time": utc_now(), "event": event, "address": address, **facts})
        except OSError as problem:
            if file not in self._failing:  # once until it works again
                log.error("the audit file cannot be written file=%s error=%r", file.path, str(problem))
            self._failing.add(file)
            raise
        self._failing.discard(file)


class RefusalLines:
    """Which refusals get a line of their own: anybody can be refused, and must not fill the disk."""

    def __init__(
        self,
        now: Callable[[], Instant],
        later: Callable[[Seconds, Callable[[], None]], object],
        report: Callable[[str, int], None],
    ) -> None:
        """`report` is called at the end of a minute, with addresses and how many of their refusals got no line."""
        self.counts = MinuteCounts(now, later, self._end_minute)
        self._report = report
        self._written: Counter[str] = Counter()

    def take(self, address: str) -> bool:
        """Count a refusal; True if it gets a line."""
        if self.counts.add(address) > MOST_WRONG or self._written.total() >= MOST_LINES:
            return False
        self._written[address] += 1
        return True

    def _end_minute(self, counts: Counter[str]) -> None:
        omitted = counts - self._written
        self._written.clear()
        for address, count in in_few_lines(omitted):
            self._report(address, count)


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def about_action(head: RequestHead, request_id: bytes) -> dict[str, str]:
    """The path without its query, which may contain secrets."""
    host = f"{head.label}{LOCALHOST}" if head.label else ""
    path = one_line(host + head.target.partition(b"?")[0].decode("latin-1"), LONGEST_PATH)
    return {"action": f"{head.method.decode()} {path}", "request": request_id.decode()}


def about_sender(request: Request) -> dict[str, str]:
    """With the client of the host, if one has passed the request on."""
    client = {"client": request.client} if request.verdict.from_host else {}
    return {**sender(request.verdict), **client}


def sender(verdict: Verdict) -> dict[str, str]:
    """A key, a user or a fleet host by name, each in a member of its own, so that none can pose as another."""
    if verdict.from_host:
        return {"host": verdict.from_host}
    if verdict.user:
        return {"user": verdict.user}
    return {"key": verdict.holder} if verdict.account is not None else {}


def actor(verdict: Verdict) -> str:
    """The same for the log: with its kind and its quoted name."""
    for kind, name in sender(verdict).items():
        return f"{kind}:{Quoted(name)!r}"
    return "anonymous"


class Quoted(str):
    """Its repr is a JSON string in double quotes, so its content can fake neither its end nor another log line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return json.dumps(self, ensure_ascii=not self.isprintable())
