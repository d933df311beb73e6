"""The store on NATS JetStream. Each write states the revision it expects, and NATS decides."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

from nats.js import api
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from hotseat.fleet.backoff import Backoff
from hotseat.fleet.jetstream.buckets import MARKER_S, make_buckets, stream_of, subject_of
from hotseat.fleet.jetstream.link import PROBLEMS, Link, asked
from hotseat.fleet.jetstream.watch_session import HEARTBEAT_S, Interrupted, WatchSession, is_gone
from hotseat.fleet.store import LIVES_S, BegunAnew, Bucket, CaughtUp, Conflict, Revision, StoreError, Written, checked
from hotseat.tasks import Tasks, forever

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from nats.js import JetStreamContext

    from hotseat.fleet.store import Change
    from hotseat.identifiers import Seconds
    from hotseat.settings import Fleet

log = logging.getLogger(__name__)

PATIENCE_S: Seconds = 3.0
"""Per operation."""
AGAIN_S: Seconds = 0.1
"""Delay before a retry while a bucket has no leader: without an answer, nothing was written."""

IN_PROCESS_S: Seconds = 0.005
"""While a cluster is still committing one write to a key, it rejects the next without checking it."""

_WRONG_LAST, _IN_PROCESS = 10071, 10164
_EXPECTED = api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE


class JetStream:
    def __init__(
        self,
        fleet: Fleet,
        *,
        patience_s: Seconds = PATIENCE_S,
        heartbeat_s: Seconds = HEARTBEAT_S,
        pauses: Callable[[], Backoff] = Backoff,
        lives_s: Mapping[Bucket, Seconds | None] = LIVES_S,
    ) -> None:
        self._link = Link(fleet)
        self._prefix = fleet.prefix
        self._patience_s = patience_s
        self._heartbeat_s = heartbeat_s
        self._pauses = pauses
        self._lives_s = lives_s
        self._tasks = Tasks()
        self._ready = asyncio.Event()
        self._recheck = asyncio.Event()
        """A request found a bucket missing."""

    def open(self) -> None:
        """Start; OSError if a certificate is unusable. NATS need not be reachable yet."""
        self._link.open()
        self._tasks.start(self._maintain_buckets(), "maintain the buckets")

    async def until_connected(self, within_s: Seconds) -> bool:
        try:
            async with asyncio.timeout(within_s):
                await self._link.up.wait()  # `_ready` is cleared a moment after the link is lost
                await self._ready.wait()
        except TimeoutError:
            return False
        return True

    async def aclose(self) -> None:
        self._ready.clear()
        await self._tasks.aclose()
        await self._link.aclose()

    @property
    def is_connected(self) -> bool:
        return self._ready.is_set() and self._link.up.is_set()

    # Writing and reading

    async def create(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        try:
            return await self._write(bucket, key, value, {_EXPECTED: "0"})
        except Conflict:
            # A delete marker may still occupy the key.
            found = await self._last(bucket, key)
            if found is None or not is_gone(found.headers):
                raise
        return await self._write(bucket, key, value, {_EXPECTED: str(found.seq)})

    async def replace(self, bucket: Bucket, key: str, value: bytes, last: Revision) -> Revision:
        return await self._write(bucket, key, value, {_EXPECTED: str(last)})

    async def put(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        return await self._write(bucket, key, value, {})

    async def remove(self, bucket: Bucket, key: str, last: Revision | None = None) -> None:
        headers = {"KV-Operation": "DEL", api.Header.MSG_TTL: f"{MARKER_S:.0f}"}
        if last is not None:
            headers[_EXPECTED] = str(last)
        await self._write(bucket, key, b"", headers)

    async def read(self, bucket: Bucket, key: str) -> Written | None:
        found = await self._last(bucket, key)
        if found is None or is_gone(found.headers):
            return None
        return Written(key, found.data or b"", Revision(found.seq or 0))

    async def _write(self, bucket: Bucket, key: str, value: bytes, headers: dict[str, str]) -> Revision:
        subject = subject_of(bucket, checked(key), self._prefix)
        try:
            async with asyncio.timeout(self._patience_s):
                return Revision((await self._published(subject, value, headers)).seq)
        except APIError as refused:
            if refused.err_code == _WRONG_LAST:
                raise Conflict(f"{bucket.value}/{key} was changed in the meantime") from None
            raise StoreError(f"{bucket.value}/{key} was not written: {refused.description}") from refused
        except PROBLEMS as problem:
            raise StoreError(f"{bucket.value}/{key} may not have been written: {_said(problem)}") from problem

    async def _published(self, subject: str, value: bytes, headers: dict[str, str]) -> api.PubAck:
        """Retries only where it is certain that nothing was written."""
        while True:
            try:
                return await asked(self._js().publish(subject, value, timeout=self._patience_s, headers=headers))
            except NoStreamResponseError:
                self._recheck.set()
                await asyncio.sleep(AGAIN_S)
            except APIError as refused:
                if refused.err_code != _IN_PROCESS:
                    raise
                await asyncio.sleep(IN_PROCESS_S)

    async def _last(self, bucket: Bucket, key: str) -> api.RawStreamMsg | None:
        try:
            async with asyncio.timeout(self._patience_s):
                subject = subject_of(bucket, checked(key), self._prefix)
                return await asked(self._js().get_msg(stream_of(bucket, self._prefix), subject=subject))
        except NotFoundError:
            return None
        except PROBLEMS as problem:
            raise StoreError(f"{bucket.value}/{key} cannot be read: {_said(problem)}") from problem

    def _js(self) -> JetStreamContext:
        if not self._link.up.is_set():
            # nats-py would buffer it and send it after reconnecting, when it is outdated.
            raise StoreError("NATS is unreachable")
        return self._link.client.jetstream(timeout=self._patience_s)

    # Watching

    async def watch(self, bucket: Bucket) -> AsyncIterator[Change]:
        pauses = self._pauses()
        await self._ready.wait()
        while True:
            session = WatchSession(self._link.client, bucket, self._prefix, self._heartbeat_s)
            try:
                async with aclosing(session.changes()) as changes:
                    async for change in changes:
                        if isinstance(change, CaughtUp):
                            pauses.forget()
                        yield change
            except (Interrupted, *PROBLEMS) as problem:
                log.debug("watch interrupted bucket=%s error=%r", bucket.value, _said(problem))
            await self._ready.wait()
            # Only now: hosts that lost NATS together are connected again together.
            await asyncio.sleep(pauses.next())
            await self._ready.wait()
            yield BegunAnew()

    # The buckets

    async def _maintain_buckets(self) -> None:
        """Create the missing buckets on every connect, and whenever one seems to be missing."""
        pauses = Backoff()

        async def maintain() -> None:
            await self._link.up.wait()
            self._recheck.clear()
            try:
                await asked(make_buckets(self._js(), self._lives_s, self._prefix))
            except (StoreError, *PROBLEMS) as problem:
                log.warning("the fleet's buckets cannot be created error=%r", _said(problem))
                return await asyncio.sleep(pauses.next())
            pauses.forget()
            self._ready.set()
            await self._until_recheck()
            return self._ready.clear()

        await forever(maintain, "maintain the buckets")

    async def _until_recheck(self) -> None:
        waits = [
            self._tasks.start(event.wait(), "wait for a bucket check") for event in (self._link.down, self._recheck)
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def _said(problem: BaseException) -> str:
    return str(problem) or type(problem).__name__
