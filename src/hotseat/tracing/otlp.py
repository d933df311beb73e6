"""The traces of finished requests as OTLP, in OpenTelemetry's own messages. The only module that imports them.

Messages are put into others as bytes: to let protobuf copy them takes as long as everything else.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from hotseat import __version__
from hotseat.tracing.span import Kind, nanoseconds, spans_of
from hotseat.tracing.tracer import new_span_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.tracing.span import Span, TracedRequest, Value

KINDS: Final = {
    Kind.SERVER: SpanMessage.SPAN_KIND_SERVER,
    Kind.CLIENT: SpanMessage.SPAN_KIND_CLIENT,
    Kind.INTERNAL: SpanMessage.SPAN_KIND_INTERNAL,
}
FAILED: Final = Status(code=Status.STATUS_CODE_ERROR)
RESOURCE_SPANS: Final = ExportTraceServiceRequest.RESOURCE_SPANS_FIELD_NUMBER
SCOPE_SPANS: Final = ResourceSpans.SCOPE_SPANS_FIELD_NUMBER
SPANS: Final = ScopeSpans.SPANS_FIELD_NUMBER
ATTRIBUTES: Final = SpanMessage.ATTRIBUTES_FIELD_NUMBER
LENGTH_DELIMITED: Final = 2


class OtlpEncoder:
    def __init__(self, service: Mapping[str, str]) -> None:
        attributes = [KeyValue(key=name, value=as_message(value)) for name, value in service.items()]
        scope = InstrumentationScope(name="hotseat", version=__version__)
        self._resource: bytes = ResourceSpans(resource=Resource(attributes=attributes)).SerializeToString()
        self._scope: bytes = ScopeSpans(scope=scope).SerializeToString()

    def __call__(self, request: TracedRequest) -> bytes:
        """A complete message. Several of them one after the other are one message with the traces of all."""
        spans = b"".join([field(SPANS, encoded(span, request)) for span in spans_of(request, new_span_id)])
        return field(RESOURCE_SPANS, self._resource + field(SCOPE_SPANS, self._scope + spans))


def field(number: int, content: bytes) -> bytes:
    """A message or text as a field of another message."""
    length, size = len(content), b""
    while length > 0x7F:
        size += b"%c" % (length & 0x7F | 0x80)
        length >>= 7
    return b"%c%b%c%b" % (number << 3 | LENGTH_DELIMITED, size, length, content)


def encoded(span: Span, request: TracedRequest) -> bytes:
    epoch_ns = request.epoch_ns
    message: bytes = SpanMessage(
        trace_id=request.trace.trace_id.to_bytes(16, "big"),
        span_id=span_id(span.id),
        parent_span_id=span_id(span.parent_id) if span.parent_id else b"",
        name=span.name,
        kind=KINDS[span.kind],
        start_time_unix_nano=epoch_ns + nanoseconds(span.began),
        end_time_unix_nano=epoch_ns + nanoseconds(span.ended),
        events=[SpanMessage.Event(name=name, time_unix_nano=epoch_ns + nanoseconds(at)) for name, at in span.events],
        status=FAILED if span.has_failed else None,
    ).SerializeToString()
    return message + b"".join([attribute(name, value) for name, value in span.attributes.items()])


def span_id(number: int) -> bytes:
    return number.to_bytes(8, "big")


@lru_cache(maxsize=1024)
def attribute(name: str, value: Value) -> bytes:
    """Most values come again and again."""
    return field(ATTRIBUTES, KeyValue(key=name, value=as_message(value)).SerializeToString())


def as_message(value: Value) -> AnyValue:
    match value:
        case str():
            return AnyValue(string_value=value)
        case int():
            return AnyValue(int_value=value)
        case _:
            return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=each) for each in value]))
