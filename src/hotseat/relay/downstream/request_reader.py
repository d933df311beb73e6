"""Reads requests from one connection: a head, what follows from it, and its body.

It knows nothing about transports or order. It reports each complete or refused request to its owner, and how long the
next bytes may take. After a request whose end is unknown it is LOST and reads no further.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from hotseat.errors import ForeignHost, HostUnproven, HotseatError, TooManyWrongKeys, Unauthorized, broken
from hotseat.relay.access.policy import too_large
from hotseat.relay.downstream.admission import NotAdmitted
from hotseat.relay.downstream.stages import BETWEEN, BODY, HEAD, LOST
from hotseat.relay.exchange.request import Request
from hotseat.relay.http.body import Body
from hotseat.relay.http.body_framing import CountedBody, RequestChunks
from hotseat.relay.http.request_head import PartialHead
from hotseat.relay.routing.model_name import MANAGEMENT

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes, ClientId, Seconds
    from hotseat.relay.context import Context
    from hotseat.relay.downstream.admission import Admission
    from hotseat.relay.downstream.stages import Reading
    from hotseat.relay.http.request_head import RequestHead

log = logging.getLogger(__name__)

BLANK_LINES = (b"\r", b"\n")
"""Allowed before a request; they are not part of its head."""
SMALL_BODY: Bytes = 16 << 10
"""Bodies up to this size that arrive with their head are not counted in the total of all bodies."""
MOST_AT_ONCE = 256
"""Requests in one read (a quarter of a megabyte); beyond this nothing more is read."""
NO_BODY = CountedBody(0)
GUESSES = (Unauthorized, ForeignHost, HostUnproven)
"""Errors that a wrong key or a wrong proof causes."""


class Owner(Protocol):
    """The connection that uses the reader."""

    def request_read(self, request: Request) -> None: ...
    def request_answered(self, answer: bytes, *, keep_alive: bool) -> None:
        """The relay answers this request itself."""

    def request_refused(self, error: HotseatError, head: RequestHead | None, *, keep_alive: bool) -> None: ...
    def body_awaited(self) -> None:
        """The client waits for 100 Continue before it sends the body."""

    def expect_within(self, seconds: Seconds) -> None: ...
    def expect_nothing(self) -> None: ...


class RequestReader:
    __slots__ = (
        "_begun",
        "_client",
        "_context",
        "_framing",
        "_is_tunnel",
        "_last",
        "_owner",
        "_peer",
        "_request",
        "_requests",
        "stage",
        "wants_continue",
    )

    def __init__(self, context: Context, owner: Owner, peer: str) -> None:
        self._context = context
        self._owner = owner
        self._peer = peer
        self.stage: Reading = BETWEEN
        self.wants_continue = False
        self._requests = 0
        """Requests begun in the current read."""
        self._begun: PartialHead | None = None
        self._request: Request | None = None
        """The request whose body is being read."""
        self._framing: CountedBody | RequestChunks = NO_BODY
        self._is_tunnel = False
        """Was the last request one for a websocket? What follows it is not HTTP."""
        self._last: Admission | None = None
        """Of the previous request: clients repeat themselves."""
        self._client: ClientId

    def feed(self, data: bytes) -> bytes:
        """Read data; returns what follows a websocket request and is no longer HTTP."""
        self._requests = 0
        try:
            return self._feed(data)
        except Exception as problem:
            # A bug of ours, not the client's fault: a half-read request ends with a 500.
            log.error("internal error client=%s", self._peer, exc_info=problem)
            self.give_up(broken(problem))
            return b""

    def _feed(self, data: bytes) -> bytes:
        while data and self.stage is not LOST:
            if self.stage is BETWEEN:
                data = self._read_request(data)
            else:
                data = self._read_body(data) if self.stage is BODY else self._read_on(data)
            if self._is_tunnel:
                self._is_tunnel = False
                return data
        return b""

    def give_up(self, error: HotseatError, head: RequestHead | None = None) -> None:
        """Refuse and read no further: the end of this request is unknown or too far away."""
        if self.stage is LOST:
            return
        if self._request is not None:
            head = self._request.head
        self.forget()
        self._owner.expect_nothing()
        self._owner.request_refused(error, head, keep_alive=False)

    def judge_again(self) -> bool:
        """The policy has changed: read no further if it rejects the current request."""
        error = None if self._request is None else self._context.policy.objection(self._request, "")
        if error is not None:
            self.give_up(error)
        return error is not None

    def forget(self) -> None:
        """Drop the half-read request without a response, and read no further."""
        if self._request is not None:
            self._context.forget(self._request)
        self._request, self._begun, self._framing = None, None, NO_BODY
        self.stage = LOST
        self.wants_continue = False

    # Heads

    def _read_request(self, data: bytes) -> bytes:
        """Read a head, and its body if that is small and complete; returns what follows."""
        self._requests += 1
        if self._requests > MOST_AT_ONCE:
            self.forget()
            return b""
        last = self._last
        if last is not None and (template := last.template) is not None and last.policy is self._context.policy:
            found = template.found_in(data)
            if found is not None and found[0] <= last.most_bytes and last.catalog is self._context.dispatcher.catalog:
                return self._begin(last, last.head.request_id, found[0], data, found[1])
        return self._read_head(data.lstrip(b"\r\n") if data.startswith(BLANK_LINES) else data)

    def _read_head(self, data: bytes) -> bytes:
        """The same for a head that differs from the previous one by more than its length."""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            return self._begin_head(data) if data else b""
        context = self._context
        try:
            found = context.heads.admission(data[:end], context.policy, context.dispatcher.catalog)
        except NotAdmitted as answer:
            return self._answer_head(answer, data[end:])
        self._last, length, request_id = found
        head = self._last.head
        self._client = context.policy.client_of(head, self._last.verdict, self._peer)
        self._is_tunnel = head.is_websocket
        return self._begin(self._last, request_id, length or 0, data, end)

    def _begin_head(self, data: bytes) -> bytes:
        self._begun, self.stage = PartialHead(), HEAD
        self._owner.expect_within(self._context.policy.limits.header_timeout_s)
        return self._read_on(data)

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

    def _answer_head(self, answer: NotAdmitted, rest: bytes) -> bytes:
        """Answer or refuse a request at its head. Without a body to skip, the connection stays usable."""
        head, outcome = answer.head, answer.outcome
        if isinstance(outcome, HotseatError):
            return self._refuse_head(outcome, head, rest)
        assert head is not None
        if head.has_body:
            self.forget()
        self._owner.request_answered(outcome, keep_alive=head.keep_alive and not head.has_body)
        return rest

    def _refuse_head(self, error: HotseatError, head: RequestHead | None, rest: bytes) -> bytes:
        context = self._context
        if head is not None and isinstance(error, GUESSES) and context.policy.has_secrets:
            error = context.wrong_keys.answer(error, head, self._peer)
        if head is None or head.has_body or isinstance(error, TooManyWrongKeys):  # wrong guesses lose the connection
            self.give_up(error, head)
        else:
            self._owner.request_refused(error, head, keep_alive=head.keep_alive)
        return rest

    # Bodies

    def _begin(self, admission: Admission, request_id: bytes, length: Bytes, data: bytes, end: int) -> bytes:
        """Begin a request whose head ends at `end`; returns what follows the head, or a small body."""
        context, head = self._context, admission.head
        request_id = request_id or context.new_id()
        body_end = end + length
        if length <= SMALL_BODY and len(data) >= body_end and not head.chunked:
            body = Body(data[end:body_end], boundary=head.boundary)
            self._owner.request_read(Request(request_id, admission, body, self._client, context.now()))
            return data[body_end:]
        body = Body(may_spool=admission.may_spool, boundary=head.boundary)
        body.sender = self._peer
        self._begin_body(Request(request_id, admission, body, self._client, context.now()), length)
        return data[end:]

    def _begin_body(self, request: Request, length: Bytes) -> None:
        limits, head = self._context.policy.limits, request.head
        self._request, self.stage = request, BODY
        self._framing = RequestChunks(limits.header) if head.chunked else CountedBody(length)
        try:
            self._take_place(request, is_small=length <= SMALL_BODY and not head.chunked)
        except HotseatError as error:
            return self.give_up(error)
        self.wants_continue = head.wants_continue
        self._owner.expect_within(limits.body_timeout_s)
        return self._owner.body_awaited()

    def _take_place(self, request: Request, *, is_small: bool) -> None:
        """Before a large body is read: a request over its key's limits is refused at the head."""
        account = request.verdict.account
        if account is not None and not is_small and request.destination.kind is not MANAGEMENT:
            request.key_use = account.admit(request.began)

    def _read_body(self, data: bytes) -> bytes:
        """Returns what follows the body."""
        request, framing, rest = self._request, self._framing, b""
        assert request is not None
        try:
            content, rest = framing.take(data)
            if content:
                self._keep(request, content)
            if framing.is_complete:
                request.body.complete()
        except HotseatError as error:
            self.give_up(error)
        except OSError as problem:
            self.give_up(_disk_failed(request, problem))
        else:
            if framing.is_complete:
                self._complete(request)
        return rest

    def _keep(self, request: Request, content: bytes) -> None:
        body, most = request.body, request.admission.most_bytes
        self._owner.expect_within(self._context.policy.limits.body_timeout_s)
        body.add(content)
        if body.size > most:
            raise too_large(most)
        self._context.check_space(body)

    def _complete(self, request: Request) -> None:
        self._request, self._framing = None, NO_BODY
        self.stage = BETWEEN
        self.wants_continue = False
        self._owner.expect_nothing()
        self._owner.request_read(request)


def _disk_failed(request: Request, problem: OSError) -> HotseatError:
    log.warning("an upload cannot be stored on disk request=%s error=%r", request.id.decode(), problem.strerror)
    text = f"the upload cannot be stored on disk: {problem.strerror}."
    return HotseatError(f"{text} Free space in the folder for temporary files.")
