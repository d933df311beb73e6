"""Reads requests from one connection: llhttp parses new heads, the head cache recognises known ones.

It knows nothing about transports or order. It reports each complete or refused request to its owner, and how long the
next bytes may take. After a request whose end is unknown it is LOST and reads no further.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import httptools

from hotseat.errors import (
    ClientError,
    Forbidden,
    HeadTooLarge,
    HotseatError,
    NotImplementedHere,
    TooManyWrongKeys,
    Unauthorized,
    broken,
)
from hotseat.fleet.host_headers import PROOF
from hotseat.relay.access.host_requests import destination_for_host, said_in
from hotseat.relay.access.policy import too_large
from hotseat.relay.exchange.request import Request, must_stay_in_memory, names_in_json
from hotseat.relay.http.body import Body
from hotseat.relay.http.head import check_spelling, read_head
from hotseat.relay.http.head_cache import HeadTemplate, KnownRequest, key_of, may_be_learned
from hotseat.relay.http.request_id import id_in
from hotseat.relay.routing.model_name import MANAGEMENT, destination_for

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import Bytes, ClientId, Seconds
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.http.head import Field, RequestHead
    from hotseat.relay.http.head_cache import Memory
    from hotseat.relay.server import Relay

log = logging.getLogger(__name__)

BLANK_LINES = (b"\r", b"\n")
"""llhttp accepts these before a request; they are not part of its head."""
SMALL_BODY: Bytes = 16 << 10
"""Cached requests up to this size are not counted in the total of all bodies."""

MOST_AT_ONCE = 256
"""Requests in one read (a quarter of a megabyte); beyond this nothing more is read."""
MOST_PIECES = 1 << 16
SMALLEST_PIECE: Bytes = 64
"""A chunked body may have MOST_PIECES chunks of any size; beyond that, this is the minimum average: each costs a
call."""


class Reading(Enum):
    BETWEEN = "between requests"
    HEAD = "head"
    BODY = "body"
    LOST = "lost"


# Bound once: Python 3.11 needs as long for an enum member lookup as for a call.
BETWEEN: Final = Reading.BETWEEN
HEAD: Final = Reading.HEAD
BODY: Final = Reading.BODY
LOST: Final = Reading.LOST


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


class ToLearn(NamedTuple):
    """A new head, and the configuration it is checked against, which may change before its body ends."""

    memory: Memory[KnownRequest]
    under: tuple[Policy, Catalog]
    lines: bytes
    length: int | None


class RequestReader:
    __slots__ = (
        "_client",
        "_fields",
        "_fresh",
        "_last",
        "_left",
        "_lines",
        "_most_bytes",
        "_overhead",
        "_owner",
        "_parser",
        "_peer",
        "_pieces",
        "_relay",
        "_request",
        "_requests",
        "_target",
        "_to_learn",
        "stage",
        "wants_continue",
    )

    def __init__(self, relay: Relay, owner: Owner, peer: str) -> None:
        self._relay = relay
        self._owner = owner
        self._peer = peer
        self._parser: httptools.HttpRequestParser | None = None  # created on demand, since it is large
        self.stage = BETWEEN
        self.wants_continue = False
        self._fields: list[Field] = []
        self._target = b""
        self._lines = b""
        """The current head as received."""
        self._request: Request | None = None
        self._requests = 0
        """Requests begun in the current read."""
        self._most_bytes: Bytes = 0
        self._overhead: Bytes = 0
        """Bytes since the last body byte: heads, trailers and chunk sizes."""
        self._fresh: list[bytes] = []
        """Body parts from llhttp that are not yet added to the body."""
        self._pieces = 0
        """Number of body parts so far."""
        self._left: Bytes = 0
        """Remaining bytes of a body with known length."""
        self._to_learn: ToLearn | None = None
        self._last: KnownRequest | None = None
        """The previous request: clients repeat themselves."""
        self._client: ClientId

    def feed(self, data: bytes) -> bytes:
        """Parse data; returns what follows a websocket request and is no longer HTTP."""
        self._requests = 0
        try:
            return self._feed(data)
        except Exception as problem:
            self._crashed(problem)
            return b""

    def _crashed(self, problem: BaseException) -> None:
        """A bug of ours, not the client's fault: a half-read request ends with a 500."""
        log.error("internal error client=%s", self._peer, exc_info=problem)
        self.give_up(broken(problem))

    def _feed(self, data: bytes) -> bytes:
        while data and self.stage is not LOST:
            if self._left:
                data = self._count(data)
            elif self.stage is BETWEEN and (rest := self._recognise(data)) is not None:
                data = rest
            else:
                end = self._end_of_part(data)
                again, beyond = self._parse(data[:end])
                if beyond is not None:
                    return beyond + data[end:]
                data = again + data[end:]
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
        """The rules have changed: read no further if they reject the current request."""
        error = None if self._request is None else self._relay.rules.objection(self._request, "")
        if error is not None:
            self.give_up(error)
        return error is not None

    def forget(self) -> None:
        """Drop the half-read request without a response."""
        if self._request is not None:
            self._relay.forget(self._request)
            self._request = None
        self.stage = LOST
        self.wants_continue = False

    # Cached heads

    def _recognise(self, data: bytes) -> bytes | None:
        """Begin a request with a cached head; None if llhttp must parse it."""
        known = self._last
        if known is not None and known.outline is not None and self._relay.is_current(known):
            found = known.outline.found_in(data)
            if found is not None and found[0] <= known.most_bytes:
                return self._begin_known(known, known.request_id, found[0], found[1], data)
        return self._look_up(data)

    def _look_up(self, data: bytes) -> bytes | None:
        end = data.find(b"\r\n\r\n") + 4
        if end < 4 or data.startswith(BLANK_LINES):
            return None
        key, length, request_id, proof = key_of(data[:end])
        memory = self._relay.known_requests()
        known = memory.recall(key)
        if known is None or (length or 0) > known.most_bytes:
            self._to_learn = ToLearn(memory, self._relay.known_under, data[:end], length)
            return None
        if known.verdict.from_host and not self._relay.rules.is_proven_again(known.said, proof):
            return None
        self._last = known
        self._client = self._relay.rules.client_of(known.head, known.verdict, self._peer)
        return self._begin_known(known, request_id, length or 0, end, data)

    def _begin_known(self, known: KnownRequest, request_id: bytes, length: Bytes, end: int, data: bytes) -> bytes:
        """Begin a request whose head ends here; returns what follows it."""
        self._requests += 1
        if self._requests > MOST_AT_ONCE:
            self.forget()
            return b""
        body_end = end + length
        request_id = request_id or self._relay.new_id()
        if length <= SMALL_BODY and len(data) >= body_end:
            body = Body(data[end:body_end], boundary=known.head.boundary)
            self._owner.request_read(known.anew(request_id, body, self._client, self._relay.now()))
            return data[body_end:]
        body = Body(may_spool=known.may_spool, boundary=known.head.boundary)
        body.sender = self._peer
        self._request = known.anew(request_id, body, self._client, self._relay.now())
        self._most_bytes = known.most_bytes
        self.stage = BODY
        self._left = length
        try:
            self._take_place(self._request, length)
        except HotseatError as error:
            self.give_up(error)
            return b""
        return self._count(data[end:])

    def _take_place(self, request: Request, length: Bytes | None) -> None:
        """Before a large body is read: a request over its key's limits is refused at the head."""
        account, is_small = request.verdict.account, length is not None and length <= SMALL_BODY
        if account is not None and not is_small and request.destination.kind is not MANAGEMENT:
            request.key_use = account.admit(request.began)

    def _count(self, data: bytes) -> bytes:
        """Consume the current body; returns the rest."""
        part, rest = data[: self._left], data[self._left :]
        self._left -= len(part)
        self.on_body(part)
        self._take_in()
        if not self._left and self._request is not None:
            self._complete(self._request)
        return rest

    def _learn(self, request: Request, new: ToLearn) -> None:
        key, _, request_id, proof = key_of(new.lines)
        if not may_be_learned(request.head, request.destination, new.length) or request_id != id_in(request.head):
            return  # or the id is spelled in a way that the cache would not find
        if proof != request.head.known.get(PROOF, b""):
            return  # the same for the proof, which is never part of the key: it is valid once
        known = KnownRequest(
            request.head,
            request.destination,
            request.verdict,
            self._most_bytes,
            not must_stay_in_memory(request.head, request.destination),
            request.keep_alive,
            new.under,
            None if new.length is None or request.verdict.from_host else HeadTemplate(new.lines),
            names_in_json(request.head, request.destination),
            request_id,
            said_in(request.head) if request.verdict.from_host else b"",
        )
        new.memory.learn(key, known)

    # New heads

    def _end_of_part(self, data: bytes) -> int:
        """The end of the current head or body in `data`, or all of it, so that each head starts a new part."""
        if self.stage is BODY:
            length = None if self._request is None else self._request.head.length
            return len(data) if self._request is None or length is None else length - self._request.body.size
        before = self._lines[-3:] if self.stage is HEAD else b""
        end = (before + data).find(b"\r\n\r\n")
        return len(data) if end < 0 else end + 4 - len(before)

    def _parse(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Pass bytes to llhttp; returns those to parse again, and those that are no longer HTTP."""
        self._overhead += len(data)
        if self.stage is not BODY:
            self._lines = data if self.stage is BETWEEN else self._lines + data
        try:
            self._llhttp().feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            if self.stage is HEAD:
                return self._without_offer(rest), None
            self._parser = None  # a websocket: what follows is for the upstream
            return b"", rest
        except httptools.HttpParserCallbackError as problem:
            self._crashed(problem.__context__ or problem)
        except httptools.HttpParserError as problem:
            self.give_up(ClientError(f"the request is malformed: {problem}"))
        if self._fresh:
            self._take_in()
        if self.stage in (HEAD, BODY):
            self._check_overhead()
            self._check_pieces()
        return b"", None

    def _llhttp(self) -> httptools.HttpRequestParser:
        if self._parser is None:
            self._parser = httptools.HttpRequestParser(self)
        return self._parser

    def _without_offer(self, rest: bytes) -> bytes:
        """A request that offers another protocol (h2c), rewritten without the offer."""
        lines = [b"%b: %b" % (name, value) for name, value in self._fields if name.lower() != b"upgrade"]
        parser = self._llhttp()
        method, version = parser.get_method(), parser.get_http_version().encode()
        self._to_learn = self._parser = None
        self._overhead = 0
        return b"%b %b HTTP/%b\r\n%b\r\n\r\n%b" % (method, self._target, version, b"\r\n".join(lines), rest)

    def _check_overhead(self) -> None:
        if self._overhead > self._relay.rules.limits.header:
            self.give_up(self._head_too_large())

    def _check_pieces(self) -> None:
        request = self._request
        if request is None or not request.head.chunked or self._pieces <= MOST_PIECES:
            return
        if self._pieces > MOST_PIECES + request.body.size // SMALLEST_PIECE:
            text = f"the body came in {self._pieces} chunks of {request.body.size // self._pieces} bytes on average"
            self.give_up(ClientError(f"{text}. Send larger chunks, {SMALLEST_PIECE} bytes at least, or a length."))

    # llhttp callbacks: `_parse` reports what they raise as a bug of ours

    def on_message_begin(self) -> None:
        self._fields, self._target = [], b""
        self._request = None
        self._requests += 1
        if self._requests > MOST_AT_ONCE:
            self.forget()
        if self.stage is not LOST:
            self.stage = HEAD
            self._owner.expect_within(self._relay.rules.limits.header_timeout_s)

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.stage is HEAD:
            self._fields.append((name, value))
        elif self.stage is BODY:  # a trailer: counted, never merged into the head
            self._overhead += len(name) + len(value)
            self._check_overhead()

    def on_headers_complete(self) -> None:
        if self.stage is not HEAD or self._offers_another_protocol():
            return
        self.stage = BODY
        head: RequestHead | None = None
        parser = self._llhttp()
        try:
            self._check_head()
            head = read_head(parser.get_method(), self._target, parser.get_http_version(), self._fields)
            self._open(head)
        except HotseatError as error:
            self._refuse_unread(error, head)

    def on_body(self, part: bytes) -> None:
        """Chunks may be tiny and many, so each costs as little as possible here."""
        self._overhead = 0
        self._fresh.append(part)

    def _take_in(self) -> None:
        """Add the new parts to the body."""
        fresh, self._fresh = self._fresh, []
        self._pieces += len(fresh)
        if self._request is None or self.stage is not BODY:
            return
        self._owner.expect_within(self._relay.rules.limits.body_timeout_s)
        try:
            self._keep(self._request, fresh[0] if len(fresh) == 1 else b"".join(fresh))
        except HotseatError as error:
            self.give_up(error)

    def on_message_complete(self) -> None:
        if self._fresh:
            self._take_in()
        if self.stage is not BODY:
            return None
        request, to_learn = self._request, self._to_learn
        self._to_learn = None
        if request is None:
            return self._rest()
        request.keep_alive = self._llhttp().should_keep_alive()
        if to_learn is not None:
            self._learn(request, to_learn)
        return self._complete(request)

    def _complete(self, request: Request) -> None:
        try:
            request.body.complete()
        except OSError as problem:
            return self.give_up(_disk_failed(request, problem))
        self._rest()
        return self._owner.request_read(request)

    def _rest(self) -> None:
        """A request has been read; the next may come."""
        self._request = None
        self.stage = BETWEEN
        self._overhead = 0
        self.wants_continue = False
        self._owner.expect_nothing()

    def _offers_another_protocol(self) -> bool:
        """llhttp treats the rest of such a connection as the other protocol; we do so only for websockets."""
        parser = self._llhttp()
        if not parser.should_upgrade():
            return False
        if parser.get_method() == b"CONNECT":
            self.give_up(NotImplementedHere("CONNECT is not supported"))
        return not self._asks_for_websocket()

    def _asks_for_websocket(self) -> bool:
        offered = [value.strip().lower() for name, value in self._fields if name.lower() == b"upgrade"]
        framing = (b"content-length", b"transfer-encoding")
        has_body = any(name.lower() in framing for name, _ in self._fields)
        return self._llhttp().get_method() == b"GET" and offered == [b"websocket"] and not has_body

    # Complete heads

    def _check_head(self) -> None:
        """A head may arrive in one read with other data, so count only its own bytes."""
        lines, self._lines = self._lines, b""
        if lines:  # empty if it arrived together with the chunks of another
            check_spelling(lines[: lines.find(b"\r\n\r\n") + 2])
        self._overhead = self._pieces = 0
        size = len(self._target) + sum(len(name) + len(value) + 4 for name, value in self._fields)
        if size > self._relay.rules.limits.header:
            raise self._head_too_large()

    def _open(self, head: RequestHead) -> None:
        rules = self._relay.rules
        try:
            rules.check_sender(head)
            if preflight := rules.cors.preflight(head):
                return self._owner.request_answered(preflight, keep_alive=self._llhttp().should_keep_alive())
            verdict = rules.identify(head)
        except (Unauthorized, Forbidden) as error:
            if not rules.has_secrets:
                raise
            raise self._relay.wrong_keys.answer(error, head, self._peer) from None
        catalog = self._relay.dispatcher.catalog
        passed_on = destination_for_host(head, catalog, rules.paths) if verdict.from_host else None
        destination = passed_on or destination_for(head, catalog, rules.paths)
        rules.check_may_ask(verdict, destination)
        self._most_bytes = rules.most_bytes(head, destination)
        body = Body(may_spool=not must_stay_in_memory(head, destination), boundary=head.boundary)
        body.sender = self._peer
        client = rules.client_of(head, verdict, self._peer)
        request_id = id_in(head) or self._relay.new_id()
        request = Request(request_id, head, destination, verdict, body, client, self._relay.now())
        if head.has_body:
            self._take_place(request, head.length)
        self._request = request
        self.wants_continue = head.wants_continue and head.has_body
        self._owner.expect_within(rules.limits.body_timeout_s)
        return self._owner.body_awaited()

    def _keep(self, request: Request, part: bytes) -> None:
        body = request.body
        try:
            body.add(part)
        except OSError as problem:
            raise _disk_failed(request, problem) from problem
        if body.size > self._most_bytes:
            raise too_large(self._most_bytes)
        self._relay.check_space(body)

    def _refuse_unread(self, error: HotseatError, head: RequestHead | None) -> None:
        """Refuse at the head. Without a body to skip, the connection stays usable."""
        if head is None or head.has_body or isinstance(error, TooManyWrongKeys):  # wrong guesses lose the connection
            return self.give_up(error, head)
        return self._owner.request_refused(error, head, keep_alive=self._llhttp().should_keep_alive())

    def _head_too_large(self) -> HeadTooLarge:
        return HeadTooLarge(f"the head is larger than {self._relay.rules.limits.header} bytes (limits.header)")


def _disk_failed(request: Request, problem: OSError) -> HotseatError:
    log.warning("an upload cannot be stored on disk request=%s error=%r", request.id.decode(), problem.strerror)
    text = f"the upload cannot be stored on disk: {problem.strerror}."
    return HotseatError(f"{text} Free space in the folder for temporary files.")
