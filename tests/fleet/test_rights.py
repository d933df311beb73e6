"""The NATS permissions of the how-to: they are sufficient for a host, and limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nats
import pytest
from nats.js.errors import APIError
from scripts.make_docs import DOCS
from tests.support.fleets import PATIENCE_S, Watching
from tests.support.nats import nats_servers
from tests.support.page_runner import blocks_of

from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.store import Bucket, CaughtUp, Removed, Written
from hotseat.identifiers import HostName
from hotseat.settings import Fleet, NatsLogin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.nats import NatsServer

USER, PASSWORD = "hotseat", "change me"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    [block] = [block for block in blocks_of((DOCS / "howto/fleet.md").read_text()) if block.about == "nats.conf"]
    async with nats_servers(tmp_path, more=block.text) as (server,):
        yield server


async def test_a_host_does_all_it_must(server: NatsServer) -> None:
    """With these permissions a host creates the buckets and writes, reads, removes and watches in each."""
    store = JetStream(Fleet((server.url,), HostName("gpu1"), login=NatsLogin(user=USER, password=PASSWORD)))
    store.open()
    try:
        assert await store.until_connected(PATIENCE_S)
        for bucket in Bucket:
            async with Watching(store, bucket) as watching:
                await watching.until(CaughtUp)
                revision = await store.create(bucket, "key", b"one")
                revision = await store.replace(bucket, "key", b"two", revision)
                found = await store.read(bucket, "key")
                await store.remove(bucket, "key", revision)
                changes = [await watching.next() for _ in range(3)]

            assert found == Written("key", b"two", revision)
            assert [type(change) for change in changes] == [Written, Written, Removed]
    finally:
        await store.aclose()


async def test_a_host_does_no_more(server: NatsServer) -> None:
    """With these permissions a client cannot create another stream."""
    client = await nats.connect(server.url, user=USER, password=PASSWORD, error_cb=_unheard)
    try:
        with pytest.raises((APIError, TimeoutError, nats.errors.Error)):
            await client.jetstream(timeout=1).add_stream(name="others", subjects=["others.>"])
    finally:
        await client.close()


async def _unheard(problem: Exception) -> None:
    """nats-py reports refusals a second time."""
