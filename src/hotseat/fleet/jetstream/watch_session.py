"""One session of a watcher: the state of a bucket, then its changes, until an error.

It uses its own consumer instead of nats-py's ordered one, which hides restarts: watchers must know about a restart,
because keys may be gone without a message.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nats.js import api

from hotseat.fleet.jetstream.buckets import stream_of, subject_of
from hotseat.fleet.jetstream.link import PROBLEMS, asked
from hotseat.fleet.store import CaughtUp, Change, Removed, Revision, Written

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from hotseat.fleet.store import Bucket
    from hotseat.identifiers import Seconds

log = logging.getLogger(__name__)

HEARTBEAT_S: Seconds = 2.0
MISSED = 2.5
"""Heartbeats missed before a consumer counts as gone."""
UNHEARD_S: Seconds = 10.0
"""The server deletes a consumer without listener after this, so a killed host leaves nothing behind."""
GOODBYE_S: Seconds = 1.0
BEHIND = 64

_CONTROL = "100"
_LAST_SENT, _STALLED = "Nats-Last-Consumer", "Nats-Consumer-Stalled"
_OPERATION, _REASON = "KV-Operation", "Nats-Marker-Reason"


class Interrupted(Exception):
    """Messages are missing or stopped coming: the session is over."""


def is_gone(headers: Mapping[str, str] | None) -> bool:
    """Is this the marker of a key that was removed or expired?"""
    return bool(headers) and (_OPERATION in headers or _REASON in headers)  # type: ignore[operator]  # not None here


class WatchSession:
    def __init__(self, client: Client, bucket: Bucket, prefix: str, heartbeat_s: Seconds = HEARTBEAT_S) -> None:
        self._client = client
        self._js = client.jetstream(timeout=GOODBYE_S)
        self._bucket = bucket
        self._stream = stream_of(bucket, prefix)
        self._subjects = subject_of(bucket, "", prefix)
        """What all of them begin with."""
        self._heartbeat_s = heartbeat_s
        self._received: asyncio.Queue[Msg] = asyncio.Queue(BEHIND)
        self._inbox = client.new_inbox()
        self._subscription: Subscription | None = None
        self._name = f"hotseat-{secrets.token_hex(8)}"
        """Of the consumer. We choose it, so we can delete the consumer even if the reply to its creation was lost."""
        self._n = 0
        """Messages from the consumer so far."""

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Ends with Interrupted or one of PROBLEMS."""
        async with self._consumer() as at_first:
            if at_first == 0:
                yield CaughtUp()
            is_caught_up = at_first == 0
            async for message in self._messages():
                if message is not None and (change := self._change(message, is_caught_up)):
                    yield change
                if not is_caught_up and (message is None or self._n >= at_first):
                    is_caught_up = True
                    yield CaughtUp()

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[int]:
        """Yields the number of messages in the state; deletes the consumer at the end if NATS is reachable."""
        try:
            made = await asked(self._begun())
            yield made.num_pending or 0
        finally:
            await self._end()

    async def _begun(self) -> api.ConsumerInfo:
        self._subscription = await self._client.subscribe(self._inbox, cb=self._received.put)
        return await self._js.add_consumer(self._stream, self._config())

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(GOODBYE_S):
                if self._subscription:
                    await self._subscription.unsubscribe()
                await self._js.delete_consumer(self._stream, self._name)
        except PROBLEMS as problem:
            log.debug(
                "a consumer could not be deleted and is left to NATS bucket=%s error=%r",
                self._bucket.value,
                str(problem),
            )

    def _config(self) -> api.ConsumerConfig:
        return api.ConsumerConfig(
            name=self._name,
            deliver_subject=self._inbox,
            deliver_policy=api.DeliverPolicy.LAST_PER_SUBJECT,
            filter_subject=f"{self._subjects}>",
            ack_policy=api.AckPolicy.NONE,
            max_deliver=1,
            flow_control=True,
            idle_heartbeat=self._heartbeat_s,
            inactive_threshold=UNHEARD_S,
            mem_storage=True,
            num_replicas=1,
        )

    async def _messages(self) -> AsyncIterator[Msg | None]:
        """Each message in order; None when NATS has nothing more to send for now."""
        while True:
            message = await self._next()
            if (message.headers or {}).get("Status") != _CONTROL:
                self._count(message.metadata.sequence.consumer)
                yield message
            elif await self._answered(message):
                yield None

    async def _next(self) -> Msg:
        try:
            async with asyncio.timeout(MISSED * self._heartbeat_s):
                return await self._received.get()
        except TimeoutError:
            raise Interrupted("NATS stopped sending") from None

    async def _answered(self, control: Msg) -> bool:
        """Acknowledge flow control, so that NATS continues. True if the message was a heartbeat."""
        headers = control.headers or {}
        if reply := control.reply or headers.get(_STALLED):
            await asked(self._client.publish(reply))
        if _LAST_SENT not in headers:
            return False
        if int(headers[_LAST_SENT]) != self._n:
            raise Interrupted("messages are missing")
        return True

    def _count(self, n: int) -> None:
        self._n += 1
        if n != self._n:
            raise Interrupted("messages are missing")

    def _change(self, message: Msg, is_caught_up: bool) -> Change | None:
        key = message.subject.removeprefix(self._subjects)
        revision = Revision(message.metadata.sequence.stream)
        if not is_gone(message.headers):
            return Written(key, message.data, revision)
        return Removed(key, revision) if is_caught_up else None  # removed keys are not part of the state
