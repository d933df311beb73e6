"""The JetStream buckets: key-value streams, so `nats kv` shows them. Any host may create them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nats.js import api
from nats.js.errors import APIError, NotFoundError

from hotseat.fleet.store import LIVES_S, Bucket
from hotseat.identifiers import DEFAULT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nats.js import JetStreamContext

    from hotseat.identifiers import Seconds

log = logging.getLogger(__name__)

REPLICAS = 3
MARKER_S: Seconds = 60.0
"""How long a delete marker stays: longer than any watcher lags behind, or it would miss the removal."""
DUPLICATES_S: Seconds = 120.0
STORAGE: Mapping[Bucket, api.StorageType] = {
    Bucket.HOSTS: api.StorageType.MEMORY,
    Bucket.CLAIMS: api.StorageType.MEMORY,
    Bucket.CATALOGS: api.StorageType.FILE,
    Bucket.ORDERS: api.StorageType.FILE,
}
"""Leases are written every few seconds and outdated after ten: a disk would slow them down and save nothing."""

_IN_USE = 10058
"""Another host just created it with a different configuration."""


def stream_of(bucket: Bucket, prefix: str = DEFAULT_PREFIX) -> str:
    """No bucket has a hyphen in its name, so the names of two fleets never coincide."""
    return f"KV_{prefix}-{bucket.value}"


def subject_of(bucket: Bucket, key: str, prefix: str = DEFAULT_PREFIX) -> str:
    return f"$KV.{prefix}-{bucket.value}.{key}"


async def make_buckets(
    js: JetStreamContext, lives_s: Mapping[Bucket, Seconds | None] = LIVES_S, prefix: str = DEFAULT_PREFIX
) -> None:
    """Create missing buckets; other hosts may do so at the same time."""
    for bucket in Bucket:
        config = _config(bucket, lives_s[bucket], prefix)
        if found := await _found(js, stream_of(bucket, prefix)):
            await _spread(js, found)
        else:
            found = await _made(js, config)
        _compare(found, config)


async def _found(js: JetStreamContext, stream: str) -> api.StreamConfig | None:
    try:
        return (await js.stream_info(stream)).config
    except NotFoundError:
        return None


async def _made(js: JetStreamContext, config: api.StreamConfig) -> api.StreamConfig:
    """As `config` says, or what this NATS can do instead."""
    try:
        return (await js.add_stream(config)).config
    except APIError as refused:
        if refused.err_code == _IN_USE:
            return (await js.stream_info(str(config.name))).config
        instead = _instead(config)
        if instead is None:
            raise
    return await _made(js, instead)


def _instead(config: api.StreamConfig) -> api.StreamConfig | None:
    """One replica where there are too few servers: two would both be needed, so they gain nothing. And a file where the
    account may not use memory."""
    if config.num_replicas != 1:
        return config.evolve(num_replicas=1)
    if config.storage == api.StorageType.MEMORY:
        return config.evolve(num_replicas=REPLICAS, storage=api.StorageType.FILE)
    return None


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
    if found.storage != ours.storage:
        # NATS cannot change it, and the fleet works with both.
        storage, usual = api.StorageType(found.storage).value, api.StorageType(ours.storage).value
        log.info("a bucket has another storage than usual stream=%s storage=%s usual=%s", found.name, storage, usual)


def _config(bucket: Bucket, lives_s: Seconds | None, prefix: str) -> api.StreamConfig:
    return api.StreamConfig(
        name=stream_of(bucket, prefix),
        subjects=[subject_of(bucket, ">", prefix)],
        max_msgs_per_subject=1,
        max_age=lives_s or 0,
        allow_msg_ttl=True,
        subject_delete_marker_ttl=MARKER_S,
        allow_rollup_hdrs=True,
        allow_direct=False,  # only the leader answers: replicas may lag behind
        deny_delete=True,
        discard=api.DiscardPolicy.NEW,
        duplicate_window=min(DUPLICATES_S, lives_s or DUPLICATES_S),
        storage=STORAGE[bucket],
        num_replicas=REPLICAS,
    )
