"""A model server or peer that sends without end: others are served meanwhile, and little memory is taken.

`FLOODS` goes through every place where something of a response is kept or processed on its way to the client.
The tests measure CPU time, as `tests/relay/downstream/test_hostile_input.py` does.
"""

from __future__ import annotations

import ast
import asyncio
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.relay.downstream.test_hostile_input import MOST_S, ORDINARY_S, computed_s
from tests.relay.exchange.test_ollama import EVENTS, HI, answer, ask
from tests.support.early_streams import waiting_client
from tests.support.fake_launcher import spec
from tests.support.llama import REPOSITORY
from tests.support.loop_turns import Turns
from tests.support.relay_rig import HELLO, chat
from tests.support.waiting import come_true

from hotseat.api.routes.llama_cpp import LONGEST_PROPS
from hotseat.catalog.spec import LoadingState
from hotseat.fleet.other_hosts import MOST_OF_A_LIST
from hotseat.model_servers.running_server import MOST_SHOWN
from hotseat.model_servers.self_reports import LARGEST
from hotseat.net.http_client import MOST_BYTES
from hotseat.ollama.completions import MOST_CALLS
from hotseat.ollama.responses import MOST_OBJECTS, MOST_VALUES
from hotseat.relay.exchange.response_translation import MOST_OF_A_COMPLETION, MOST_OF_VECTORS
from hotseat.relay.upstream.connection import UpstreamConnection
from hotseat.settings import MiB

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import Call
    from tests.support.transport import Wire

    from hotseat.tasks import Tasks

pytestmark = [pytest.mark.uncounted, pytest.mark.one_loop]

MOST_MEMORY = 64 * MiB
ENOUGH, ENDLESS = 6 * MiB, 32 * MiB
"""What is sent where nothing is kept, and where a limit is exceeded long before."""
PIECE, FULL_READ = 240_000, 64 << 10
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
REFUSED = OK.replace(b"200 OK", b"500 Broken")
PLAIN = chat()
STREAM, WHOLE = ask(), ask(**HI, stream=False)
VECTORS = ask("/api/embed", input="hi")


class Flood(NamedTuple):
    """What is asked, how the response begins, and what follows again and again until the end of the connection."""

    request: bytes
    head: bytes
    unit: bytes | Callable[[int], bytes]
    begin: bytes = b""
    is_cut: bool = True
    """Is there a limit that it exceeds? Else it may go on: nothing of it is kept."""
    framed: Callable[[bytes], bytes] = lambda data: b"%x\r\n%b\r\n" % (len(data), data)


def event(data: bytes) -> bytes:
    return b"data: %b\n\n" % data


def call_event(pieces: bytes) -> bytes:
    return event(b'{"choices":[{"delta":{"tool_calls":[%b]}}]}' % pieces)


def piece_of_text(text: bytes) -> bytes:
    return event(b'{"choices":[{"delta":{"content":"%b"}}]}' % text)


FLOODS = {
    # The body as it is relayed: the last parts for token counts, chunk framing
    "plain chunks": Flood(PLAIN, OK, b"x" * 1000, is_cut=False),
    "plain events": Flood(PLAIN, EVENTS, piece_of_text(b"a"), is_cut=False),
    "plain tiny chunks": Flood(PLAIN, EVENTS, b"1\r\na\r\n", is_cut=False, framed=bytes),
    "chunk extension": Flood(PLAIN, OK, b"x" * 1000, b"5;", framed=bytes),
    "trailers": Flood(PLAIN, OK, b"X-A: 1\r\n", b"0\r\n", framed=bytes),
    "head": Flood(PLAIN, b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n", framed=bytes),
    # Lines and events of a translated stream
    "tiny chunks": Flood(STREAM, EVENTS, b"1\r\n:\r\n", framed=bytes),
    "line without an end": Flood(STREAM, EVENTS, b"x" * 1000),
    "event without an end": Flood(STREAM, EVENTS, b"data: x\n"),
    "blank lines": Flood(STREAM, EVENTS, b"\n", is_cut=False),
    "comments": Flood(STREAM, EVENTS, b":\n", is_cut=False),
    "comments and blank lines": Flood(STREAM, EVENTS, b":\n\n", is_cut=False),
    "empty events": Flood(STREAM, EVENTS, b"data:{}\n\n"),
    "events with usage": Flood(STREAM, EVENTS, b'data:{"usage":{}}\n\n'),
    "small texts": Flood(STREAM, EVENTS, b'data:{"content":"a"}\n\n'),
    "ordinary texts": Flood(STREAM, EVENTS, piece_of_text(b"token" * 20), is_cut=False),
    "a text of many escapes": Flood(STREAM, EVENTS, piece_of_text(rb"\n" * 500_000), is_cut=False),
    "reasoning": Flood(
        STREAM, EVENTS, event(b'{"choices":[{"delta":{"reasoning":"%b"}}]}' % (b"a" * 99)), is_cut=False
    ),
    "choices": Flood(STREAM, EVENTS, event(b'{"choices":[%b{}]}' % (b"{}," * 330_000)), is_cut=False),
    "log probabilities": Flood(
        STREAM, EVENTS, event(b'{"choices":[{"delta":{},"logprobs":[%b0]}]}' % (b"0," * 500_000)), is_cut=False
    ),
    "an error of many values": Flood(STREAM, EVENTS, event(b'{"error":[%b0]}' % (b"[]," * 340_000))),
    # The calls of tools, which are collected until the end of the stream
    "new calls": Flood(STREAM, EVENTS, lambda n: call_event(b'{"index":%d,"id":"a"}' % n)),
    "new calls in one event": Flood(STREAM, EVENTS, call_event(b'{"id":"a"},{"id":"b"},' * 2_000 + b'{"id":"c"}')),
    "pieces of a call": Flood(STREAM, EVENTS, call_event(b'{"id":"a"},' * 999 + b'{"function":{}}'), is_cut=False),
    "empty pieces of a call": Flood(STREAM, EVENTS, call_event(b"{}," * 999 + b"{}"), is_cut=False),
    "too many pieces of a call": Flood(STREAM, EVENTS, call_event(b"{}," * 300_000 + b"{}")),
    "names of a call": Flood(STREAM, EVENTS, call_event(b'{"function":{"name":"a"}},{"function":{"name":"b"}}')),
    "ids of calls": Flood(STREAM, EVENTS, lambda n: call_event(b'{"index":%d,"id":"%b"}' % (n, b"a" * 10_000))),
    "arguments": Flood(STREAM, EVENTS, call_event(b'{"index":0,"function":{"arguments":"%b"}}' % (b"ab" * 500))),
    # Whole responses
    "whole response": Flood(WHOLE, OK, rb"\n" * 500, b'{"choices":[{"message":{"content":"'),
    "whole calls": Flood(WHOLE, OK, b'{"id":"a"},', b'{"choices":[{"message":{"tool_calls":['),
    "vectors": Flood(VECTORS, OK, b'{"embedding":[0.0123456789]},', b'{"data":['),
    "whole error": Flood(WHOLE, REFUSED, b"[],", b'{"error":[', is_cut=False),
    "stream instead of a whole response": Flood(WHOLE, EVENTS, piece_of_text(b"a")),
}


class Watch:
    """The CPU time of the longest callback in which an upstream's bytes were taken, and the most memory taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.longest_s = 0.0
        self.top_three: list[float] = []
        """Reads of a flood are alike, so a slow one is no exception; a single one may be the machine's fault."""
        self.memory = 0
        self._before = resident()
        self._received = UpstreamConnection.data_received
        self.full_reads = Turns(self._timed)
        watch = self
        monkeypatch.setattr(
            UpstreamConnection,
            "data_received",
            lambda self, data: (watch.full_reads if len(data) >= FULL_READ else watch._timed)(self, data),
        )

    def _timed(self, connection: UpstreamConnection, data: bytes) -> None:
        before = time.thread_time()
        self._received(connection, data)
        took = time.thread_time() - before
        self.longest_s = max(self.longest_s, took)
        self.top_three = sorted([*self.top_three, took])[-3:]
        self.memory = max(self.memory, resident() - self._before)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def flood(call: Call, what: Flood) -> None:
    """Send until the relay closes the connection, or has taken enough."""
    unit, sent, number = what.unit, 0, 0
    with suppress(OSError):
        await call.say(what.head + (what.framed(what.begin) if what.begin else b""))
        while sent < (ENDLESS if what.is_cut else ENOUGH):
            if callable(unit):
                data = b"".join(unit(n) for n in range(number, number + 2_000))
                number += 2_000
            else:
                data = unit * max(1, PIECE // len(unit))
            await call.say(what.framed(data))
            sent += len(data)


async def last_bytes(client: Wire) -> bytes:
    """A client that kept all would take more memory than the relay."""
    last = b""
    with suppress(OSError):
        while data := await asyncio.get_running_loop().sock_recv(client.sock, 1 << 20):
            last = (last + data)[-4096:]
    return last


async def is_served(rig: RelayRig) -> None:
    """Another client gets its response while the flood goes on."""
    client, call = await rig.reached(chat())
    await call.say(HELLO)
    assert (await client.message()).body == b"hello"
    client.hang_up()


@pytest.mark.parametrize("what", FLOODS.values(), ids=FLOODS.keys())
async def test_a_server_that_sends_without_end_holds_nobody_up(
    rig: RelayRig, tasks: Tasks, monkeypatch: pytest.MonkeyPatch, what: Flood
) -> None:
    """No callback takes long, one read is taken per turn of the loop, memory is bounded, and no end looks complete."""
    slowness = max(1.0, computed_s() / ORDINARY_S)
    watch = Watch(monkeypatch)
    client, call = await rig.reached(what.request)
    tasks.start(watch.full_reads.keep_counting(), "turns")
    reading = tasks.start(last_bytes(client), "read")
    sending = tasks.start(flood(call, what), "flood")
    await is_served(rig)
    await asyncio.wait([sending])
    if what.is_cut:
        await come_true(lambda: not rig.in_flight())
        assert [entry.status for entry in rig.activity.entries if entry.status != 200] == [502]
    client.sock.shutdown(socket.SHUT_WR)
    last = await reading

    assert not last.endswith(b"\r\n0\r\n\r\n")
    assert watch.top_three[0] / slowness < MOST_S
    assert watch.memory < MOST_MEMORY
    assert watch.full_reads.most_in_a_turn <= 1


def completed(message: bytes, filling: bytes, size: int, rest: bytes) -> bytes:
    return message + filling * ((size - len(message) - len(rest)) // len(filling)) + rest


CALL = b'{"choices":[{"message":{"tool_calls":['
WHOLES = {
    "vectors": (VECTORS, completed(b'{"data":[{"embedding":[0', b",-0.01234567890123456", MOST_OF_VECTORS, b"]}]}")),
    "vectors of short numbers": (VECTORS, completed(b'{"data":[{"embedding":[0', b",0", 2 * MOST_VALUES, b"]}]}")),
    "blanks": (VECTORS, completed(b'{"data":[{"embedding":[', b" ", MOST_OF_VECTORS, b"]}]}")),
    "short vectors": (VECTORS, completed(b'{"data":[', b'{"embedding":0},', 16 * MOST_OBJECTS, b'{"embedding":0}]}')),
    "text": (WHOLE, completed(b'{"choices":[{"message":{"content":"', rb"\n", MOST_OF_A_COMPLETION, b'"}}]}')),
    "choices": (WHOLE, completed(b'{"choices":[', b"{},", 3 * MOST_OBJECTS, b"{}]}")),
    "calls": (WHOLE, CALL + b'{"function":{}},' * (MOST_CALLS - 1) + b'{"function":{}}]}}]}'),
    "arguments": (
        WHOLE,
        completed(CALL + b'{"function":{"arguments":"{', rb"\n", MOST_OF_A_COMPLETION, b'}"}}]}}]}'),
    ),
    "arguments of many members": (
        WHOLE,
        completed(CALL + b'{"function":{"arguments":"{', rb"\"\":0,", MOST_OF_A_COMPLETION, rb"\"\":0}" + b'"}}]}}]}'),
    ),
}
"""The largest responses that are translated as a whole."""


@pytest.mark.parametrize(("request_", "body"), WHOLES.values(), ids=WHOLES.keys())
async def test_the_largest_whole_response_holds_nobody_up(
    rig: RelayRig, monkeypatch: pytest.MonkeyPatch, request_: bytes, body: bytes
) -> None:
    """It is translated in a callback that does not take long."""
    client, figures = await rig.client(), []
    for _ in range(3):  # others on the machine empty the caches
        slowness = max(1.0, computed_s() / ORDINARY_S)
        with monkeypatch.context() as patch:
            watch = Watch(patch)
            await client.send(request_)
            call = await rig.alpha.call()
            await call.say(answer(body, 200, b"Connection: close"))
            assert (await client.message()).status == 200
        figures.append(watch.longest_s / slowness)

    assert min(figures) < MOST_S


async def test_an_endless_error_instead_of_a_stream_that_began_early(
    open_rig: OpenRig, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the response has begun before its model was ready, the beginning of the error is kept, and no more."""
    watch = Watch(monkeypatch)
    waiting = waiting_client(await open_rig(models=(spec("slow", loading_state=LoadingState.COMMENTS),)))
    client, _ = await waiting.early_answer()
    call = await waiting.loaded()
    await asyncio.wait([tasks.start(flood(call, Flood(PLAIN, REFUSED, b"[],", is_cut=False)), "flood")])
    await call.say(b"0\r\n\r\n")
    await client.end()

    assert b"responded 500" in client.unread
    assert len(client.unread) < 64 << 10
    assert watch.longest_s < MOST_S
    assert watch.memory < MOST_MEMORY


def test_every_own_request_limits_what_it_reads() -> None:
    """Readiness, properties, metrics, slots, traces and other hosts: whoever fetches a response says how much of it."""
    calls = {
        f"{path.name}:{node.lineno}": {word.arg: ast.unparse(word.value) for word in node.keywords}
        for path in (REPOSITORY / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fetch"
    }
    limits = {words.get("most", "MOST_BYTES") for words in calls.values()}

    assert len(calls) >= 9
    assert limits == {"0", "MOST_BYTES", "MOST_SHOWN", "LONGEST_PROPS", "LARGEST + 1", "most + 1"}
    assert max(MOST_BYTES, MOST_SHOWN, LONGEST_PROPS, LARGEST + 1, MOST_OF_A_LIST + 1) <= 4 * MiB + 1
