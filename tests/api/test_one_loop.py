"""Everything that hotseat answers itself runs on the loop of all requests: no callback takes 100 ms of a processor.

The places are taken from the relay's tables, from Ollama's endpoints and from the routes of the application, so that a
new route is among them. Every body is as large as its route takes it, and everything that can be listed is as long as
it may be.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from tests.support.largest_hotseat import FIRST, SMALL, Sizes, largest_hotseat
from tests.support.loop_turns import LongestCallback
from tests.support.routes import methods_and_paths

from hotseat.ollama.requests import ENDPOINTS
from hotseat.relay.exchange.request_translation import MOST_OBJECTS
from hotseat.relay.http.json_bodies import MOST_ESCAPES
from hotseat.relay.routing.model_name import IDLE, MANAGEMENT, find_destination
from hotseat.relay.routing.other_apis import OLLAMA_IS_RUNNING, OTHER_APIS
from hotseat.relay.routing.paths import METRICS, OPEN_TO_ALL, OWN_PAGES, PathTable
from hotseat.settings import Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.largest_hotseat import LargestHotseat

    from hotseat.catalog.catalog import Catalog
    from hotseat.relay.routing.path_rules import PathRule

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.uncounted, pytest.mark.timeout(600)]

LONGEST_S = 0.1
TRIES = 3
"""The best of them counts: a neighbour's cache misses and the first use of a schema are no cost of a request."""
MOST_MEMORY = 128 << 20
"""Of one request, as SECURITY.md says."""
LARGEST = {
    "/hotseat/activity": ("limit=100000",),
    "/hotseat/usage": ("by=day&by=model&by=key", "by=day&by=model&by=key&format=csv"),
    "/hotseat/logs": ("lines=100000", "lines=100000&json=true", "lines=100000&follow=true"),
    "/hotseat/fleet/logs": (f"model={FIRST}&lines=10000",),
    "/hotseat/events": ("after=0",),
    "/api/metrics/activity": ("limit=999",),
    "/props": (f"model={FIRST}&autoload=false",),
}
"""What must be asked to get most of a list; a list that has no options is asked without."""

NO_LISTS = {
    "/", "/api", "/idle", f"/api/blobs/{FIRST}", "/hotseat/assets/x", f"/hotseat/models/{FIRST}/estimate",
    "/hotseat/ui", "/hotseat/ui/x", f"/props?model={FIRST}&autoload=false", "/ui", f"/ui/{FIRST}", "/upstream",
}  # fmt: skip
"""Files, redirections, and what needs a file or a server of the model; all others must answer with 200."""


def table_rows() -> set[tuple[str, str]]:
    """What the relay's tables name."""
    named = {(b"GET", path) for path in (*OPEN_TO_ALL, *METRICS, *OWN_PAGES)}
    named |= {row for api in OTHER_APIS.values() for row in api}
    return {(method.decode(), path.decode().replace("*", FIRST)) for method, path in named}


PLACES = sorted({*table_rows(), *methods_and_paths()})
TRANSLATED = sorted(path.decode() for path in ENDPOINTS)


def rule_of(method: str, path: str, catalog: Catalog) -> PathRule | None:
    """What the relay applies to a request with this path; None: it is not hotseat's own to answer."""
    found = find_destination(method.encode(), path.encode(), catalog, PathTable())
    return found.rule if found.kind is MANAGEMENT else None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def large(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LargestHotseat]:
    async with largest_hotseat(tmp_path_factory.mktemp("large"), Sizes()) as hotseat:
        yield hotseat


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LargestHotseat]:
    async with largest_hotseat(tmp_path_factory.mktemp("small"), SMALL) as hotseat:
        yield hotseat


async def too_long(hotseat: LargestHotseat, method: str, target: str, body: bytes = b"") -> list[str]:
    """What took too long; empty: nothing did."""
    seen: list[LongestCallback] = []
    while len(seen) < TRIES:
        with LongestCallback() as longest:
            answer = await hotseat.ask(method, target, body)
        assert answer.startswith(b"HTTP/1.1 "), (method, target)
        if longest.seconds <= LONGEST_S:
            return []
        seen.append(longest)
    best = min(seen, key=lambda each: each.seconds)
    return [f"{method} {target}, {len(body)} bytes: {best.seconds * 1000:.0f} ms in {best.what}"]


def hostile(size: int) -> dict[str, bytes]:
    """Bodies of this size at most that cost much."""
    bodies = {
        "many lists": b'{"x":[%b1]}' % (b"[[1]]," * ((size - 9) // 6)),
        "deep lists": b"[" * (size // 2) + b"]" * (size // 2),
        "deep objects": b'{"a":' * ((size - 1) // 6) + b"1" + b"}" * ((size - 1) // 6),
        "a giant string": b'{"model":"%b"}' % (b"a" * (size - 12)),
        "many strings": b'{"models":[%b"a"]}' % (b'"a",' * ((size - 16) // 4)),
        "many wrong values": b'{"models":[%b1]}' % (b"1," * ((size - 14) // 2)),
        "many members": b"{%b}" % b",".join(b'"%06x":1' % n for n in range((size - 2) // 11)),
    }
    assert all(0.9 * size < len(body) <= size for body in bodies.values())
    return bodies


def peak_memory() -> int:
    return 1024 * int(next(iter(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text()))))


def forget_peak() -> int:
    ctypes.CDLL(None).malloc_trim(0)  # memory that was freed and kept would hide what is taken next
    Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


# Bodies


async def test_each_route_has_a_row_in_a_table(small: LargestHotseat) -> None:
    """What the application answers is in the relay's tables or translated, and what is in the tables has a limit."""
    catalog = small.rig.dispatcher.catalog
    reached_otherwise = {("POST", path) for path in TRANSLATED} | {
        ("GET", path.decode()) for path in (OLLAMA_IS_RUNNING, IDLE)
    }
    unknown = {row for row in PLACES if rule_of(*row, catalog) is None} - reached_otherwise

    # The relay leads only HEAD there, only pages that a browser opens, only queries with an option of the router.
    assert unknown == {("GET", f"/api/blobs/{FIRST}"), ("GET", "/"), ("GET", "/props")}
    assert len(PLACES) > 80


async def test_no_route_takes_a_body_that_is_larger_than_its_limit(small: LargestHotseat) -> None:
    """It is refused at its head."""
    catalog, taken = small.rig.dispatcher.catalog, []
    for method, path in PLACES:
        rule = rule_of(method, path, catalog)
        if rule is not None:
            answer = await small.ask(method, path, rule.most_bytes + 1)
            taken += [] if answer.startswith(b"HTTP/1.1 413 ") else [(method, path, answer[:40])]

    assert taken == []


async def test_the_largest_body_of_each_route_blocks_nobody(small: LargestHotseat) -> None:
    """Whatever it contains: parsing it, and saying what is wrong with it, is quick. It needs little memory."""
    catalog, slow, before = small.rig.dispatcher.catalog, [], forget_peak()
    for method, path in PLACES:
        rule = rule_of(method, path, catalog)
        for body in () if rule is None else hostile(rule.most_bytes).values():
            slow += await too_long(small, method, path, body)

    assert slow == []
    assert peak_memory() - before < MOST_MEMORY


# Lists


async def test_the_longest_lists_block_nobody(large: LargestHotseat) -> None:
    """Every route is asked for as much as it shows: 100,000 requests, 10,000 models, 1,000 hosts that answer."""
    targets = [
        f"{path}?{query}" if query else path
        for method, path in PLACES
        if method == "GET" and not path.endswith(("/load", "/unload"))
        for query in LARGEST.get(path, ("",))
    ]
    slow, memory = [], {}
    for target in targets:
        before = forget_peak()
        slow += await too_long(large, "GET", target)
        memory[target] = peak_memory() - before

    assert slow == []
    assert {target for target in targets if large.statuses[target] != 200} == NO_LISTS
    assert {target: used >> 20 for target, used in memory.items() if used > MOST_MEMORY} == {}


# Requests to models in Ollama's API


@pytest.mark.parametrize("path", TRANSLATED)
async def test_the_largest_request_that_is_translated_blocks_nobody(small: LargestHotseat, path: str) -> None:
    """The same for what Ollama's API sends to a model, up to half of limits.jsonBody. It needs little memory."""
    slow, memory = [], []
    for body in translated(path, Limits().json_body // 2):
        before = forget_peak()
        slow += await too_long(small, "POST", path, body)
        memory.append(peak_memory() - before)

    assert slow == []
    assert max(memory) < MOST_MEMORY


def translated(path: str, size: int) -> list[bytes]:
    """Valid requests of this size at most, whatever may be long in them."""
    name = FIRST.encode()
    text = {
        "/api/chat": b'{"model":"%b","messages":[{"role":"user","content":"%b"}]}',
        "/api/generate": b'{"model":"%b","prompt":"%b"}',
        "/api/embed": b'{"model":"%b","input":"%b"}',
        "/api/embeddings": b'{"model":"%b","prompt":"%b"}',
    }[path]
    space = size - len(text % (name, b""))
    bodies = [text % (name, b"a" * space), text % (name, rb"\n" * MOST_ESCAPES), *hostile(size).values()]
    if path == "/api/chat":
        message = b'{"role":"user","content":"a"}'
        bodies.append(b'{"model":"%b","messages":[%b]}' % (name, b",".join([message] * (MOST_OBJECTS - 1))))
    if path == "/api/embed":
        bodies.append(b'{"model":"%b","input":[%b]}' % (name, b",".join([b'"a"'] * 299_000)))
    return [body for body in bodies if len(body) <= size]
