"""A process that receives every host's record and does only a part of what a host does with it.

`python -m bench.fleet_size.receiver PART NATS…`; each line on stdin is answered with the messages received so far and
the processor time so far, so that the parts of the cost of a message can be told apart.
"""

from __future__ import annotations

import asyncio
import sys
from time import process_time
from typing import TYPE_CHECKING, Any

import nats
import uvloop
from bench.fleet_size.injected import CONNECT_S, SECRET
from nats.js import api

from hotseat.fleet.host_proof import FleetSecret
from hotseat.fleet.jetstream.buckets import stream_of
from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.signing import SignedStore
from hotseat.fleet.store import Bucket, Written
from hotseat.identifiers import HostName
from hotseat.settings import Fleet
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from nats.aio.msg import Msg

PARTS = ("nats-py", "watch", "signatures")
"""Each includes the ones before it."""


class Received:
    count = 0

    async def by_nats_py(self, urls: Sequence[str]) -> None:
        """A subscription with the consumer that a host has, and nothing else."""

        async def count(_: Msg) -> None:
            self.count += 1

        client = await nats.connect(list(urls))
        inbox = client.new_inbox()
        await client.subscribe(inbox, cb=count)
        config = api.ConsumerConfig(
            deliver_subject=inbox,
            deliver_policy=api.DeliverPolicy.NEW,
            ack_policy=api.AckPolicy.NONE,
            mem_storage=True,
            num_replicas=1,
        )
        await client.jetstream().add_consumer(stream_of(Bucket.HOSTS), config)
        await asyncio.Event().wait()

    async def by_watch(self, urls: Sequence[str]) -> None:
        async for change in (await opened(urls)).watch(Bucket.HOSTS):
            self.count += isinstance(change, Written)

    async def by_signatures(self, urls: Sequence[str]) -> None:
        async for change in SignedStore(await opened(urls), FleetSecret([SECRET])).watch(Bucket.HOSTS):
            self.count += isinstance(change, Written)


async def opened(urls: Sequence[str]) -> JetStream:
    store = JetStream(Fleet(tuple(urls), HostName("receiver"), secrets=(SECRET,)))
    store.open()
    assert await store.until_connected(CONNECT_S)
    return store


async def run(part: str, urls: Sequence[str]) -> None:
    received = Received()
    ways: dict[str, Callable[[Sequence[str]], Coroutine[Any, Any, None]]] = {
        "nats-py": received.by_nats_py,
        "watch": received.by_watch,
        "signatures": received.by_signatures,
    }
    tasks = Tasks()
    tasks.start(ways[part](urls), f"receive by {part}")
    while await asyncio.to_thread(sys.stdin.readline):
        print(received.count, process_time(), flush=True)
    await tasks.aclose()


if __name__ == "__main__":
    uvloop.run(run(sys.argv[1], sys.argv[2:]))
