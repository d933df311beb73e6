"""The relay and its API on one loop in one process, with as much history, configuration and fleet as there may be."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx2
from msgspec import structs
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.fleet_in_process import SECRET, process_of
from tests.support.fleet_of_records import KEPT_S, host_record
from tests.support.in_process_store import Board, InProcess
from tests.support.management import application, around, served
from tests.support.waiting import come_true

from hotseat.activity.recent import KEPT, Finished, InProgress, Tokens
from hotseat.activity.store import ActivityStore
from hotseat.activity.usage_store import DAY_S, Place, UsageStore, Used
from hotseat.api.log_text import as_json
from hotseat.api.routes.requests import in_progress
from hotseat.config.effective import resolved
from hotseat.config.load import Loaded
from hotseat.config.reload import ConfigReport
from hotseat.daemon.garbage_collection import collect_rarely, ignore_what_exists
from hotseat.dispatch import journal
from hotseat.fleet.other_hosts import MOST_BYTES
from hotseat.fleet.proofs import FleetSecret, SignedStore
from hotseat.fleet.records import encoded
from hotseat.fleet.store import LIVES_S, Bucket
from hotseat.identifiers import Address, ClientId, HostName, LaunchId, LogLine, ModelName, TicketId
from hotseat.net.http_client import Answer
from hotseat.relay.access.policy import Policy
from hotseat.relay.server import Relay
from hotseat.scheduling.events import SlotsLearned
from hotseat.settings import Access, ApiKey, Fleet, Role, Settings
from hotseat.startup.management import shown_in_metrics
from hotseat.telemetry.metrics_page import MetricsText
from hotseat.telemetry.pages import FleetPage, KeyPage
from hotseat.telemetry.shortages import Lag

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.fleet_in_process import Host
    from tests.support.management import Management

    from hotseat.fleet.other_hosts import Receiver

KEY = "the-key-of-the-test"
FIRST = ModelName("alpha")
"""The model whose name is in the paths; it runs."""
NOWHERE = "http://127.0.0.1:9"
LONG = 20
"""Hosts of the fleet whose answers are as long as may be; the others' have what is kept of each."""
A_MONTH_S = 30.0 * DAY_S


@dataclass(frozen=True)
class Sizes:
    stored: int = 100_000
    """Finished requests, and rows of the usage."""
    models: int = 10_000
    hosts: int = 1_000
    in_progress: int = 2_000
    keys: int = 1_000
    lines: int = 5_000


SMALL = Sizes(10, 10, 3, 10, 10, 10)


@dataclass
class LargestHotseat:
    rig: Management
    relay: Relay
    port: int
    statuses: dict[str, int] = field(default_factory=dict)
    """Of the last response to each target."""

    async def ask(self, method: str, target: str, body: bytes | int = b"") -> bytes:
        """The beginning of the response, after all of it was read; of a feed, after it has said nothing for a while.

        A body that is a number is announced and never sent.
        """
        length = body if isinstance(body, int) else len(body)
        fields = ["Host: localhost", "Connection: close", "Content-Type: application/json", f"X-Api-Key: {KEY}"]
        lines = [f"{method} {target} HTTP/1.1", *fields, *([f"Content-Length: {length}"] if length else []), "", ""]
        begin, patience_s = b"", 60.0
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        with suppress(OSError, TimeoutError):
            writer.write("\r\n".join(lines).encode() + (b"" if isinstance(body, int) else body))
            while data := await asyncio.wait_for(reader.read(1 << 20), patience_s):
                begin = (begin + data)[:2000] if len(begin) < 2000 else begin
                if b"x-accel-buffering" in begin.lower():
                    patience_s = 0.01 if body else 1.0
        writer.transport.abort()
        self.statuses[target] = int(begin[9:12])
        return begin


@asynccontextmanager
async def largest_hotseat(folder: Path, sizes: Sizes) -> AsyncIterator[LargestHotseat]:
    async with AsyncExitStack() as stack:
        stack.callback(gc.set_threshold, *gc.get_threshold())
        collect_rarely()
        host = await stack.enter_async_context(one_host(sizes))
        path = folder / "api"
        transport = httpx2.AsyncHTTPTransport(uds=str(path), verify=False)
        client = await stack.enter_async_context(httpx2.AsyncClient(transport=transport, base_url="http://hotseat"))
        rig = around(host.dispatcher, host.journal, host.launcher, client, folder)
        rig.fleet = host.fleet_admin
        keys = (ApiKey(KEY, Role.ADMIN, "admin"), *(ApiKey(f"secret-{n}", name=f"key-{n}") for n in range(sizes.keys)))
        rig.settings = Settings(access=Access(api_keys=keys), activity_keep_s=A_MONTH_S)
        rig.store_writer._keep_s = lambda: A_MONTH_S
        rig.accounts.open(keys)
        await asyncio.to_thread(fill, rig, sizes)
        await stack.enter_async_context(served(application(rig), uds=str(path)))
        management, policy = Address("localhost", 0, unix_path=str(path)), Policy(rig.settings, rig.accounts)
        relay = Relay(host.dispatcher, policy, management, rig.activity, rig.usage)
        stack.push_async_callback(relay.aclose)
        sock = socket.create_server(("127.0.0.1", 0))
        await relay.listen([sock])
        await rig.dispatcher.operator.load(FIRST)
        gc.collect()
        stack.callback(gc.unfreeze)
        ignore_what_exists()
        yield LargestHotseat(rig, relay, sock.getsockname()[1])


@asynccontextmanager
async def one_host(sizes: Sizes) -> AsyncIterator[Host]:
    """A host of a fleet; of the others there are only records and what they answer."""
    names = [FIRST, *(f"org/model-{n:05d}" for n in range(sizes.models - 1))]
    models = catalog(*(spec(name, aliases=(f"{name}-by-another-name",), description="A model.") for name in names))
    board = Board(clock=asyncio.get_running_loop().time, lives_s={**LIVES_S, Bucket.HOSTS: KEPT_S})
    settings = Fleet(("nats://nowhere",), HostName("here"), address=NOWHERE, secrets=(SECRET,))
    host = process_of(settings, InProcess(board), models, FakeLauncher(), None)
    stub_answers(host, sizes.hosts)
    await host.node.join()
    digest = host.fleet_admin.view().hosts[0].config_digest
    store = SignedStore(InProcess(board), FleetSecret([SECRET]))
    for n in range(1, sizes.hosts):
        record = host_record(n, digest, [FIRST, *(names[(n * 7 + place) % sizes.models] for place in range(1, 8))])
        await store.put(Bucket.HOSTS, record.name, encoded(structs.replace(record, address=NOWHERE)))
    await come_true(lambda: len(host.fleet_admin.others.names()) == sizes.hosts - 1)
    try:
        yield host
    finally:
        await host.node.leave()
        await host.dispatcher.shut_down(0)


def stub_answers(host: Host, hosts: int) -> None:
    """The other hosts answer in this process, as much as is taken of them."""
    request = InProgress(TicketId(1), b"id", FIRST, ClientId("ann"), b"POST", b"/v1/x", 0.5, None, 2.5, is_waiting=True)
    shown = in_progress(request).model_dump_json().encode()
    rows = {
        "/hotseat/requests": (b'{"in_progress":[', shown, b",", b"]}"),
        "/hotseat/logs": (b"", as_json(LogLine(time.time(), "a line of the log", FIRST)).encode(), b"\n", b"\n"),
        "/hotseat/models": (b'{"phase":"ready","why":"%b","x":[' % (b"w" * 200_000), b"[[1]]", b",", b"]}"),
    }

    def answer(path: str, most: int) -> Answer:
        begin, row, between, end = next(parts for prefix, parts in rows.items() if path.startswith(prefix))
        return Answer(200, {}, begin + between.join([row] * ((most - len(begin) - 2) // (len(row) + 1))) + end)

    short = {prefix: answer(prefix, 32_000 + len(parts[0])) for prefix, parts in rows.items()}
    long: dict[tuple[str, int], Answer] = {}
    is_long = {f"gpu{n:03}" for n in range(LONG)}

    async def fetch(method: str, to: Receiver, path: str, *_: object, most: int = MOST_BYTES) -> Answer:
        prefix = next(prefix for prefix in rows if path.startswith(prefix))
        if to.host not in is_long:
            return short[prefix]
        if (prefix, most) not in long:
            long[prefix, most] = answer(path, most)
        return long[prefix, most]

    host.fleet_admin.others._http.fetch = fetch  # type: ignore[method-assign, assignment]


def fill(rig: Management, sizes: Sizes) -> None:
    """All that is stored, kept or shown."""
    now, names = time.time(), list(rig.dispatcher.catalog.models)
    client, path, why = ClientId("10.0.0.1"), b"/v1/chat/completions", "it waited for another model"
    tokens = Tokens(1000, 200, 40.0, 500)
    ended = [
        Finished(n, now, names[n % sizes.models], client, b"POST", path, 200, 0.5, 0.7, 2.5, b"id-%d" % n, tokens, why)
        for n in range(sizes.stored)
    ]
    ActivityStore(rig.folder / "activity.sqlite3").write(ended)
    rig.activity._finished = deque([row[1:] for row in ended[-KEPT:]], KEPT)  # all but `n`
    rig.activity.n = rig.store_writer._written = len(rig.activity._finished)
    today, used = int(now) // DAY_S, Used(1, 0, 100, 50, 20, 0)
    places = (Place(today - n % 30, names[n % sizes.models], f"key-{n // sizes.models}") for n in range(sizes.stored))
    UsageStore(rig.folder / "usage.sqlite3").add(dict.fromkeys(places, used))
    rig.in_progress = [
        InProgress(TicketId(n), b"id-%d" % n, FIRST, client, b"POST", path, 0.5, None, 2.5, is_waiting=n % 2 == 0)
        for n in range(sizes.in_progress)
    ]
    text = "a line of the log that says what happened"
    rig.logs.own.lines = [LogLine(now + n, text, level="info") for n in range(sizes.lines)]
    shown = resolved(Loaded(catalog(spec(FIRST)), Settings()))
    rig.config_report = ConfigReport({**shown, "models": dict.fromkeys(names, shown["models"][FIRST])})
    for n in range(journal.KEPT):
        rig.journal.record(SlotsLearned(names[n % sizes.models], LaunchId(n), 4), ())
    rig.metrics_text = MetricsText(rig.metrics, lambda: shown_in_metrics(rig.dispatcher), Lag().worst_of_last_minute)
    rig.metrics_text.include(KeyPage(rig.accounts.all, rig.usage.by_key))
    assert rig.fleet is not None
    rig.metrics_text.include(FleetPage(rig.fleet.view))
