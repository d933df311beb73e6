"""Proofs between hosts: of requests, and of the records in the store."""

from __future__ import annotations

import hmac
import logging
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fleets import Watching
from tests.support.in_process_store import Board, InProcess

from hotseat.errors import HostUnproven
from hotseat.fleet import proofs
from hotseat.fleet.proofs import (
    MOST_SKEW_S,
    MOST_SUBJECTS,
    FleetSecret,
    Hmac,
    LogLimit,
    ProofChecker,
    SignedStore,
    Signer,
)
from hotseat.fleet.records import HostOrder, HostRecord, encoded
from hotseat.fleet.store import Bucket, CaughtUp, Conflict, Removed, Written
from hotseat.identifiers import HostName
from hotseat.telemetry.logs import taken_apart

if TYPE_CHECKING:
    from hotseat.fleet.store import Change

A, B = HostName("a"), HostName("b")
OLD, NEW = "o" * 32, "n" * 32
NOON = 1_700_000_000.0
GPU1 = encoded(HostRecord(HostName("gpu1"), "http://gpu1:8080", "1", "catalog"))
FORGED_RECORD = encoded(HostRecord(HostName("gpu1"), "http://attacker:8080", "1", "catalog"))


def signed(said: bytes = b"said", secrets: tuple[str, ...] = (OLD,), to: HostName = B, at: float = NOON) -> bytes:
    return Signer(FleetSecret(secrets), lambda: at).proof(to, said)


PROOF = signed()
FORGED = {
    "another secret": signed(secrets=(NEW,)),
    "no secret": signed(secrets=()),
    "an empty secret": signed(secrets=("",)),
    "another request": signed(b"something else"),
    "another host": signed(to=A),
    "another fleet": Signer(FleetSecret((OLD,), "staging"), lambda: NOON).proof(B, b"said"),
    "nothing": b"",
    "a blank": b" ",
    "a comma": b",",
    "numbers": b"1 2 3",
    "the secret itself": OLD.encode(),
    "no signature": PROOF.rpartition(b" ")[0],
    "another time": b"9" + PROOF,
    "a part": PROOF[:-1],
    "another end": PROOF[:-1] + bytes([PROOF[-1] ^ 1]),
}


def checker(*secrets: str, at: float = NOON) -> ProofChecker:
    return ProofChecker(B, FleetSecret(secrets or (OLD,)), lambda: at)


@given(st.binary(min_size=1, max_size=200), st.binary(max_size=200))
def test_a_signature_is_an_hmac(key: bytes, said: bytes) -> None:
    """A signature equals the standard library's HMAC-SHA256."""
    assert Hmac(key).of(said) == hmac.digest(key, said, "sha256").hex().encode()


def test_a_fleet_without_a_prefix_signs_with_its_secret() -> None:
    """Hosts of versions that know no prefix accept it; with a prefix, the key is another one."""
    plain, staging, testing = (
        FleetSecret((OLD,), prefix).sign(b"said") for prefix in ("hotseat", "staging", "testing")
    )

    assert plain == FleetSecret((OLD,)).sign(b"said") == hmac.digest(OLD.encode(), b"said", "sha256").hex().encode()
    assert len({plain, staging, testing}) == 3


def test_what_a_host_signed_is_believed() -> None:
    """A proof with the right secret is accepted, and does not contain the secret."""
    proof = signed()

    checker().check(A, b"said", proof)
    assert OLD.encode() not in proof


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [((OLD,), (NEW, OLD)), ((OLD,), (OLD, NEW)), ((NEW, OLD), (OLD,)), ((OLD, NEW), (NEW,)), ((NEW, OLD), (OLD, NEW))],
)
def test_two_secrets_hold_while_one_takes_the_place_of_the_other(
    ours: tuple[str, ...], theirs: tuple[str, ...]
) -> None:
    """Hosts with the old and the new secret accept each other, in both directions."""
    checker(*ours).check(A, b"said", signed(secrets=theirs))
    checker(*theirs).check(A, b"said", signed(secrets=ours))


@pytest.mark.parametrize("forged", FORGED)
def test_nothing_else_is_believed(forged: str) -> None:
    """A proof with another secret, or for another request, host, fleet or time, is rejected."""
    with pytest.raises(HostUnproven, match=r"fleet\.secret"):
        checker().check(A, b"said", FORGED[forged])


@given(st.binary(max_size=200))
def test_no_junk_is_a_proof(proof: bytes) -> None:
    """Arbitrary bytes are rejected with the same error."""
    with pytest.raises(HostUnproven):
        checker().check(A, b"said", proof)


@pytest.mark.parametrize("configured", [(), ("",)])
def test_a_host_without_a_secret_believes_nobody(configured: tuple[str, ...]) -> None:
    """Without a secret, or with an empty one, every proof is rejected."""
    with pytest.raises(HostUnproven):
        ProofChecker(B, FleetSecret(configured), lambda: NOON).check(A, b"said", signed(secrets=configured))


def test_a_proof_holds_once() -> None:
    """The same proof is rejected the second time."""
    us, proof = checker(), signed()
    us.check(A, b"said", proof)

    with pytest.raises(HostUnproven, match="already received"):
        us.check(A, b"said", proof)


def test_the_same_request_is_proven_anew_each_time() -> None:
    """Three proofs of one request in the same millisecond are all accepted."""
    us, signer = checker(), Signer(FleetSecret((OLD,)), lambda: NOON)

    for _ in range(3):
        us.check(A, b"said", signer.proof(B, b"said"))


@pytest.mark.parametrize("apart_s", [-MOST_SKEW_S - 1, MOST_SKEW_S + 1])
def test_a_proof_holds_for_a_minute(apart_s: float) -> None:
    """A larger clock difference is rejected, and the error states the difference."""
    host = Host()
    us = host.process()
    host.now += 2 * MOST_SKEW_S
    us.check(A, b"said", signed(at=host.now + 0.9 * apart_s))

    with pytest.raises(HostUnproven, match=rf"clock of a differs by {re.escape(f'{apart_s:+.0f}')} s .*NTP"):
        us.check(A, b"said", signed(at=host.now + apart_s))


def test_what_is_remembered_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten is refused as well, also by the next process; a host whose clock is late is not affected."""
    monkeypatch.setattr(proofs, "MOST_SEEN", 3)
    host = Host()
    us, late = host.process(), Signer(FleetSecret((OLD,)), lambda: host.now - 30)
    signer = Signer(FleetSecret((OLD,)), lambda: host.now)
    host.now += 40
    made = []
    for _ in range(7):
        host.now += 0.001
        made.append(signer.proof(B, b"said"))
        us.check(A, b"said", made[-1])
    after = host.process()
    after.take(us.to_hand_over())

    for process in (us, after):
        for proof in made[3:]:
            with pytest.raises(HostUnproven, match="already received"):
                process.check(A, b"said", proof)
        for proof in made[:3]:
            with pytest.raises(HostUnproven, match="no longer knows whether"):
                process.check(A, b"said", proof)
        process.check(A, b"said", late.proof(B, b"said"))
        process.check(A, b"said", signer.proof(B, b"said"))


def test_many_hosts_whose_proofs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of each has a limit too; beyond it, the time of the newest counts for all."""
    monkeypatch.setattr(proofs, "MOST_SEEN", 3)
    monkeypatch.setattr(proofs, "MOST_SIGNERS", 2)
    host = Host()
    us, made = host.process(), []
    for _ in range(7):
        host.now += 1
        made.append(signed(at=host.now))
        us.check(A, b"said", made[-1])

    for proof in (*made[:3], signed(at=NOON + 2.5)):
        with pytest.raises(HostUnproven, match="no longer knows whether"):
            us.check(A, b"said", proof)
    us.check(A, b"said", signed(at=NOON + 3.5))


def test_a_crash_before_a_restart() -> None:
    """What was signed before the crash is refused by the process after the next as well."""
    host = Host()
    host.process().check(A, b"said", proof := signed())
    host.now += 1
    second = host.process()
    third = host.process()
    third.take(second.to_hand_over())

    with pytest.raises(HostUnproven, match="before b started"):
        third.check(A, b"said", proof)


def test_a_warning_comes_through_now_and_then() -> None:
    """Each topic is let through once per period, and only some of them if there are many."""
    now = [0.0]
    limit = LogLimit(60.0, lambda: now[0])
    first = [limit.lets_through("a"), limit.lets_through("a"), limit.lets_through("b")]
    others = [limit.lets_through(str(number)) for number in range(MOST_SUBJECTS)]
    now[0] = 60.0

    assert first == [True, False, True]
    assert others == [True] * (MOST_SUBJECTS - 2) + [False] * 2
    assert limit.lets_through("a")


# The next process


class Host:
    """Processes of host b that follow one another, on one clock."""

    def __init__(self) -> None:
        self.now = NOON

    def process(self) -> ProofChecker:
        return ProofChecker(B, FleetSecret((OLD,)), lambda: self.now)


def test_a_proof_is_valid_once_also_after_restarts() -> None:
    """The new process knows what the old one has seen; what was under way is accepted, once."""
    host = Host()
    old, seen, under_way = host.process(), signed(), signed()
    old.check(A, b"said", seen)
    host.now += 5
    for _ in range(2):
        new = host.process()
        new.take(old.to_hand_over())
        old = new

        with pytest.raises(HostUnproven, match="rejects replays"):
            new.check(A, b"said", seen)
    old.check(A, b"said", under_way)
    with pytest.raises(HostUnproven, match="rejects replays"):
        old.check(A, b"said", under_way)


def test_a_proof_that_is_too_old_is_not_handed_over() -> None:
    """Its time has passed, so nobody needs to remember it."""
    host = Host()
    old, seen = host.process(), signed()
    old.check(A, b"said", seen)
    host.now += MOST_SKEW_S + 1
    new = host.process()

    assert old.to_hand_over() == []
    new.take([])
    with pytest.raises(HostUnproven, match="the clock of a differs"):
        new.check(A, b"said", seen)


def test_a_proof_from_before_a_crash_is_refused() -> None:
    """Nobody knows whether the killed process has seen it; a new one is valid as soon as the clocks agree on that."""
    host = Host()
    host.process().check(A, b"said", proof := signed())
    host.now += 1
    next_one = host.process()

    with pytest.raises(HostUnproven, match="before b started"):
        next_one.check(A, b"said", proof)
    with pytest.raises(HostUnproven, match="before b started"):
        next_one.check(A, b"said", signed(at=host.now - 0.5))
    next_one.check(A, b"said", signed(at=host.now))


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
    await host(raw).put(Bucket.HOSTS, "gpu2", FORGED_RECORD)
    found = await raw.read(Bucket.HOSTS, "gpu2")
    assert found is not None
    await raw.remove(Bucket.HOSTS, "gpu2")
    await raw.put(bucket, key, found.value)


@pytest.mark.parametrize(
    "value", [FORGED_RECORD, b"", b"{}", b'{"proof":"","record":%b}' % FORGED_RECORD, b'{"proof":"']
)
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
        revision = await raw.put(Bucket.HOSTS, "gpu1", FORGED_RECORD)

        assert await watching.next() == Removed("gpu1", revision)


async def test_a_writer_without_the_secret_cannot_keep_a_name_taken(raw: InProcess) -> None:
    """An unsigned record can be overwritten by create; a signed one is a conflict."""
    await raw.put(Bucket.HOSTS, "gpu1", FORGED_RECORD)
    await host(raw).create(Bucket.HOSTS, "gpu1", GPU1)

    with pytest.raises(Conflict):
        await host(raw).create(Bucket.HOSTS, "gpu1", GPU1)


async def test_one_warning_says_which_key_and_what_to_do(raw: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    """Five unsigned records under one key cause one warning, which names the key and fleet.secret."""
    ours = host(raw)
    for _ in range(5):
        await raw.put(Bucket.HOSTS, "gpu0", FORGED_RECORD)
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
        await raw.put(Bucket.HOSTS, key, FORGED_RECORD)
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
