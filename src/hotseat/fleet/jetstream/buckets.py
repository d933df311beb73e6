"""The JetStream buckets: key-value streams, so `nats kv` shows them. Any host may create them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nats.js import api
from nats.js.errors import APIError, NotFoundError

from hotseat.fleet.store import LIVES_S, Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nats.js import JetStreamContext

    from hotseat.identifiers import Seconds

log = logging.getLogger(__name__)

REPLICAS = 3
MARKER_S: Seconds = 60.0
"""How long a delete marker stays: longer than any watcher lags behind, or it would miss the removal."""
DUPLICATES_S: Seconds = 120.0

_IN_USE = 10058
"""Another host just created it with a different configuration."""


def stream_of(bucket: Bucket) -> str:
    return f"KV_hotseat-{bucket.value}"


def subject_of(bucket: Bucket, key: str) -> str:
    return f"$KV.hotseat-{bucket.value}.{key}"


async def make_buckets(js: JetStreamContext, lives_s: Mapping[Bucket, Seconds | None] = LIVES_S) -> None:
    """Create missing buckets; other hosts may do so at the same time."""
    for bucket in Bucket:
        config = _config(bucket, lives_s[bucket])
        if found := await _found(js, bucket):
            await _spread(js, found)
        else:
            found = await _made(js, config)
        _compare(found, config)


async def _found(js: JetStreamContext, bucket: Bucket) -> api.StreamConfig | None:
    try:
        return (await js.stream_info(stream_of(bucket))).config
    except NotFoundError:
        return None


async def _made(js: JetStreamContext, config: api.StreamConfig) -> api.StreamConfig:
    """Three replicas, or one where there are too few servers: two would both be needed, so they gain nothing."""
    try:
        return (await js.add_stream(config)).config
    except APIError as refused:
        if refused.err_code == _IN_USE:
            return (await js.stream_info(str(config.name))).config
        if config.num_replicas == 1:
            raise
    return await _made(js, config.evolve(num_replicas=1))


async def _spread(js: JetStreamContext, config: api.StreamConfig) -> None:
    """There may be enough servers for three replicas by now."""
    if (config.num_replicas or 1) >= REPLICAS:
        return
    try:
        await js.update_stream(config.evolve(num_replicas=REPLICAS))
    except APIError as refused:
        log.debug("bucket cannot be updated stream=%s reason=%r", config.name, refused.description)


def _compare(found: api.StreamConfig, ours: api.StreamConfig) -> None:
    if (found.max_age or 0, found.subject_delete_marker_ttl) != (ours.max_age, ours.subject_delete_marker_ttl):
        log.warning("a bucket has an unexpected configuration stream=%s max_age_s=%s", found.name, found.max_age)


def _config(bucket: Bucket, lives_s: Seconds | None) -> api.StreamConfig:
    return api.StreamConfig(
        name=stream_of(bucket),
        subjects=[subject_of(bucket, ">")],
        max_msgs_per_subject=1,
        max_age=lives_s or 0,
        allow_msg_ttl=True,
        subject_delete_marker_ttl=MARKER_S,
        allow_rollup_hdrs=True,
        allow_direct=False,  # only the leader answers: replicas may lag behind
        deny_delete=True,
        discard=api.DiscardPolicy.NEW,
        duplicate_window=min(DUPLICATES_S, lives_s or DUPLICATES_S),
        storage=api.StorageType.FILE,
        num_replicas=REPLICAS,
    )
