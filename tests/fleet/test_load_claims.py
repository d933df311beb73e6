"""Which host loads a model: the first writer decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fleet import QWEN
from tests.support.fleet_store import SteppedStore, SteppedTask, run_to_end

from hotseat.fleet import claims
from hotseat.fleet.claim_table import Held
from hotseat.fleet.claims import Agreed, claim, key_of, release
from hotseat.fleet.placement import Load
from hotseat.fleet.records import Claim, encoded
from hotseat.fleet.store import Bucket, Conflict, Revision
from hotseat.identifiers import HostName, ModelName

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = key_of(QWEN, 0)
A, B, C = map(HostName, "abc")


def decision(host: HostName, replica: int = 0) -> Load:
    return Load(QWEN, host, replica, f"{host} has enough free memory")


@pytest.fixture(autouse=True, scope="module")
def _same_ids() -> Iterator[None]:
    """So that claims can be compared."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(claims, "token_hex", lambda _: "")
        yield


def claim_for(host: HostName, by: HostName) -> Claim:
    return Claim(QWEN, host, by, f"{host} has enough free memory")


def held(agreed: Agreed) -> Held:
    assert agreed.revision is not None
    return Held(KEY, agreed.claim, agreed.revision, 0.0)


def test_whoever_is_first_has_decided() -> None:
    """The second host gets the claim that the first one wrote."""
    store = SteppedStore()
    first, second = run_to_end(claim(store, decision(A), A)), run_to_end(claim(store, decision(B), B))

    assert first == Agreed(claim_for(A, A), Revision(1))
    assert second == Agreed(claim_for(A, A), Revision(1), is_ours=False)


def test_another_replica_is_another_claim() -> None:
    """Claims for two replicas of one model are independent."""
    store = SteppedStore()
    found = [run_to_end(claim(store, decision(A, 0), A)), run_to_end(claim(store, decision(B, 1), A))]

    assert [agreed.claim.host for agreed in found] == [A, B]


def test_a_claim_that_vanished_frees_the_way() -> None:
    """If a claim is removed between the conflict and the read, the second host makes its own."""
    store = SteppedStore()
    first = run_to_end(claim(store, decision(A), A))
    second = SteppedTask(claim(store, decision(B), B))
    second.step()
    run_to_end(release(store, held(first)))
    second.step()
    second.step()

    assert second.result == Agreed(claim_for(B, B), Revision(2))


def test_a_claim_that_vanishes_again_and_again_is_done_without() -> None:
    """After two attempts a host decides without a claim."""
    store = SteppedStore()
    late = SteppedTask(claim(store, decision(B), B))
    for _ in range(2):
        other = run_to_end(claim(store, decision(A), A))
        late.step()
        run_to_end(release(store, held(other)))
        late.step()

    assert late.result == Agreed(claim_for(B, B), None)


def test_without_the_store_a_host_decides_alone() -> None:
    """Without the store, a host's own decision holds, and the result has no revision."""
    assert run_to_end(claim(SteppedStore(is_connected=False), decision(A), B)) == Agreed(claim_for(A, B), None)


def test_a_claim_that_cannot_be_read_binds_nobody() -> None:
    """If a claim cannot be decoded, the host decides without one."""
    store = SteppedStore()
    run_to_end(store.put(Bucket.CLAIMS, KEY, b"who knows"))

    assert run_to_end(claim(store, decision(A), A)).revision is None


def test_a_claim_that_cannot_be_taken_back_ends_by_itself() -> None:
    """Releasing a claim without the store raises nothing and leaves the claim."""
    store = SteppedStore()
    first = run_to_end(claim(store, decision(A), A))
    store.is_connected = False
    run_to_end(release(store, held(first)))

    assert (Bucket.CLAIMS, KEY) in store.there


def test_a_claim_of_another_life_is_not_taken_back() -> None:
    """A claim that another host wrote since is not released."""
    store = SteppedStore()
    first = run_to_end(claim(store, decision(A), A))
    run_to_end(store.put(Bucket.CLAIMS, KEY, encoded(claim_for(B, B))))
    run_to_end(release(store, held(first)))

    assert run_to_end(claim(store, decision(C), C)).claim.host == B


@pytest.mark.parametrize("model", ["qwen", "org/model:Q4 *>", "模型", "." * 300])
def test_any_name_makes_a_key(model: str) -> None:
    """A key has ASCII letters, digits, - and _, then a dot and the replica."""
    name, _, replica = key_of(ModelName(model), 3).rpartition(".")

    assert replica == "3"
    assert name
    assert all(sign.isascii() and (sign.isalnum() or sign in "-_") for sign in name)


@given(st.lists(st.integers(0, 3), max_size=40))
def test_hosts_agree_in_every_interleaving(order: list[int]) -> None:
    """In every order of steps, all hosts that claim one replica select the same host."""
    claim_and_select(order)


def test_hosts_that_do_not_listen_are_found() -> None:
    """The check fails when the second host acts on its own decision."""

    async def deaf(store: SteppedStore, decision: Load, me: HostName) -> Agreed:
        ours = Claim(decision.model, decision.host, me, decision.reason, decision.replica)
        try:
            return Agreed(ours, await store.create(Bucket.CLAIMS, KEY, encoded(ours)))
        except Conflict:
            return Agreed(ours, Revision(9))

    with pytest.MonkeyPatch.context() as planted:
        planted.setattr(claims, "claim", deaf)
        with pytest.raises(AssertionError, match="went to"):
            claim_and_select([])


def claim_and_select(order: list[int]) -> None:
    store = SteppedStore()
    tasks = [SteppedTask(claims.claim(store, decision(host), host)) for host in map(HostName, "abcd")]
    for number in [*order, *range(4), *range(4), *range(4)]:
        if not tasks[number].is_done:
            tasks[number].step()
    hosts = {task.result.claim.host for task in tasks}

    assert len(hosts) == 1, f"they went to {hosts}"
