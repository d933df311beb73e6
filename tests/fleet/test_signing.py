"""Records that no host of the fleet signed are ignored."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from tests.support.fleets import Watching
from tests.support.in_process_store import Board, InProcess

from hotseat.fleet.host_proof import MOST_SUBJECTS, FleetSecret
from hotseat.fleet.records import HostOrder, HostRecord, encoded
from hotseat.fleet.signing import SignedStore
from hotseat.fleet.store import Bucket, CaughtUp, Conflict, Removed, Written
from hotseat.identifiers import HostName
from hotseat.telemetry.logs import taken_apart

if TYPE_CHECKING:
    from hotseat.fleet.store import Change

OLD, NEW = "o" * 32, "n" * 32
GPU1 = encoded(HostRecord(HostName("gpu1"), "http://gpu1:8080", "1", "catalog"))
FORGED = encoded(HostRecord(HostName("gpu1"), "http://attacker:8080", "1", "catalog"))


@pytest.fixture
async def raw() -> InProcess:
    """What somebody with the right to write to NATS has."""
    return InProcess(Board())


def host(raw: InProcess, *secrets: str) -> SignedStore:
    return SignedStore(raw, FleetSecret(secrets or (OLD,)))


async def state(store: SignedStore, bucket: Bucket = Bucket.HOSTS) -> list[Change]:
    async with Watching(store, bucket) as watching:
        return [change for change in await watching.until(CaughtUp) if isinstance(change, Written)]


async def test_what_a_host_wrote_is_read_by_all(raw: InProcess) -> None:
    """Hosts read the value as written; the stored record has a proof and not the secret."""
    revision = await host(raw).create(Bucket.HOSTS, "gpu1", GPU1)
    found = await raw.read(Bucket.HOSTS, "gpu1")

    assert await host(raw).read(Bucket.HOSTS, "gpu1") == Written("gpu1", GPU1, revision)
    assert await state(host(raw)) == [Written("gpu1", GPU1, revision)]
    assert found is not None
    assert found.value.startswith(b'{"proof":"')
    assert OLD.encode() not in found.value


async def copied(raw: InProcess, bucket: Bucket, key: str) -> None:
    """What a host signed, under another name."""
    await host(raw).put(Bucket.HOSTS, "gpu2", FORGED)
    found = await raw.read(Bucket.HOSTS, "gpu2")
    assert found is not None
    await raw.remove(Bucket.HOSTS, "gpu2")
    await raw.put(bucket, key, found.value)


@pytest.mark.parametrize("value", [FORGED, b"", b"{}", b'{"proof":"","record":%b}' % FORGED, b'{"proof":"'])
async def test_what_nobody_signed_is_not_there(raw: InProcess, value: bytes) -> None:
    """An unsigned record is neither read nor reported by a watch."""
    await raw.put(Bucket.HOSTS, "gpu1", value)

    assert await host(raw).read(Bucket.HOSTS, "gpu1") is None
    assert await state(host(raw)) == []


@pytest.mark.parametrize("bucket", [Bucket.HOSTS, Bucket.ORDERS])
async def test_a_record_holds_under_its_own_key_only(raw: InProcess, bucket: Bucket) -> None:
    """A signed record that is copied to another key is ignored."""
    await copied(raw, bucket, "gpu1")

    assert await host(raw).read(bucket, "gpu1") is None


async def test_a_host_with_another_secret_is_no_member(raw: InProcess) -> None:
    """Hosts with different secrets do not see each other's records."""
    await host(raw, OLD).create(Bucket.HOSTS, "gpu1", GPU1)
    await host(raw, NEW).create(Bucket.HOSTS, "gpu2", GPU1)

    assert [change.key for change in await state(host(raw, OLD)) if isinstance(change, Written)] == ["gpu1"]
    assert [change.key for change in await state(host(raw, NEW)) if isinstance(change, Written)] == ["gpu2"]


async def test_what_is_overwritten_without_the_secret_is_gone(raw: InProcess) -> None:
    """A watch reports a record that is overwritten without a signature as removed."""
    ours = host(raw)
    await ours.create(Bucket.HOSTS, "gpu1", GPU1)
    async with Watching(ours, Bucket.HOSTS) as watching:
        await watching.until(CaughtUp)
        revision = await raw.put(Bucket.HOSTS, "gpu1", FORGED)

        assert await watching.next() == Removed("gpu1", revision)


async def test_a_writer_without_the_secret_cannot_keep_a_name_taken(raw: InProcess) -> None:
    """An unsigned record can be overwritten by create; a signed one is a conflict."""
    await raw.put(Bucket.HOSTS, "gpu1", FORGED)
    await host(raw).create(Bucket.HOSTS, "gpu1", GPU1)

    with pytest.raises(Conflict):
        await host(raw).create(Bucket.HOSTS, "gpu1", GPU1)


async def test_one_warning_says_which_key_and_what_to_do(raw: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    """Five unsigned records under one key cause one warning, which names the key and fleet.secret."""
    ours = host(raw)
    for _ in range(5):
        await raw.put(Bucket.HOSTS, "gpu0", FORGED)
        await ours.read(Bucket.HOSTS, "gpu0")
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    sentence, fields = taken_apart(warning)

    assert sentence == "ignored a record without a valid signature"
    assert fields["key"] == "hosts/gpu0"
    assert "fleet.secret" in str(fields["hint"])


async def test_junk_before_a_host_with_another_secret(raw: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    """Both are named, whoever came first, and somebody who writes a thousand keys does not fill the log."""
    ours = host(raw)
    for key in ("junk", "gpu1", *(f"junk{number}" for number in range(1000))):
        await raw.put(Bucket.HOSTS, key, FORGED)
        await ours.read(Bucket.HOSTS, key)
    keys = [taken_apart(record)[1]["key"] for record in caplog.records if record.levelno == logging.WARNING]

    assert keys[:2] == ["hosts/junk", "hosts/gpu1"]
    assert len(keys) == MOST_SUBJECTS


async def test_an_order_outlives_the_secret_that_it_was_given_under(raw: InProcess) -> None:
    """A host with both secrets signs an order again, so that hosts with only the new one read it."""
    order = encoded(HostOrder(drained=True, by="gpu1"))
    await host(raw, OLD).create(Bucket.ORDERS, "gpu1", order)
    async with Watching(host(raw, NEW, OLD), Bucket.ORDERS) as watching:
        await watching.until(CaughtUp)
    found = await host(raw, NEW).read(Bucket.ORDERS, "gpu1")

    assert found is not None
    assert found.value == order
