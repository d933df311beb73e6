"""The audit: who did what. Of each request that loads, unloads or changes something, a line is written to the audit
file before it takes effect, and one at its end, which the log has too; and one of each request that was refused because
of who sent it.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hotseat.error_bodies import one_line
from hotseat.errors import Forbidden, NotAudited, TooManyWrongKeys, Unauthorized
from hotseat.relay.access.authority import LOCALHOST
from hotseat.relay.access.refusal_lines import RefusalLines
from hotseat.relay.access.wrong_keys import MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Instant, Seconds
    from hotseat.relay.access.api_keys import Verdict
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.state.audit_file import AuditFile

log = logging.getLogger(__name__)
actions = logging.getLogger("hotseat.audit")
actions.setLevel(logging.INFO)  # regardless of `logLevel`: actions must always be recorded

LONGEST_PATH = 200
ABOUT_SENDER = (Unauthorized, Forbidden, TooManyWrongKeys)


class Audit:
    """`file` is None where nothing is kept, as in tests of other parts."""

    def __init__(
        self,
        file: AuditFile | None,
        now: Callable[[], Instant],
        later: Callable[[Seconds, Callable[[], None]], object],
    ) -> None:
        self._file = file
        self._refusals = RefusalLines(now, later, self._note_rest)
        self._has_warned = False

    def begin(self, request: Request, peer: str, *, is_required: bool) -> None:
        """Raises NotAudited if the line cannot be written and is required: what cannot be proven is not done.

        Without authentication everybody is anonymous, and a machine whose disk is full or read-only must still work.
        """
        try:
            self._write("begin", peer, **about_sender(request), **about_action(request.head, request.id))
        except OSError as problem:
            if is_required:
                raise NotAudited(f"this was not done, because the audit file cannot be written: {problem}.") from None

    def end(self, request: Request, peer: str, status: int) -> None:
        action = about_action(request.head, request.id)
        self._try("end", peer, **about_sender(request), **action, status=status)
        fields = actor(request.verdict), peer, Quoted(action["action"]), status, action["request"]
        if request.verdict.from_host:
            client = Quoted(request.client)
            actions.info("audit actor=%s address=%s action=%r status=%d request=%s client=%r", *fields, client)
        else:
            actions.info("audit actor=%s address=%s action=%r status=%d request=%s", *fields)

    def refused(self, error: HotseatError, verdict: Verdict, head: RequestHead, peer: str, request_id: bytes) -> None:
        """A bounded number of lines in a minute, then how many more there were."""
        if isinstance(error, ABOUT_SENDER) and self._refusals.take(peer):
            action = about_action(head, request_id)
            self._try("refused", peer, **sender(verdict), **action, status=error.status, error=error.code)

    def _note_rest(self, address: str, count: int) -> None:
        self._try("refused", address, count=count, window_s=MINUTE)

    def _try(self, event: str, address: str, **facts: Any) -> None:
        """For what has happened already: a failure is in the log."""
        with suppress(OSError):
            self._write(event, address, **facts)

    def _write(self, event: str, address: str, **facts: Any) -> None:
        if self._file is None:
            return
        try:
            self._file.write({"time": utc_now(), "event": event, "address": address, **facts})
        except OSError as problem:
            self._warn(str(problem))
            raise
        self._has_warned = False

    def _warn(self, problem: str) -> None:
        """Once until it works again."""
        if not self._has_warned:
            assert self._file is not None
            log.error("the audit file cannot be written file=%s error=%r", self._file.path, problem)
        self._has_warned = True


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
