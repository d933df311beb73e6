"""Traces of requests to real llama-servers, as a collector receives them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.support.fleet_journey import Hosts, fleet_of
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import llama
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.otlp_receiver import ReceivedSpan

pytestmark = [pytest.mark.llama, pytest.mark.timeout(240)]

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
MODELS = {"alpha": llama("alpha"), "beta": llama("beta")}
CLIENTS_TRACE, CLIENTS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


def tree(trace: list[ReceivedSpan], parent: str) -> dict[str, object]:
    """The names of the spans below this one."""
    return {span.name: tree(trace, span.id) for span in trace if span.parent_id == parent}


def test_a_request_that_swaps(tmp_path: Path, collector: OtlpReceiver) -> None:
    """One trace shows its wait, every step of the swap, the work of the model server, and why; nothing of its text."""
    with ForkedHotseat({"models": MODELS}, tmp_path, environ={ENDPOINT: collector.url}) as hotseat:
        stream = hotseat.stream("alpha", max_tokens=4000).until_it_speaks()
        with ThreadPoolExecutor(1) as other:
            mine = f"00-{CLIENTS_TRACE}-{CLIENTS_SPAN}-01"
            swapped = other.submit(hotseat.chat, "beta", traceparent=mine)
            eventually(lambda: hotseat.call("GET", "/hotseat/queue").json()["waiting"])
            stream.leave()
            assert swapped.result().status == 200
        trace = collector.trace_of("chat beta")
        streamed = collector.trace_of("chat alpha")
    spans = {span.name: span for span in trace}
    root, queue, forward = spans["chat beta"], spans["queue"], spans["forward"]

    assert {span.trace_id for span in trace} == {CLIENTS_TRACE}
    assert tree(trace, CLIENTS_SPAN) == {
        "chat beta": {"queue": {}, "swap": {"drain": {}, "stop": {}, "start": {}}, "forward": {}}
    }
    assert root.attributes["gen_ai.usage.output_tokens"] == 4
    assert "alpha" in queue.attributes["hotseat.reason_at_first"]  # it is protected, or is being stopped already
    assert queue.attributes["hotseat.reason"] == "waited for beta to load after evicting alpha"
    assert spans["swap"].attributes == {"hotseat.evicted": ["alpha"]}
    assert spans["start"].attributes == {"hotseat.model": "beta", "hotseat.reason": "started for 1 request"}
    assert (forward.kind, forward.events) == (Span.SPAN_KIND_CLIENT, [])
    assert [span.events for span in streamed if span.name == "forward"] == [["first token"]]
    in_order = [root.began, spans["stop"].began, spans["start"].began, spans["start"].ended, queue.ended, root.ended]
    assert in_order == sorted(in_order)
    assert not any(b"hello" in body or b"127.0.0.1" in body for body in collector.bodies)


def test_a_collector_that_comes_late(tmp_path: Path) -> None:
    """Requests are answered as always, a warning says why nothing is exported, and the collector then gets all."""
    port = free_port()
    with ForkedHotseat({"models": MODELS}, tmp_path, environ={ENDPOINT: f"http://127.0.0.1:{port}"}) as hotseat:
        answers = [hotseat.chat("alpha").status for _ in range(3)]
        eventually(lambda: "the collector does not take traces" in hotseat.log())
        with OtlpReceiver(port) as collector:
            collector.trace_of("chat alpha", count=3)
        log = hotseat.log()

    assert answers == [200, 200, 200]
    assert "Connection refused" in log


def test_a_request_that_another_host_serves(tmp_path: Path, collector: OtlpReceiver) -> None:
    """One trace across both hosts: what the second does is part of the forwarding of the first."""
    environ = {ENDPOINT: collector.url}
    with ExitStack() as stack:
        hosts: Hosts = stack.enter_context(fleet_of(tmp_path, nats=1, models={}))
        hosts.start("a", {"alpha": llama("alpha")}, environ={**environ, "OTEL_SERVICE_NAME": "host-a"})
        hosts.start("b", {"beta": llama("beta")}, environ={**environ, "OTEL_SERVICE_NAME": "host-b"})
        hosts.until_connected()
        assert hosts["a"].chat("beta").status == 200
        trace = collector.trace_of("chat beta", count=2)
    first, second = (sorted(of_host(trace, name), key=lambda span: span.began) for name in ("host-a", "host-b"))
    [forward] = [span for span in first if span.name == "forward"]

    assert {span.trace_id for span in trace} == {forward.trace_id}
    assert tree(second, forward.id) == {"chat beta": {"queue": {}, "swap": {"start": {}}, "forward": {}}}
    assert forward.attributes == {"hotseat.to_host": "b"}
    assert [span.attributes["hotseat.from_host"] for span in second if span.parent_id == forward.id] == ["a"]


def of_host(trace: list[ReceivedSpan], service: str) -> list[ReceivedSpan]:
    return [span for span in trace if span.service == service]
