"""The command line's HTTP client for a running hotseat: standard library only, never through a proxy.

No text that it returns contains terminal escapes, so no command can print those of a model server or a client.
"""

from __future__ import annotations

import json
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BufferedReader, RawIOBase
from ssl import SSLCertVerificationError
from threading import Event
from time import monotonic
from traceback import walk_tb
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from hotseat.cli.problems import MISREAD, NothingListens, Problem, Unreachable
from hotseat.cli.tables import without_escapes, without_escapes_but_lines

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from socket import socket
    from ssl import SSLContext
    from urllib.parse import SplitResult

    from _typeshed import WriteableBuffer

CONNECT_S = 5.0
SILENT_S = 10.0
"""How long a server may take to show that it responds at all."""
ANSWER_S = 120.0
"""How long a whole answer may take that hotseat gives at once: a long log over a slow line too."""
MOST_BYTES = 128 << 20
"""Of an answer, and of a line of a stream; 100,000 lines of a log have fewer."""
IS_IT = "is it a hotseat server? Set the address of one with --url or HOTSEAT_URL"
OK = 200
HAS_ANSWERED = Event()
"""Some server has, so what fails from now on in `READERS` may fail because of its answer."""
READERS = ("hotseat.cli.", "hotseat.simulation.record")
"""The code that reads answers. Mistakes of other parts, such as those that find devices and processes, are ours."""
KINDS: dict[str, type[HTTPConnection]] = {"http": HTTPConnection, "https": HTTPSConnection}


class Refused(Problem):
    """The server answered with an error."""

    def __init__(self, status: int, message: str, body: dict[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    api_key: str | None = None
    patience_s: float | None = None
    """Limit of the time of a whole answer; None: `ANSWER_S`, but a load may take minutes, and a feed has no end."""
    tls: SSLContext | None = None
    """None: the certificates that this machine trusts."""

    def ask(self, method: str, path: str, **query: object) -> Any:
        """The JSON of the answer; Refused with the server's message if it is not a success."""
        return self._json(method, path, query, self._soon_s)

    def wait(self, method: str, path: str, **query: object) -> Any:
        """The same of an answer that may take minutes."""
        return self._json(method, path, query, self.patience_s)

    def send(self, method: str, path: str, body: object = None) -> Any:
        """The same as `ask` with a JSON body."""
        return self._json(method, path, {}, self._soon_s, body)

    def text(self, path: str, **query: object) -> str:
        with closing(self._connect(self._soon_s)) as connection:
            answer = self._send(connection, "GET", path, query)
            if answer.status != OK or _kind(answer) in ("text/html", "application/json", "text/event-stream"):
                raise self._strange(answer, "no text")
            return without_escapes_but_lines(self._whole(answer).decode("utf-8", "replace"))

    @property
    def _soon_s(self) -> float:
        return ANSWER_S if self.patience_s is None else self.patience_s

    def _json(
        self, method: str, path: str, query: dict[str, object], limit_s: float | None, body: object = None
    ) -> Any:
        with closing(self._connect(limit_s)) as connection:
            answer = self._send(connection, method, path, query, body)
            whole = self._whole(answer)
        with suppress(ValueError, RecursionError):
            if isinstance(found := parsed(whole, _Fields), dict):
                return found
        raise self._strange(answer, "no JSON of hotseat")

    def _strange(self, answer: HTTPResponse, what: str) -> Refused:
        """Another program has answered."""
        answer.close()
        kind, program = _kind(answer) or "without a content type", answer.getheader("Server")
        by = f", from {program}" if program else ""
        return Refused(answer.status, f"{self.url} responded {answer.status} with {what} ({kind}{by}); {IS_IT}", {})

    def follow(self, path: str, **query: object) -> Iterator[str]:
        """The data of each server-sent event until the server ends the stream; see `parsed` for JSON."""
        return self._events("GET", path, query)

    def stream(self, method: str, path: str, body: object = None, **query: object) -> Generator[str, None, None]:
        """The same of a stream that has at least one; leaving the loop closes the connection."""
        return self._events(method, path, query, body, least=1)

    def _events(
        self, method: str, path: str, query: dict[str, object], body: object = None, least: int = 0
    ) -> Generator[str, None, None]:
        with closing(self._connect(self.patience_s)) as connection:
            answer = self._send(connection, method, path, query, body)
            if _kind(answer) != "text/event-stream":
                raise self._strange(answer, "no stream of events")
            number = 0
            try:
                for line in iter(partial(answer.readline, MOST_BYTES), b""):
                    if line.startswith(b"data:"):
                        number += 1
                        yield without_escapes(line[5:].decode("utf-8", "replace").removeprefix(" "))
            except (OSError, HTTPException):
                raise Problem(f"{self.url} closed the connection; is it still running?") from None
            if number < least:
                raise self._strange(answer, "a stream without events")

    def peer(self) -> tuple[str, int]:
        """Its address in numbers, whatever name it has."""
        with closing(self._connect()) as connection:
            host, port, *_ = connection.sock.getpeername()
            return host, port

    def _address(self) -> SplitResult:
        return urlsplit(self.url if "://" in self.url else f"http://{self.url}")

    def _connect(self, limit_s: float | None = None) -> HTTPConnection:
        if self.patience_s is None:
            _greet(self)
        address = self._address()
        options: dict[str, Any] = {"context": self.tls} if self.tls else {}
        try:
            kind = KINDS[address.scheme]
            connection = kind(address.hostname or "", address.port, timeout=CONNECT_S, **options)
        except (LookupError, ValueError, HTTPException):
            raise Problem(f'"{self.url}" is not a server address; use for example http://127.0.0.1:8080') from None
        try:
            connection.connect()
        except SSLCertVerificationError as error:
            why, hint = error.verify_message, "name its file or that of its authority in SSL_CERT_FILE"
            raise Unreachable(f"the certificate of {self.url} is not trusted ({why}); {hint}") from None
        except OSError as error:
            why = error.strerror or str(error)
            hint = "start it with `hotseat serve`, or set its address with --url or HOTSEAT_URL"
            unreachable = NothingListens if isinstance(error, ConnectionRefusedError) else Unreachable
            raise unreachable(f"no server responds at {self.url} ({why}); {hint}") from None
        connection.sock.settimeout(limit_s)
        if limit_s is not None:
            late = f"{self.url} has sent no complete response within {limit_s:g} s; {IS_IT}"
            connection.response_class = partial(_Timely, monotonic() + limit_s, late)  # type: ignore[assignment]
        return connection

    def _send(
        self, connection: HTTPConnection, method: str, path: str, query: dict[str, object], body: object = None
    ) -> HTTPResponse:
        path = self._address().path.rstrip("/") + path
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
        except (OSError, HTTPException):
            raise Unreachable(f"{self.url} has sent no HTTP response; {IS_IT}") from None
        HAS_ANSWERED.set()
        if answer.status >= 300:
            raise self._refusal(answer)
        return answer

    def _whole(self, answer: HTTPResponse) -> bytes:
        try:
            with closing(answer):
                whole = answer.read(MOST_BYTES + 1)
            if len(whole) > MOST_BYTES:
                raise self._strange(answer, f"more than {MOST_BYTES >> 20} MiB")
            if answer.length:
                raise IncompleteRead(whole)
        except (OSError, HTTPException):
            why = "closed the connection in the middle of its response"
            raise Unreachable(f"{self.url} {why}; is it still running?") from None
        return whole

    def _refusal(self, answer: HTTPResponse) -> Refused:
        try:
            body = parsed(self._whole(answer))
            message = body["error"]
            said = message if isinstance(message, str) else str(message.get("message", message))
        except MISREAD:
            return Refused(answer.status, f"{self.url} responded {answer.status} {answer.reason}; {IS_IT}", {})
        return Refused(answer.status, said, body)


class _Timely(HTTPResponse):
    """A response that must be complete at some time. A timeout of the socket would begin again with each byte."""

    def __init__(self, until: float, late: str, sock: socket, method: str | None = None) -> None:
        super().__init__(sock, method=method)
        self.fp = BufferedReader(_UntilLate(self.fp.detach(), sock, until, late))


class _UntilLate(RawIOBase):
    def __init__(self, raw: RawIOBase, sock: socket, until: float, late: str) -> None:
        self._raw, self._sock, self._until, self._late = raw, sock, until, late

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        if (left_s := self._until - monotonic()) > 0:
            self._sock.settimeout(left_s)
            with suppress(TimeoutError):
                return self._raw.readinto(buffer)
        raise Unreachable(self._late)

    def close(self) -> None:
        self._raw.close()
        super().close()


def parsed(text: str | bytes, kind: type[dict[str, Any]] = dict) -> Any:
    """JSON from a server; ValueError if it is none."""
    return _cleaned(json.loads(text), kind)


def message_of(answer: object) -> str:
    """What hotseat says it did. Other programs have messages too, such as `{"message": "welcome"}`."""
    match answer:
        case {"status": "ok", "message": str(message)}:
            return message
    raise Refused(200, f"the server responded with another kind of JSON; {IS_IT}", {})


def misread(error: Exception) -> Refused:
    """What to say of a command that failed while it read an answer; raises the error if it did something else."""
    names = [f"{frame.f_globals['__name__']}:{line}" for frame, line in walk_tb(error.__traceback__)]
    place = next((name for name in reversed(names) if name.startswith("hotseat.")), "")
    if not (HAS_ANSWERED.is_set() and place.startswith(READERS)):
        raise error
    why = f"{type(error).__name__} at {place}: {error}"
    return Refused(200, f"the server responded with another kind of JSON ({why}); {IS_IT}", {})


def _cleaned(value: Any, kind: type[dict[str, Any]]) -> Any:
    match value:
        case str():
            return without_escapes_but_lines(value)
        case list():
            return [_cleaned(member, kind) for member in value]
        case dict():
            return kind((_cleaned(name, kind), _cleaned(member, kind)) for name, member in value.items())
    return value


@lru_cache
def _greet(server: Server) -> None:
    """Once, before anything that may take minutes: raises Unreachable if it does not respond at all."""
    with suppress(Refused):
        replace(server, patience_s=SILENT_S).ask("GET", "/health")


class _Fields(dict[str, Any]):
    """An object of an answer. What it lacks, hotseat would have sent."""

    def __missing__(self, name: str) -> Any:
        raise Refused(200, f'the server responded with another kind of JSON, without "{name}"; {IS_IT}', {})


def in_path(model: str) -> str:
    return quote(model, safe="")


def _kind(answer: HTTPResponse) -> str:
    return (answer.getheader("Content-Type") or "").partition(";")[0].strip().lower()
