"""The NATS permissions of the how-to: they are sufficient for a host, and limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nats
import pytest
from nats.js.errors import APIError
from tests.support.fleets import OPERATION_S, Watching
from tests.support.nats import NatsServer, nats_servers
from tests.support.page_blocks import file_of
from tests.support.waiting import PATIENCE_S

from hotseat.fleet.jetstream.buckets import stream_of
from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.store import Bucket, CaughtUp, Removed, Written
from hotseat.identifiers import HostName
from hotseat.settings import Fleet, NatsLogin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

USER, PASSWORD = "hotseat", "7e0f2c"


@pytest.fixture(params=["hotseat", "staging"])
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def server(tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NatsServer]:
    """Its permissions are those of the page, with another prefix if there is one."""
    monkeypatch.setenv("NATS_PASSWORD", PASSWORD)
    accounts = file_of("howto/fleet.md", "accounts.conf").replace("hotseat-", f"{prefix}-")
    async with nats_servers(tmp_path, more=accounts) as (server,):
        yield server


async def test_a_host_does_all_it_must(server: NatsServer, prefix: str) -> None:
    """With these permissions a host creates the buckets and writes, reads, removes and watches in each."""
    login = NatsLogin(user=USER, password=PASSWORD)
    store = JetStream(Fleet((server.url,), HostName("gpu1"), login=login, prefix=prefix), patience_s=OPERATION_S)
    store.open()
    try:
        assert await store.until_connected(PATIENCE_S)
        for bucket in Bucket:
            async with Watching(store, bucket) as watching:
                await watching.until(CaughtUp)
                revision = await store.create(bucket, "key", b"one")
                changes = [await watching.next()]  # NATS need not deliver what was replaced before
                revision = await store.replace(bucket, "key", b"two", revision)
                changes.append(await watching.next())
                found = await store.read(bucket, "key")
                await store.remove(bucket, "key", revision)
                changes.append(await watching.next())

            assert found == Written("key", b"two", revision)
            assert [type(change) for change in changes] == [Written, Written, Removed]
    finally:
        await store.aclose()


@pytest.mark.parametrize("name", ["others", stream_of(Bucket.HOSTS, "production")])
async def test_a_host_does_no_more(server: NatsServer, name: str) -> None:
    """With these permissions a client cannot create another stream, nor a bucket of another fleet."""
    client = await nats.connect(server.url, user=USER, password=PASSWORD, error_cb=_unheard)
    try:
        with pytest.raises((APIError, TimeoutError, nats.errors.Error)):
            await client.jetstream(timeout=1).add_stream(name=name, subjects=["others.>"])
    finally:
        await client.close()


async def _unheard(problem: Exception) -> None:
    """nats-py reports refusals a second time."""
