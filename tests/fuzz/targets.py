"""What is fuzzed: each target takes any bytes at all and raises AssertionError where a promise is broken.

They are plain functions of bytes: the fuzzer searches with them for as long as it is let (`just fuzz`), and
test_replay.py plays what it kept, which takes a second.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from tests.support.fake_launcher import FakeLauncher
from tests.support.relay_rig import RecordedActivity

from hotseat.activity.usage_store import UsageCounter
from hotseat.catalog.catalog import Catalog
from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.config.effective import resolved
from hotseat.config.load import read
from hotseat.config.problems import ConfigError
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import ClientError, UpstreamError
from hotseat.identifiers import Address, ModelName
from hotseat.ollama.completions import error_text
from hotseat.ollama.requests import ENDPOINTS, Answer
from hotseat.ollama.responses import Situation, StreamTranslator, error_line, translated
from hotseat.relay.access.authority import reduce_absolute
from hotseat.relay.access.policy import Policy
from hotseat.relay.context import Context, Reply
from hotseat.relay.downstream.request_reader import RequestReader
from hotseat.relay.exchange.request import Request
from hotseat.relay.http.head_cache import Memory
from hotseat.relay.http.multipart import FormReader
from hotseat.relay.routing.model_name import PathKind, find_destination, model_in_json
from hotseat.relay.upstream.response_reader import ResponseReader
from hotseat.scheduling.scheduler import Scheduler
from hotseat.settings import KiB, Limits, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.relay.http.response_head import ResponseHead

    Outcome = tuple[object, ...]

METHODS = (b"GET", b"POST", b"DELETE", b"PUT", b"HEAD", b"OPTIONS")
BOUNDARY = b"b"


def a_catalog() -> Catalog:
    names = ("m", "org/model", "with space", "ü")
    return Catalog({ModelName(name): ModelSpec(ModelName(name), LaunchRecipe(("x",), "http://x")) for name in names})


CATALOG = a_catalog()


def naming(data: bytes) -> None:
    """Who is asked is decided or refused, and what goes upstream is a suffix of what came, byte by byte."""
    method, target = METHODS[data[0] % len(METHODS)] if data else b"GET", data[1:]
    try:
        target = reduce_absolute(target, b"x")
        found = find_destination(method, target, CATALOG)
    except ClientError:
        return
    if found.endpoint is not None:
        assert found.target == found.endpoint.target
    elif found.kind is PathKind.MANAGEMENT:
        path, mark, query = target.partition(b"?")
        assert found.target in (target, path.removesuffix(b"/") + mark + query), (target, found.target)
    else:
        whole = found.target if found.target != b"/" else b""
        assert target.endswith(whole.removeprefix(b"/")), (target, found.target)
    assert b"/../" not in found.target.partition(b"?")[0]


def body_naming(data: bytes) -> None:
    """The model that a JSON body names is the one that Python's own decoder finds."""
    try:
        named = model_in_json(data)
    except ClientError:
        return
    with suppress(ValueError):  # ours does not decode the members that it skips, and lets them pass as they are
        assert json.loads(data).get("model") == named


# Requests, as they come in over a connection


def noted(items: list[Request | Reply]) -> list[Outcome]:
    """What was read off a connection; what comes after its last response is dropped, whatever it is."""
    outcomes: list[Outcome] = []
    for item in items:
        if isinstance(item, Reply):
            status, _, rest = item.data.partition(b"\r\n")  # words and ids of errors may differ
            outcomes.append(("answered", status, rest if b" 204 " in status else b"", item.keep_alive))
        else:
            head, content = item.head, item.body.whole()
            CONTEXT.bodies.forget(item.body)  # as whoever answers it would
            outcomes.append(("read", head.method, head.target, content, head.keep_alive))
    last = next((place for place, (*_, keep_alive) in enumerate(outcomes) if not keep_alive), len(outcomes))
    return outcomes[: last + 1]


async def a_context() -> Context:
    dispatcher = Dispatcher(Scheduler(CATALOG), FakeLauncher(), Journal())
    limits = Limits(header=KiB, body=2 * KiB, json_body=2 * KiB)
    return Context(dispatcher, Policy(Settings(limits=limits)), Address("x", 0), RecordedActivity(), UsageCounter())


LOOP = asyncio.new_event_loop()
atexit.register(LOOP.close)
CONTEXT = LOOP.run_until_complete(a_context())


def outcomes(*parts: bytes) -> list[Outcome]:
    reader, items = RequestReader(CONTEXT, "127.0.0.1"), list[Request | Reply]()
    for part in parts:
        reader.feed(part)
        while reader.items:
            items += reader.items
            reader.items.clear()
            ahead, reader.ahead = reader.ahead, b""
            if isinstance(items[-1], Request) and items[-1].head.is_websocket:  # what follows is no longer HTTP
                reader.stop()
            reader.feed(ahead)
    reader.stop()
    return noted(items)


def framing(data: bytes) -> None:
    """The same bytes are the same requests, however they are cut and whether or not their heads were read before."""
    cut = 1 + (data[0] if data else 0)
    said = data[1:]
    whole = outcomes(said)
    assert outcomes(said[:cut], said[cut:]) == whole, whole
    assert outcomes(said) == whole, whole
    assert CONTEXT.bodies.in_memory == 0


# Answers, as upstreams send them


class Receiver:
    """Takes a response, and keeps what the client would get."""

    needs_decoded_body = False

    def __init__(self) -> None:
        self.relayed = b""
        self.is_switched = False

    def write(self, data: bytes) -> None:
        self.relayed += data

    def head_received(self, head: ResponseHead, length: int | None, data: bytes, *, is_complete: bool) -> None:
        self.relayed += data

    def switched(self, head: ResponseHead, data: bytes) -> None:
        self.is_switched = True


def verdict(*parts: bytes) -> object:
    reader, receiver, is_complete = ResponseReader(HEADS), Receiver(), False
    try:
        for part in parts:
            if part and not is_complete and not receiver.is_switched:
                is_complete = reader.feed(part, receiver)
    except UpstreamError:
        return "refused"
    return "switched" if receiver.is_switched else (is_complete, receiver.relayed)


HEADS: Memory[ResponseHead] = Memory()


def answers(data: bytes) -> None:
    """An answer is whole, unfinished or refused, and the same in two pieces as in one."""
    cut, said = data[0] if data else 0, data[1:]
    whole = verdict(said)
    again = verdict(said)
    parted = verdict(said[:cut], said[cut:])
    assert whole == again, (whole, again)
    # What lies behind the end is refused where it comes along with it; where it comes later, nobody asks for it.
    assert whole == parted or (whole == "refused" and isinstance(parted, tuple) and parted[0]), (whole, parted)


def forms(data: bytes) -> None:
    """A form's fields are found at the same places however it is cut, and are what lies there."""
    cut = data[0] if data else 0
    form = data[1:]
    whole, parted = FormReader(BOUNDARY, "model"), FormReader(BOUNDARY, "model")
    try:
        whole.feed(form)
        found = list(whole.fields())
    except ClientError:
        return
    parted.feed(form[:cut])
    parted.feed(form[cut:])
    assert list(parted.fields()) == found
    for field in found:
        assert field.value.encode("utf-8", "replace")[:1] in (form[field.start :][:1], b"?", b"\xef", b"")


# Ollama's API


def translation(data: bytes) -> None:
    """A request becomes JSON or an error; a stream becomes the same lines however it arrives, or an error."""
    for endpoint in ENDPOINTS.values():
        with suppress(ClientError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            asked = endpoint.read(data)
            assert json.loads(asked.body("m").decode("utf-8", "replace"))["model"] == "m"
    bytewise = [data[place : place + 1] for place in range(len(data))]
    assert translated_lines([data]) == translated_lines(bytewise)
    with suppress(UpstreamError):
        json.loads(translated(Answer.MESSAGE, situation(), data).decode("utf-8", "replace"))
    json.loads(error_line(error_text(data, 500)))


def translated_lines(pieces: list[bytes]) -> tuple[bytes, bool]:
    """The lines, and whether an error ended them."""
    translator, lines = StreamTranslator(Answer.MESSAGE, situation()), b""
    for piece in pieces:
        more, problem = translator.feed(piece)
        lines += more
        if problem is not None:
            return lines, False
    try:
        lines += translator.end()
    except UpstreamError:
        return lines, False
    for line in lines.decode("utf-8", "replace").split("\n")[:-1]:  # texts pass as the server wrote them
        json.loads(line)
    return lines, True


def situation() -> Situation:
    return Situation("m", lambda: 0, lambda: 2.0, 1.0)


# Configuration

FOLDER = tempfile.TemporaryDirectory(prefix="hotseat-fuzz-")
atexit.register(FOLDER.cleanup)
FILE = Path(FOLDER.name) / "config.yaml"


def configuration(data: bytes) -> None:
    """A file is understood or rejected with an error, and what was understood can be shown as JSON."""
    FILE.write_bytes(data)
    try:
        loaded = read([FILE], environ={"NAME": "value"}, offer=lambda _: {})
    except ConfigError:
        return
    json.dumps(resolved(loaded))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "naming": naming,
    "bodies": body_naming,
    "framing": framing,
    "answers": answers,
    "forms": forms,
    "translation": translation,
    "configuration": configuration,
}
