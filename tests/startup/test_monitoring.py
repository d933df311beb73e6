"""Tracing is open if the environment names a collector, and never keeps hotseat from starting."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from tests.support.otlp_receiver import OtlpReceiver
from tests.support.traces import traced
from tests.support.waiting import PATIENCE_S

from hotseat.dispatch.journal import Journal
from hotseat.startup.monitoring import open_tracing
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from hotseat.tracing.span import TracedRequest
    from hotseat.tracing.tracer import Tracer

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
NOWHERE = "http://127.0.0.1:1"


async def opened(environ: Mapping[str, str], *requests: TracedRequest) -> Tracer | None:
    """Open tracing, trace these requests, and close it again."""
    async with AsyncExitStack() as stack:
        tasks = Tasks()
        tracer = open_tracing(stack, environ, Journal(), tasks)
        stack.push_async_callback(tasks.aclose)
        for request in requests:
            assert tracer is not None
            tracer.finished(request, now=request.ended)
    return tracer


async def test_a_hotseat_without_a_collector() -> None:
    """Nothing is traced, and OpenTelemetry's messages are not needed."""
    assert await opened({}) is None


async def test_what_is_traced_when_hotseat_exits(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says where traces go, and closing sends what has not been sent."""
    monkeypatch.setattr("hotseat.tracing.tracer.AT_EXIT_S", PATIENCE_S)
    caplog.set_level("INFO")
    with OtlpReceiver() as collector:
        tracer = await opened({ENDPOINT: collector.url}, traced())
        names = [span.name for span in collector.spans]

    assert f"requests are traced collector={collector.url}" in caplog.text
    assert names == ["chat beta", "queue", "forward"]
    assert tracer is not None
    assert tracer.dropped == 0


async def test_a_hotseat_without_the_extra(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It starts, and a warning says what to install."""
    monkeypatch.delitem(sys.modules, "hotseat.tracing.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.common.v1.common_pb2", None)

    assert await opened({ENDPOINT: NOWHERE}) is None
    assert "requests are not traced: install hotseat[otel] missing=opentelemetry.proto.common" in caplog.text


async def test_an_invalid_variable(caplog: pytest.LogCaptureFixture) -> None:
    """It starts, and a warning says what is wrong."""
    assert await opened({ENDPOINT: "collector"}) is None
    assert "requests are not traced: a variable is invalid" in caplog.text
    assert "OTEL_EXPORTER_OTLP_ENDPOINT must begin with http://" in caplog.text
