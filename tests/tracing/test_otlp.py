"""Traces as bytes, as a collector decodes them."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.support.otlp_receiver import spans_in
from tests.support.traces import traced

from hotseat.identifiers import ModelName
from hotseat.tracing.otlp import OtlpEncoder
from hotseat.tracing.swap_steps import Step
from hotseat.tracing.traceparent import Parent, TraceContext

EPOCH_NS = 1_700_000_000_000_000_000
TRACE_ID = 0x4BF92F3577B34DA6A3CE929D0E0E4736
encode = OtlpEncoder({"service.name": "gpu-box"})


def test_a_trace_on_the_wire() -> None:
    """Ids, parents, times to the nanosecond, kinds, attributes, events and failures arrive as they are."""
    trace = TraceContext(TRACE_ID, Parent(TRACE_ID, 0x77, True), 0x11, 0x22, is_sampled=True, first_token_at=103.5)
    message = ExportTraceServiceRequest.FromString(encode(traced(status=502, epoch_ns=EPOCH_NS)._replace(trace=trace)))
    root, queue, forward = spans_in(message)

    assert {span.trace_id for span in (root, queue, forward)} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
    assert (root.name, root.id, root.parent_id) == ("chat beta", "0000000000000011", "0000000000000077")
    assert (root.kind, queue.kind, forward.kind) == (
        Span.SPAN_KIND_SERVER, Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_CLIENT,
    )  # fmt: skip
    assert (root.began - EPOCH_NS, root.ended - EPOCH_NS) == (100_000_000_000, 105_000_000_000)
    assert root.attributes["http.response.status_code"] == 502
    assert root.attributes["gen_ai.request.model"] == "beta"
    assert (forward.id, forward.parent_id, forward.events) == ("0000000000000022", root.id, ["first token"])
    assert (root.has_failed, queue.has_failed, forward.has_failed) == (True, False, True)
    assert root.service == "gpu-box"


def test_a_trace_that_begins_here() -> None:
    """Its first span has no parent."""
    root, *_ = spans_in(ExportTraceServiceRequest.FromString(encode(traced())))

    assert root.parent_id == ""


def test_a_list_in_an_attribute() -> None:
    """The models that were evicted."""
    drains = tuple(Step("drain", ModelName(name), "idle", 100.0, 101.0) for name in ("one", "other"))
    spans = spans_in(ExportTraceServiceRequest.FromString(encode(traced(steps=drains))))

    assert [span.attributes for span in spans if span.name == "swap"] == [{"hotseat.evicted": ["one", "other"]}]


def test_two_traces_one_after_the_other() -> None:
    """Their bytes are one message with both."""
    message = ExportTraceServiceRequest.FromString(encode(traced(id="one")) + encode(traced(id="other")))

    ids = [span.attributes.get("hotseat.request.id") for span in spans_in(message)]
    assert [each for each in ids if each] == ["one", "other"]


@pytest.mark.parametrize("length", [1, 0x70, 0x7F, 0x80, 0x3FFF, 0x4000, 100_000])
def test_a_trace_of_any_size(length: int) -> None:
    """Lengths of more than seven bits take several bytes."""
    reason = "x" * length
    _, queue, _ = spans_in(ExportTraceServiceRequest.FromString(encode(traced(reason=reason))))

    assert queue.attributes == {"hotseat.reason": reason}
