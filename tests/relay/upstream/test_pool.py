"""Connections to upstreams that are idle between requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.support.raising import Calls
from tests.support.relay_rig import HELLO, chat, get
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.daemon.file_limit import RESERVED
from hotseat.identifiers import Address
from hotseat.relay.upstream.pool import MOST_IDLE, MOST_TOGETHER, Pool

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig

    from hotseat.identifiers import Instant


def promising(keep_alive: bytes) -> bytes:
    return HELLO.replace(b"Content", b"Keep-Alive: %b\r\nContent" % keep_alive, 1)


async def test_a_connection_is_used_again(rig: RelayRig) -> None:
    """Five requests use one upstream connection."""
    for _ in range(5):
        await rig.exchange(chat())

    assert len(rig.alpha.lines) == 1


async def test_requests_at_the_same_time_get_a_connection_each(rig: RelayRig) -> None:
    """Concurrent requests have a connection each, and all return to the pool."""
    pairs = [await rig.reached(get()) for _ in range(3)]
    for client, call in pairs:
        await call.say(HELLO)
        await client.message()
    for _ in range(3):
        await rig.exchange(get())

    assert len(rig.alpha.lines) == 3


async def test_a_connection_is_retired_before_its_hundredth_request(rig: RelayRig) -> None:
    """A connection is closed after 99 requests, because llama-server closes it at the hundredth."""
    for _ in range(99):
        await rig.exchange(get())
    assert len(rig.alpha.lines) == 1
    await rig.exchange(get())

    assert len(rig.alpha.lines) == 2
    assert await rig.alpha.lines[0].ended() in End


class Resting:
    """A connection that stays good."""

    def __init__(self, address: Address) -> None:
        self.address, self.is_closed = address, False

    def can_be_used(self, now: Instant) -> bool:
        return not self.is_closed

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("upstreams", "kept"),
    [(1, [MOST_IDLE]), (3, [MOST_IDLE] * 3), (10, [10] * 6 + [9] * 4), (MOST_TOGETHER + 1, [1] * MOST_TOGETHER)],
)
async def test_many_upstreams_have_idle_connections(upstreams: int, kept: list[int]) -> None:
    """Each keeps its newest, and all together fewer than the descriptors that are reserved for operators and files."""
    pool = Pool()
    by_upstream = [[Resting(Address("127.0.0.1", port)) for _ in range(MOST_IDLE + 5)] for port in range(upstreams)]
    for resting in by_upstream:
        for each in resting:
            pool.put_back(cast("Any", each))
    pool._sweep()

    left = [[not each.is_closed for each in resting] for resting in by_upstream]
    assert [sum(each) for each in left if any(each)] == kept
    assert all(each == sorted(each) for each in left), "the newest are kept"
    assert pool.idle == sum(kept) <= MOST_TOGETHER < RESERVED / 2
    await pool.aclose()


async def test_a_connection_that_rested_too_long_is_not_used(rig: RelayRig) -> None:
    """A connection that was idle for four seconds is not reused."""
    await rig.exchange(get())
    await rig.later(4.0)
    await rig.exchange(get())

    assert len(rig.alpha.lines) == 2
    assert await rig.alpha.lines[0].ended() in End


async def test_connections_that_nobody_needs_are_closed(rig: RelayRig) -> None:
    """Idle connections that are too old are closed without a further request."""
    await rig.exchange(get())
    await rig.later(4.0)

    assert await rig.alpha.lines[0].ended_later() in End


async def test_resting_connections_that_are_still_good_are_kept(rig: RelayRig) -> None:
    """The cleanup closes only connections that are too old."""
    (first, one), (second, two) = [await rig.reached(get()) for _ in range(2)]
    await one.say(HELLO)
    await first.message()
    await rig.later(3.0)
    await two.say(HELLO)
    await second.message()
    await rig.later(1.5)
    await one.line.ended_later()
    await rig.exchange(get())

    assert len(rig.alpha.lines) == 2


async def test_the_cleanup_never_takes_a_good_connection_out(rig: RelayRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """So none is lost if putting it back fails."""
    (first, one), (second, two) = [await rig.reached(get()) for _ in range(2)]
    await one.say(HELLO)
    await first.message()
    await rig.later(3.0)
    await two.say(HELLO)
    await second.message()
    with monkeypatch.context() as patched:
        patched.setattr(Pool, "put_back", Calls(0).around("put_back", Pool.put_back))
        await rig.later(1.5)
        await one.line.ended_later()
    await rig.exchange(get())

    assert len(rig.alpha.lines) == 2


@pytest.mark.parametrize("promise", [b"timeout=1", b"max=1", b"timeout=0, max=5"])
async def test_an_upstream_that_promises_little_gets_a_new_connection(rig: RelayRig, promise: bytes) -> None:
    """A connection whose Keep-Alive allows no safe reuse is closed."""
    await rig.exchange(get(), promising(promise))

    assert await rig.alpha.lines[0].ended() in End


async def test_a_connection_does_not_rest_after_an_event_stream(rig: RelayRig) -> None:
    """A connection is closed after an event stream, because llama-server closes it anyway."""
    stream = HELLO.replace(b"text/plain", b"text/event-stream\r\nKeep-Alive: timeout=5, max=100")
    await rig.exchange(chat(), stream)

    assert await rig.alpha.lines[0].ended() in End


async def test_an_upstream_may_shorten_the_rest(rig: RelayRig) -> None:
    """With `timeout=3` a connection is reused after 1.5 s but not after 2 s."""
    rig.stop_clocks()
    await rig.exchange(get(), promising(b"timeout=3, max=1000"))
    await rig.later(1.5)
    await rig.exchange(get(), promising(b"timeout=3"))
    await rig.later(2.0)
    await rig.exchange(get())

    assert len(rig.alpha.lines) == 2


async def test_an_upstream_may_count_its_requests(rig: RelayRig) -> None:
    """With `max=3` a connection serves two requests."""
    for _ in range(3):
        await rig.exchange(get(), promising(b"max=3"))

    assert len(rig.alpha.lines) == 2


async def test_a_connection_that_the_upstream_closed_is_forgotten(rig: RelayRig) -> None:
    """A connection that the upstream closed is removed from the pool."""
    client, call = await rig.reached(get())
    await call.say(HELLO)
    await client.message()
    call.hang_up()
    await call.ended()
    await come_true(lambda: rig.relay.context.pool.idle == 0)
    await rig.exchange(get())

    assert rig.alpha.requests == 2


async def test_connections_to_a_unix_socket_rest_too(rig: RelayRig) -> None:
    """Connections to the management API are reused."""
    for _ in range(3):
        client = await rig.send(get("/health"))
        await (await rig.management.call()).say(HELLO)
        assert (await client.message()).status == 200

    assert len(rig.management.lines) == 1


async def test_the_pool_closes_idle_connections_at_shutdown(rig: RelayRig) -> None:
    """Closing the relay closes idle upstream connections."""
    await rig.exchange(get())
    await rig.relay.aclose()

    assert await rig.alpha.lines[0].ended() in End
