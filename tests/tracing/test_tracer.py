"""Where requests belong, what is kept of them when they end, and how it reaches the collector."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
from tests.support.certificate import CERTIFICATE
from tests.support.fake_launcher import spec
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.ports import free_port
from tests.support.traces import KeptTraces, traced
from tests.support.waiting import PATIENCE_S, come_true

from hotseat.dispatch.journal import Entry
from hotseat.identifiers import Address, LaunchId, ModelName, Upstream
from hotseat.scheduling.commands import StartUpstream
from hotseat.scheduling.events import ClockReached, UpstreamReady
from hotseat.tasks import Tasks
from hotseat.tracing import tracer as module
from hotseat.tracing.collector import collector_of
from hotseat.tracing.otlp import OtlpEncoder
from hotseat.tracing.swap_steps import SwapSteps
from hotseat.tracing.traceparent import Parent
from hotseat.tracing.tracer import BATCH, BETWEEN_WARNINGS_S, TraceQueue, Tracer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

BETA = ModelName("beta")


def tracer(queue: KeptTraces, steps: SwapSteps | None = None, *, samples: bool = True) -> Tracer:
    return Tracer(steps or SwapSteps(lambda: 0.0), queue, lambda trace_id, parent: samples, lambda: 1_000_000_000_000)


def loaded_beta() -> SwapSteps:
    """Beta was loaded from 101 to 103."""
    now = [101.0]
    steps = SwapSteps(lambda: now[0])
    steps.watch(Entry(1, 0.0, ClockReached(), (StartUpstream(BETA, LaunchId(1), spec("beta"), "started"),)))
    now[0] = 103.0
    steps.watch(Entry(2, 0.0, UpstreamReady(BETA, LaunchId(1), Upstream(Address("h", 1), 1)), ()))
    return steps


def test_a_request_without_a_trace() -> None:
    """It begins one, with new ids each time."""
    begun = [tracer(KeptTraces()).begin(value) for value in (None, b"nonsense")]

    assert [each.parent for each in begun] == [None, None]
    assert len({number for each in begun for number in (each.trace_id, each.root_id, each.forward_id)}) == 6


def test_a_request_of_a_trace() -> None:
    """It belongs to the trace of its client."""
    begun = tracer(KeptTraces()).begin(b"00-%032x-%016x-01" % (7, 4711))

    assert (begun.trace_id, begun.parent) == (7, Parent(7, 4711, is_sampled=True))


def test_a_request_that_waited_for_a_load() -> None:
    """The steps of its wait, and the time of day."""
    queue = KeptTraces()
    tracer(queue, loaded_beta()).finished(traced(reason="waited for beta to load"), now=105.0)
    [kept] = queue.requests

    assert [step.name for step in kept.steps] == ["start"]
    assert kept.epoch_ns == 895_000_000_000
    assert kept.reason == "waited for beta to load"


def test_a_request_that_did_not_wait() -> None:
    """A load that ended at the moment of its arrival was not for it."""
    queue = KeptTraces()
    tracer(queue, loaded_beta()).finished(traced(began=103.0), now=105.0)

    assert queue.requests[0].steps == ()


def test_a_request_that_was_never_granted() -> None:
    """The steps until it ended."""
    queue = KeptTraces()
    tracer(queue, loaded_beta()).finished(traced(granted_at=None), now=105.0)

    assert [step.name for step in queue.requests[0].steps] == ["start"]


def test_a_trace_that_is_not_recorded() -> None:
    """The upstream is told."""
    begun = tracer(KeptTraces(), samples=False).begin(None)

    assert not begun.is_sampled
    assert begun.line.endswith(b"-00\r\n")


def test_traces_that_were_dropped() -> None:
    """As many as the queue has counted."""
    queue = KeptTraces()
    queue.dropped = 4

    assert tracer(queue).dropped == 4


HEADERS = {"OTEL_EXPORTER_OTLP_HEADERS": "x-api-key=letmein"}
SPANS = 3
"""Of each trace here."""


@pytest.fixture(autouse=True)
def often_and_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may need seconds for an answer."""
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    monkeypatch.setattr(module, "AT_EXIT_S", PATIENCE_S)


@pytest.fixture
def collector() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


def queue_to(url: str, clock: Callable[[], float] = lambda: 0.0, **environ: str) -> TraceQueue:
    collector = collector_of({"OTEL_EXPORTER_OTLP_ENDPOINT": url, **HEADERS, **environ})
    assert collector is not None
    return TraceQueue(collector, OtlpEncoder(collector.service), clock)


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    tasks = Tasks()
    yield tasks
    await tasks.aclose()


async def test_traces_are_sent_in_batches(collector: OtlpReceiver, tasks: Tasks) -> None:
    """What has come meanwhile goes out together, with the key of the collector, and nothing is lost."""
    queue = queue_to(collector.url)
    for _ in range(BATCH + 3):
        queue.put(traced())
    tasks.start(queue.run(), "traces")
    await come_true(lambda: len(collector.spans) == (BATCH + 3) * SPANS)

    assert collector.paths == ["/v1/traces", "/v1/traces"]
    assert collector.headers[0]["x-api-key"] == "letmein"
    assert collector.headers[0]["Content-Type"] == "application/x-protobuf"
    assert queue.dropped == 0


async def test_the_last_traces_before_the_exit(collector: OtlpReceiver) -> None:
    """They are sent while hotseat closes."""
    queue = queue_to(collector.url)
    queue.put(traced())
    await queue.aclose()

    assert len(collector.spans) == SPANS


async def test_a_collector_that_hangs_while_hotseat_exits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The exit does not wait for it."""
    monkeypatch.setattr(module, "AT_EXIT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as never_answers:
        queue = queue_to(f"http://127.0.0.1:{never_answers.getsockname()[1]}")
        queue.put(traced())
        await queue.aclose()

    assert "no answer within 0.05 s while hotseat exits" in caplog.text


async def test_a_collector_that_is_away(tasks: Tasks, caplog: pytest.LogCaptureFixture) -> None:
    """Traces wait for it, with a warning once a minute."""
    now, port = [0.0], free_port()
    queue = queue_to(f"http://127.0.0.1:{port}", lambda: now[0])
    queue.put(traced())
    for moment in (0.0, 0.5 * BETWEEN_WARNINGS_S, BETWEEN_WARNINGS_S):
        now[0] = moment
        await queue.aclose()
    warnings = [record.getMessage() for record in caplog.records]
    tasks.start(queue.run(), "traces")
    with OtlpReceiver(port) as collector:
        await come_true(lambda: len(collector.spans) == SPANS)

    assert len(warnings) == 2
    assert warnings[0].startswith("the collector does not take traces waiting=1 dropped=0 problem=")
    assert queue.dropped == 0


@pytest.mark.parametrize("status", [429, 503])
async def test_a_collector_that_is_busy(collector: OtlpReceiver, caplog: pytest.LogCaptureFixture, status: int) -> None:
    """It gets the same traces again."""
    collector.statuses = [status]
    queue = queue_to(collector.url)
    queue.put(traced())
    await queue.aclose()
    await queue.aclose()

    assert f"it answered with status {status}" in caplog.text
    assert len(collector.spans) == SPANS
    assert (len(collector.bodies), queue.dropped) == (2, 0)


async def test_a_collector_that_says_when_to_come_again(
    collector: OtlpReceiver, tasks: Tasks, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left alone until then."""
    collector.statuses, collector.retry_after = [429], "20"
    now = [0.0]
    looked: list[float] = []

    def clock() -> float:
        looked.append(now[0])
        return now[0]

    queue = queue_to(collector.url, clock)
    queue.put(traced())
    tasks.start(queue.run(), "traces")
    await come_true(lambda: "it answered with status 429" in caplog.text)
    now[0] = 19.0
    await come_true(lambda: looked.count(19.0) > 3)
    asked_at_19 = len(collector.bodies)
    now[0] = 20.0
    await come_true(lambda: len(collector.spans) == SPANS)

    assert asked_at_19 == 1


async def test_traces_are_compressed(collector: OtlpReceiver) -> None:
    """If the collector shall get them so."""
    queue = queue_to(collector.url, OTEL_EXPORTER_OTLP_COMPRESSION="gzip")
    queue.put(traced())
    await queue.aclose()

    assert collector.headers[0]["Content-Encoding"] == "gzip"
    assert len(collector.spans) == SPANS


async def test_a_collector_with_a_certificate_of_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is trusted because of the file that the environment names."""
    file = tmp_path / "c.pem"
    file.write_text(CERTIFICATE)
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(file)
    async with await asyncio.start_server(lambda _, writer: writer.write(said), "localhost", 0, ssl=own) as listening:
        url = f"https://localhost:{listening.sockets[0].getsockname()[1]}"
        for certificate in ("", str(file)):
            queue = queue_to(url, OTEL_EXPORTER_OTLP_CERTIFICATE=certificate)
            queue.put(traced())
            await queue.aclose()
    [warning] = [record.getMessage() for record in caplog.records]

    assert "waiting=1" in warning
    assert "certificate" in warning
    with pytest.raises(ValueError, match="CERTIFICATE names no file with certificates"):
        queue_to(url, OTEL_EXPORTER_OTLP_CERTIFICATE=str(tmp_path / "none"))


async def test_a_collector_that_refuses(collector: OtlpReceiver, caplog: pytest.LogCaptureFixture) -> None:
    """What it refuses is dropped and counted, and what follows is sent."""
    collector.statuses = [401]
    queue = queue_to(collector.url)
    for _ in range(BATCH + 1):
        queue.put(traced())
    await queue.aclose()

    assert queue.dropped == BATCH
    assert len(collector.spans) == SPANS
    assert f"waiting=1 dropped={BATCH} problem='it answered with status 401'" in caplog.text


async def test_more_traces_than_fit(collector: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is dropped and counted; there is room again when the collector has taken the others."""
    queue = queue_to(collector.url)
    monkeypatch.setattr(module, "MOST_WAITING", 2 * len(OtlpEncoder({"service.name": "hotseat"})(traced())))
    for _ in range(5):
        queue.put(traced())
    await queue.aclose()
    queue.put(traced())
    await queue.aclose()

    assert queue.dropped == 3
    assert len(collector.spans) == 3 * SPANS
