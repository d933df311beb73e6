"""Reads requests from one connection, one at a time: the next one is read after the response to the one before it.

It knows nothing about transports. After a request whose end is unknown it is LOST and reads no further.

While a request is being served, further input goes to a small buffer instead of pausing the transport: a paused
transport reports neither EOF nor loss of its connection, and a disconnect must be seen within milliseconds. A client
that overflows the buffer gets the response to what was read, then the connection closes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from hotseat.errors import Busy, HotseatError, TooManyWrongKeys, broken
from hotseat.relay.access.api_keys import UNTOUCHED
from hotseat.relay.context import Reply
from hotseat.relay.downstream.admission import NotAdmitted, too_large
from hotseat.relay.downstream.limits import SMALL_BODY
from hotseat.relay.exchange.request import Request
from hotseat.relay.http.body import Body
from hotseat.relay.http.body_framing import CountedBody, RequestChunks
from hotseat.relay.http.request_head import PartialHead
from hotseat.relay.routing.model_name import MANAGEMENT

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes, ClientId, Instant
    from hotseat.relay.context import Context
    from hotseat.relay.downstream.admission import Admission
    from hotseat.relay.http.request_head import RequestHead

log = logging.getLogger(__name__)

BLANK_LINES = (b"\r", b"\n")
"""Allowed before a request; they are not part of its head."""
MOST_AHEAD: Bytes = 64 << 10
"""Limit of buffered pipelined requests; beyond it nothing more is read from the client."""
NO_BODY = CountedBody(0)


class Reading(Enum):
    BETWEEN = "between requests"
    HEAD = "head"
    BODY = "body"
    LOST = "lost"


# Bound once: Python 3.11 needs as long for an enum member lookup as for a call.
BETWEEN, HEAD, BODY, LOST = Reading


@dataclass(slots=True, eq=False, repr=False)
class RequestReader:
    _context: Context
    _peer: str
    _excess: str = ""
    """Whose connections are too many; if anybody's, only operators and health checks are served."""
    stage: Reading = BETWEEN
    items: list[Request | Reply] = field(default_factory=list)
    """What was read and is not served yet: a request, and perhaps a refusal of what follows it."""
    ahead: bytes = b""
    """Bytes that were received behind a request that is not answered yet."""
    deadline: Instant = 0.0
    """Of the half-read request, if there is one."""
    wants_continue: bool = False
    """Does the client wait for 100 Continue before it sends the body?"""
    _begun: PartialHead | None = None
    _request: Request | None = None
    """The request whose body is being read."""
    _framing: CountedBody | RequestChunks = NO_BODY
    _last: Admission | None = None
    """Of the previous request, if it has a template: clients repeat themselves."""
    _client: ClientId = field(init=False)

    def feed(self, data: bytes) -> None:
        """Read one request into `items`, or a part of it; what follows it goes to `ahead`."""
        try:
            while data and self.stage is not LOST:
                if self.stage is BETWEEN:
                    data = self._read_request(data)
                else:
                    data = self._read_body(data) if self.stage is BODY else self._read_on(data)
                if self.items and self.stage is not LOST:
                    self.ahead = data
                    return
        except Exception as problem:
            # A bug of ours, not the client's fault: a half-read request ends with a 500.
            log.error("internal error client=%s", self._peer, exc_info=problem)
            self.give_up(broken(problem))

    def keep(self, data: bytes) -> None:
        """Buffer what arrives while a request is being served."""
        if self.stage is not LOST:
            self.ahead += data
            if len(self.ahead) > MOST_AHEAD:
                self.stop()
                self._drop_websocket()

    def _drop_websocket(self) -> None:
        """A tunnel cannot begin with bytes missing."""
        if self.items and isinstance(last := self.items[-1], Request) and last.head.is_websocket:
            self._context.forget(last)
            del self.items[-1]

    def restart_timer(self) -> None:
        """The timeout of a half-read request runs only while we read."""
        limits = self._context.policy.limits
        self.deadline = self._context.now() + (limits.header_timeout_s if self.stage is HEAD else limits.idle_timeout_s)

    def give_up(self, error: HotseatError) -> None:
        """Refuse and read no further: the end of this request is unknown or too far away."""
        if self.stage is LOST:
            return
        head = None if self._request is None else self._request.head
        self.stop()
        self.items.append(self._context.refusal(error, head, keep_alive=False, peer=self._peer))

    def stop(self) -> None:
        """Read no further: drop the half-read request without a response, and the buffer."""
        if self._request is not None:
            self._context.forget(self._request)
        self._request, self._begun, self._framing = None, None, NO_BODY
        self.stage, self.ahead, self.wants_continue = LOST, b"", False

    def forget_all(self) -> None:
        """Drop all requests at once, because a client that does not read keeps the connection open."""
        self.stop()
        for item in self.items:
            if isinstance(item, Request):
                self._context.forget(item)
        self.items.clear()

    def judge_again(self) -> int:
        """The policy has changed: refuse requests that it no longer allows; returns how many."""
        ended, context = 0, self._context
        for place, item in enumerate(self.items):
            if isinstance(item, Request) and (error := context.objection_before_start(item, self._peer)) is not None:
                context.forget(item)
                self.items[place] = context.refusal(
                    error, item.head, keep_alive=item.head.keep_alive, request_id=item.id, peer=self._peer
                )
                ended += 1
        request = self._request
        if request is not None and (error := context.objection_before_start(request, self._peer)) is not None:
            self.give_up(error)
            ended += 1
        return ended

    # Heads

    def _read_request(self, data: bytes) -> bytes:
        """Read a head, and its body if that is small and complete; returns what follows."""
        last = self._last
        if last is not None and last.template is not None and last.policy is self._context.policy:
            found = last.template.found_in(data)
            catalog = self._context.dispatcher.catalog
            if found is not None and 0 < found[0] <= last.most_bytes and last.catalog is catalog:
                return self._begin(last, last.head.request_id, last.trace, found[0], data, found[1])
        if data.startswith(BLANK_LINES) and not (data := data.lstrip(b"\r\n")):
            return b""
        return self._read_head(data)

    def _read_head(self, data: bytes) -> bytes:
        """The same for a head that differs from the previous one by more than its length."""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            self._begun, self.stage = PartialHead(), HEAD
            self.restart_timer()
            return self._read_on(data)
        context = self._context
        policy, catalog = context.policy, context.dispatcher.catalog
        try:
            found = context.heads.admission(data[:end], policy, catalog, is_from_proxy=policy.believes(self._peer))
        except NotAdmitted as answer:
            self._answer_head(answer.head, answer.outcome)
            return data[end:]
        admission, length, request_id, trace = found
        self._last = admission if admission.template is not None else None  # a large head is not kept while it is idle
        self._client = context.policy.client_of(admission.head, admission.verdict, self._peer)
        return self._begin(admission, request_id, trace, length or 0, data, end)

    def _read_on(self, data: bytes) -> bytes:
        """Read the rest of a head, or a part of it."""
        assert self._begun is not None
        try:
            lines = self._begun.add(data, self._context.policy.limits.header)
        except HotseatError as error:
            self.give_up(error)
            return b""
        if not lines:
            return b""
        self._begun, self.stage = None, BETWEEN
        return self._read_head(lines)

    def _answer_head(self, head: RequestHead | None, outcome: HotseatError | bytes) -> None:
        """Answer or refuse a request at its head. Without a body to skip, the connection stays usable."""
        context = self._context
        if isinstance(outcome, HotseatError) and head is not None and context.policy.has_secrets:
            outcome = context.wrong_keys.answer(outcome, head, context.policy.client_of(head, UNTOUCHED, self._peer))
        is_guess = isinstance(outcome, TooManyWrongKeys)  # wrong guesses lose the connection
        keep_alive = head is not None and head.keep_alive and not (head.has_body or is_guess or self._excess)
        if head is not None and head.http10 and isinstance(outcome, bytes):  # which does not say that it stays open
            keep_alive = False
        if not keep_alive:
            self.stop()
        if isinstance(outcome, bytes):
            self.items.append(Reply(outcome, keep_alive))
        else:
            self.items.append(context.refusal(outcome, head, keep_alive=keep_alive, peer=self._peer))

    # Bodies

    def _begin(
        self, admission: Admission, request_id: bytes, trace: bytes, length: Bytes, data: bytes, end: int
    ) -> bytes:
        """Begin a request whose head ends at `end`; returns what follows the head, or a small body."""
        context, head, rule = self._context, admission.head, admission.destination.rule
        request_id = request_id or context.new_id()
        body_end = end + length
        is_privileged = admission.verdict.is_privileged(rule.role)
        is_last = bool(self._excess) and not is_privileged
        if is_last and (rule.role is not None or head.has_body):
            self.give_up(Busy(f"too many connections from {self._excess}. Try again in a moment.", retry_after=1))
            return b""
        if length <= SMALL_BODY and len(data) >= body_end and not head.chunked:
            body = Body(data[end:body_end], boundary=head.boundary)
            self.items.append(Request(request_id, admission, body, self._client, context.now(), trace))
            if is_last:  # anybody may ask for the health, but not occupy a place that operators need
                self.stop()
            return data[body_end:]
        body = Body(may_spool=admission.may_spool, boundary=head.boundary)
        body.sender, body.is_privileged = self._client, is_privileged
        self._begin_body(Request(request_id, admission, body, self._client, context.now(), trace), length)
        return data[end:]

    def _begin_body(self, request: Request, length: Bytes) -> None:
        """A request with a large body is refused here if it exceeds its key's limits, before its body is read."""
        head, account = request.head, request.verdict.account
        self._request, self.stage, self.wants_continue = request, BODY, head.wants_continue
        self._framing = RequestChunks(self._context.policy.limits.header) if head.chunked else CountedBody(length)
        self.restart_timer()
        is_large = head.chunked or length > SMALL_BODY
        if account is not None and is_large and request.destination.kind is not MANAGEMENT:
            try:
                request.key_use = account.admit()
            except HotseatError as error:
                self.give_up(error)

    def _read_body(self, data: bytes) -> bytes:
        """Returns what follows the body."""
        request, framing, rest = self._request, self._framing, b""
        assert request is not None
        try:
            content, rest = framing.take(data)
            if content:
                self._add(request, content)
            if framing.is_complete:
                request.body.complete()
        except HotseatError as error:
            self.give_up(error)
        except OSError as problem:
            self.give_up(_disk_failed(request, problem))
        else:
            if framing.is_complete:
                self._request, self._framing = None, NO_BODY
                self.stage, self.wants_continue = BETWEEN, False
                self.items.append(request)
        return rest

    def _add(self, request: Request, content: bytes) -> None:
        body, most = request.body, request.admission.most_bytes
        self.restart_timer()
        body.add(content)
        if body.size > most:
            raise too_large(most, request.destination)
        self._context.check_space(body, self._peer)


def _disk_failed(request: Request, problem: OSError) -> HotseatError:
    log.warning("an upload cannot be stored on disk request=%s error=%r", request.id.decode(), problem.strerror)
    text = f"the upload cannot be stored on disk: {problem.strerror}."
    return HotseatError(f"{text} Free space in the folder for temporary files.")
