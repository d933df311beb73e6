"""Errors as HTTP answers and as frames of a stream."""

from __future__ import annotations

import ast
import json
from copy import copy
from functools import partial
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

import hotseat
from hotseat.api import responses
from hotseat.api.routes import llama_cpp
from hotseat.config.problems import ConfigError
from hotseat.error_bodies import Dialect, answer, one_line, stream_error
from hotseat.errors import (
    Busy,
    ClientError,
    Forbidden,
    HotseatError,
    LoadFailed,
    NoHostAvailable,
    NotImplementedHere,
    OverBudget,
    TooLarge,
    Unauthorized,
    UnknownModel,
    UpstreamError,
)
from hotseat.relay.http.request_head import parse_request_head
from hotseat.relay.routing.paths import dialect_for
from hotseat.settings import ErrorFormat
from hotseat.simulation.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.responses import Response

AUTO, TEXT, OPENAI = ErrorFormat.AUTO, ErrorFormat.TEXT, ErrorFormat.OPENAI


def parsed(response: bytes) -> tuple[str, dict[str, str], bytes]:
    """Status line, headers by lower-case name, body."""
    head, _, body = response.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    return first, {key.lower(): value for key, _, value in (line.partition(": ") for line in lines)}, body


for module in walk_packages(hotseat.__path__, "hotseat."):
    if not module.name.endswith("__main__"):
        import_module(module.name)  # a type is known once its module is imported


def every_error(kind: type[HotseatError] = HotseatError) -> Iterator[type[HotseatError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


@pytest.mark.parametrize(
    ("path", "stainless", "user_agent", "format_", "dialect"),
    [
        ("/v1/chat/completions", False, "curl/8", AUTO, Dialect.TEXT),
        ("/v1/chat/completions", False, "", AUTO, Dialect.TEXT),
        ("/v1/chat/completions", True, "", AUTO, Dialect.OPENAI),
        ("/v1/chat/completions?x=1", True, "", AUTO, Dialect.OPENAI),
        ("/v1/chat/completions", False, "OpenAI/Python 3.49.0", AUTO, Dialect.OPENAI),
        ("/v1/chat/completions", False, "ai-sdk/openai-compatible/2.0", AUTO, Dialect.OPENAI),
        ("/v1/chat/completions", False, "ai/6.0 ai-sdk/openai-compatible/2.0", AUTO, Dialect.OPENAI),
        ("/v1/chat/completions", False, "not OpenAI/1", AUTO, Dialect.TEXT),
        ("/v1/messages", False, "", AUTO, Dialect.ANTHROPIC),
        ("/v1/messages", True, "Anthropic/Python 2", AUTO, Dialect.ANTHROPIC),
        ("/v1/messages/count_tokens?beta=true", False, "", AUTO, Dialect.ANTHROPIC),
        ("/v1/messages", True, "", TEXT, Dialect.TEXT),
        ("/v1/messages", True, "", OPENAI, Dialect.OPENAI),
        ("/v1/chat/completions", True, "", TEXT, Dialect.TEXT),
        ("/v1/chat/completions", False, "", OPENAI, Dialect.OPENAI),
        ("/upstream/alpha/v1/chat/completions", True, "", AUTO, Dialect.OPENAI),
        ("/upstream/org/model/v1/messages", False, "", AUTO, Dialect.ANTHROPIC),
        ("/upstream/alpha/load", True, "OpenAI/Python", AUTO, Dialect.TEXT),
        ("/upstream/v1/load", True, "", AUTO, Dialect.TEXT),
        ("/upstream/alpha/load?next=/v1/x", True, "", AUTO, Dialect.TEXT),
        ("/upstream/alpha/load", True, "", OPENAI, Dialect.TEXT),
        ("/completion", True, "OpenAI/Python", AUTO, Dialect.TEXT),
        ("/health", True, "", OPENAI, Dialect.TEXT),
        ("/v1", True, "", AUTO, Dialect.TEXT),
        ("/v1/messages/batches", False, "", AUTO, Dialect.ANTHROPIC),
        ("/v1/anything", True, "", AUTO, Dialect.OPENAI),
    ],
)
def test_the_dialect_of_a_caller(
    path: str, stainless: bool, user_agent: str, format_: ErrorFormat, dialect: Dialect
) -> None:
    """Only under /v1/ an SDK is spoken to in its own way, and the configuration can pin one."""
    lines = [f"POST {path} HTTP/1.1", "Host: box", f"User-Agent: {user_agent}", *["X-Stainless-Lang: js"] * stainless]
    head = parse_request_head("\r\n".join([*lines, "", ""]).encode())

    assert dialect_for(head, format_) is dialect


@pytest.mark.parametrize(
    ("error", "dialect", "body"),
    [
        (UnknownModel("no x"), Dialect.TEXT, {"error": "no x"}),
        (
            UnknownModel("no x"),
            Dialect.OPENAI,
            {"error": {"message": "no x", "type": "invalid_request_error", "param": None, "code": "model_not_found"}},
        ),
        (
            UnknownModel("no x"),
            Dialect.ANTHROPIC,
            {"type": "error", "error": {"type": "not_found_error", "message": "no x"}},
        ),
    ],
)
def test_the_body_of_a_refusal(error: HotseatError, dialect: Dialect, body: dict[str, Any]) -> None:
    """Each dialect has its own shape."""
    assert json.loads(parsed(answer(error, dialect, request_id=b"box-7", close=False))[2]) == body


@pytest.mark.parametrize(
    ("error", "openai", "anthropic"),
    [
        (ClientError, "invalid_request_error", "invalid_request_error"),
        (Unauthorized, "authentication_error", "authentication_error"),
        (Forbidden, "permission_error", "permission_error"),
        (TooLarge, "invalid_request_error", "request_too_large"),
        (Busy, "rate_limit_error", "rate_limit_error"),
        (LoadFailed, "server_error", "api_error"),
        (NotImplementedHere, "server_error", "api_error"),
        (HotseatError, "server_error", "api_error"),
    ],
)
def test_the_type_of_an_error(error: type[HotseatError], openai: str, anthropic: str) -> None:
    """SDKs choose their exception by status and type."""
    for dialect, kind in ((Dialect.OPENAI, openai), (Dialect.ANTHROPIC, anthropic)):
        body = json.loads(parsed(answer(error("x"), dialect, request_id=b"box-7", close=False))[2])

        assert body["error"]["type"] == kind


def test_a_refusal_tells_it_in_every_place_a_client_may_look() -> None:
    """The headers carry the text as well; the status line has the standard phrase."""
    status, headers, body = parsed(
        answer(UnknownModel('model "grün" is not\r\ndefined'), Dialect.TEXT, request_id=b"box-7", close=False)
    )

    assert status == "HTTP/1.1 404 Not Found"
    assert headers == {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-error-code": "model_not_found",
        "x-error-message": 'model "gr?n" is not defined',
        "x-request-id": "box-7",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-should-retry": "false",
    }
    assert json.loads(body) == {"error": 'model "grün" is not\r\ndefined'}


@pytest.mark.parametrize(
    ("error", "retry", "after"),
    [
        (Busy("x", retry_after=0.0), "true", "1"),
        (Busy("x", retry_after=1.2), "true", "2"),
        (Busy("x", retry_after=1e9), "true", "60"),
        (Busy("x", retry_after=float("inf")), "true", "60"),
        (Busy("x"), "true", "1"),
        (LoadFailed("x"), "false", None),
        (LoadFailed("x", retry_after=2.0), "true", "2"),
        (OverBudget("x", retry_after=3600.0), "false", None),
        (NoHostAvailable("x"), "true", "1"),
        (NoHostAvailable("x", may_pass=False), "false", None),
        (UpstreamError("x"), None, None),
    ],
)
def test_the_advice_to_come_again(error: HotseatError, retry: str | None, after: str | None) -> None:
    """The headers say whether to try again and when, and nothing where nobody knows."""
    _, headers, _ = parsed(answer(error, Dialect.TEXT, request_id=b"box-7", close=False))

    assert headers.get("x-should-retry") == retry
    assert headers.get("retry-after") == after


def by_relay(error: HotseatError, dialect: Dialect) -> tuple[dict[str, str], bytes]:
    return parsed(answer(error, dialect, request_id=b"box-7", close=False))[1:]


def by_api(error: HotseatError, path: str, error_format: ErrorFormat, *tags: str) -> tuple[dict[str, str], bytes]:
    route = type("Route", (), {"tags": tags})
    request = Request({"type": "http", "path": path, "headers": [], "query_string": b"", "route": route})
    return parts_of(responses.refusal(request, error, error_format))


def parts_of(response: Response) -> tuple[dict[str, str], bytes]:
    return dict(response.headers), bytes(response.body)


RENDERED: dict[str, Callable[[HotseatError], tuple[dict[str, str], bytes]]] = {
    **{f"relay, {dialect.value}": partial(by_relay, dialect=dialect) for dialect in Dialect},
    "API of hotseat": lambda error: by_api(error, "/hotseat/status", AUTO),
    "API of OpenAI, text": lambda error: by_api(error, "/v1/models", TEXT),
    "API of OpenAI, object": lambda error: by_api(error, "/v1/models", OPENAI),
    "API of Ollama": lambda error: by_api(error, "/api/show", AUTO, "ollama"),
    "API of llama.cpp's router": lambda error: parts_of(llama_cpp.refusal(error, None)),
}
OF_FILES = (ConfigError, TraceError)
"""Lists of problems, which commands print."""
WHY = "the file of model qwen is missing: mount its disk"
UNDECIDED = {"HotseatError", "InvalidMove", "BrokenPromise", "UpstreamError", "HostUnresponsive"}
"""Bugs of ours and failures within a request: nobody knows whether they repeat, so clients follow their own rule."""


@pytest.mark.parametrize("render", RENDERED.values(), ids=RENDERED)
@pytest.mark.parametrize("kind", [*every_error()])
def test_a_response_says_when_to_retry_exactly_if_a_retry_can_help(
    kind: type[HotseatError], render: Callable[[HotseatError], tuple[dict[str, str], bytes]]
) -> None:
    """Every type says whether it can; both headers follow from that in every API, whatever the caller passed."""
    plain = kind("x") if kind is not ConfigError else ConfigError(())
    patient = copy(plain) if kind is not LoadFailed else LoadFailed("x", retry_after=30.0)
    patient.retry_after = 30.0
    for error in (plain, patient):
        headers, helps = render(error)[0], error.retry_helps

        assert ("retry-after" in headers) is (helps is True)
        assert headers.get("x-should-retry") == {True: "true", False: "false", None: None}[helps]
    assert (plain.retry_helps is None) is (kind.__name__ in UNDECIDED)


@pytest.mark.parametrize("render", RENDERED.values(), ids=RENDERED)
@pytest.mark.parametrize("kind", [kind for kind in every_error() if kind not in OF_FILES])
def test_a_response_says_why_and_never_what_a_model_server_wrote(
    kind: type[HotseatError], render: Callable[[HotseatError], tuple[dict[str, str], bytes]]
) -> None:
    """The message of every type of error is in the header and the body of every API, and no more than the message."""
    error = kind(WHY) if not issubclass(kind, LoadFailed) else kind(WHY, output=["error: password=hunter2"])
    headers, body = render(error)

    assert WHY in body.decode()
    assert headers.get("x-error-message", WHY) == WHY
    assert b"hunter2" not in body
    assert "hunter2" not in str(headers)


def test_only_errors_that_a_retry_can_mend_are_given_a_time() -> None:
    """Wherever an error is made with `retry_after`, its type lets clients retry."""
    kinds = {kind.__name__: kind for kind in every_error()}
    calls = [
        call
        for file in (Path(__file__).parents[1] / "src/hotseat").rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and any(keyword.arg == "retry_after" for keyword in call.keywords)
    ]
    made = [call.func.id for call in calls if isinstance(call.func, ast.Name) and call.func.id in kinds]

    assert len(made) >= 12
    assert [name for name in made if not kinds[name]("x", retry_after=1.0).retry_helps] == []


def test_an_unknown_key_is_challenged() -> None:
    """A 401 says how to present a key; other answers do not."""
    challenge = answer(Unauthorized("x"), Dialect.TEXT, request_id=b"box-7", close=False)

    assert b'\r\nWWW-Authenticate: Bearer realm="hotseat"\r\nWWW-Authenticate: Basic realm="hotseat"\r\n' in challenge
    assert b"WWW-Authenticate" not in answer(Forbidden("x"), Dialect.TEXT, request_id=b"box-7", close=False)


def test_the_last_answer_of_a_connection_says_so() -> None:
    """`Connection: close` is there exactly when we close."""
    assert parsed(answer(ClientError("x"), Dialect.TEXT, request_id=b"box-7", close=True))[1]["connection"] == "close"
    assert "connection" not in parsed(answer(ClientError("x"), Dialect.TEXT, request_id=b"box-7", close=False))[1]


def test_a_refused_head_request_gets_no_body() -> None:
    """The head is the same as with a body."""
    whole = answer(ClientError("x"), Dialect.TEXT, request_id=b"box-7", close=False)
    head = answer(ClientError("x"), Dialect.TEXT, request_id=b"box-7", close=False, head_only=True)

    assert head.endswith(b"\r\n\r\n")
    assert whole == head + b'{"error":"x"}'


@pytest.mark.parametrize("error", [kind for kind in every_error() if kind is not ConfigError])
def test_every_error_has_a_standard_reason_phrase(error: type[HotseatError]) -> None:
    """Proxies and log readers know these phrases, and no text of ours or of a server ends up in a status line."""
    line = parsed(answer(error("a text of ours"), Dialect.TEXT, request_id=b"box-7", close=False))[0]

    assert line == f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"


@given(st.text(st.characters(exclude_categories=())), st.sampled_from(Dialect))
def test_no_message_can_break_the_head(message: str, dialect: Dialect) -> None:
    """Whatever a message holds, head lines stay printable ASCII, one line each, and the length is right."""
    status, headers, body = parsed(answer(UpstreamError(message * 3), dialect, request_id=b"box-7", close=True))

    assert status == "HTTP/1.1 502 Bad Gateway"
    assert set(headers) == {
        "content-type",
        "content-length",
        "x-error-code",
        "x-error-message",
        "x-request-id",
        "cache-control",
        "x-content-type-options",
        "connection",
    }
    assert all(" " <= sign <= "~" for line in (status, *headers.values()) for sign in line)
    assert int(headers["content-length"]) == len(body)
    assert json.loads(body)


@given(st.text(st.characters(exclude_categories=())), st.integers(0, 50))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    """No control character, no line break and nothing but ASCII survives, within the limit."""
    line = one_line(text, limit)

    assert len(line) <= limit
    assert all(" " <= sign <= "~" for sign in line)


@pytest.mark.parametrize("dialect", [Dialect.TEXT, Dialect.OPENAI])
def test_a_broken_stream_gets_an_error_object(dialect: Dialect) -> None:
    """A plain string inside a stream is lost in SDKs, so it is an object for everybody."""
    frame = stream_error("it\ndied", "upstream_failed", dialect)

    assert frame.startswith(b"data: {")
    assert frame.count(b"\n") == 2
    assert frame.endswith(b"\n\n")
    error = json.loads(frame.removeprefix(b"data: "))["error"]
    assert error == {"message": "it\ndied", "type": "server_error", "param": None, "code": "upstream_failed"}


def test_a_broken_anthropic_stream_gets_an_error_event() -> None:
    """Anthropic's clients drop data without the event's name."""
    event, data, *rest = stream_error("it died", "upstream_failed", Dialect.ANTHROPIC).decode().split("\n")

    assert (event, rest) == ("event: error", ["", ""])
    assert json.loads(data.removeprefix("data: ")) == {
        "type": "error",
        "error": {"type": "api_error", "message": "it died"},
    }
