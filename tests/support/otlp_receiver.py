"""A collector that keeps what it receives over OTLP/HTTP, decoded by OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    trace_id: str
    id: str
    parent_id: str
    name: str
    kind: int
    began: int
    ended: int
    """Both in nanoseconds since the epoch."""
    attributes: dict[str, Any]
    events: list[str]
    has_failed: bool
    service: str


class OtlpReceiver:
    """`statuses` are its next answers, then 200; only what it answers with 200 is kept."""

    def __init__(self, port: int = 0) -> None:
        self.statuses: list[int] = []
        self.retry_after: str | None = None
        self.spans: list[ReceivedSpan] = []
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def trace_of(self, name: str, count: int = 1) -> list[ReceivedSpan]:
        """Wait for `count` traces with a root of this name; all spans of the last of them, in order of their begin."""
        roots: list[ReceivedSpan] = []

        def has_come() -> bool:
            roots[:] = [span for span in [*self.spans] if span.name == name]
            return len(roots) >= count

        assert eventually(has_come), [span.name for span in self.spans]
        trace = [span for span in [*self.spans] if span.trace_id == roots[-1].trace_id]
        return sorted(trace, key=lambda span: (span.began, -span.ended))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver._received(self.path, dict(self.headers), body))
                self.send_header("Content-Length", "0")
                if receiver.retry_after:
                    self.send_header("Retry-After", receiver.retry_after)
                self.end_headers()

            def log_message(self, *args: object) -> None: ...

        return Handler

    def _received(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """The status of the answer."""
        self.paths.append(path)
        self.headers.append(headers)
        self.bodies.append(body)
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            plain = gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body
            self.spans += spans_in(ExportTraceServiceRequest.FromString(plain))
        return status


def spans_in(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for of_resource in request.resource_spans:
        service = values(of_resource.resource.attributes)["service.name"]
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.kind,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    values(span.attributes),
                    [event.name for event in span.events],
                    span.status.code == span.status.STATUS_CODE_ERROR,
                    service,
                )


def values(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    return {each.key: value_of(each.value) for each in attributes}


def value_of(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    assert kind is not None
    return [value_of(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
