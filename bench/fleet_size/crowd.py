"""A process that listens to every host's record over many connections and throws it away unread.

`python -m bench.fleet_size.crowd CONNECTIONS HOST:PORT`; it ends with its stdin. It exists for what NATS has to do for
many hosts, and costs far less than they would.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import cast

import uvloop

from hotseat.fleet.jetstream.buckets import stream_of
from hotseat.fleet.store import Bucket

CONNECT = b'CONNECT {"verbose":false,"headers":true}\r\n'
PING, PONG = b"PING\r\n", b"PONG\r\n"


class Listener(asyncio.Protocol):
    def __init__(self, number: int) -> None:
        self._number = number
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(CONNECT + subscription(self._number))

    def data_received(self, data: bytes) -> None:
        if PING in data:
            self._transport.write(PONG)


def subscription(number: int) -> bytes:
    """A subscription, and a consumer that sends the records of all hosts to it."""
    stream, name = stream_of(Bucket.HOSTS), f"crowd-{number}"
    config = {
        "name": name,
        "deliver_subject": name,
        "deliver_policy": "new",
        "ack_policy": "none",
        "mem_storage": True,
        "num_replicas": 1,
        "replay_policy": "instant",
        "inactive_threshold": 10_000_000_000,
    }
    asking = json.dumps({"stream_name": stream, "config": config}).encode()
    subject = f"$JS.API.CONSUMER.CREATE.{stream}.{name}"
    return b"SUB %b 1\r\nPUB %b %d\r\n%b\r\n" % (name.encode(), subject.encode(), len(asking), asking)


async def run(connections: int, address: str) -> None:
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    for number in range(connections):
        await loop.create_connection(lambda number=number: Listener(number), host, int(port))  # type: ignore[misc]
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(run(int(sys.argv[1]), sys.argv[2]))
