"""Time limits of clients, and the response when one is exceeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat, chunked, get, turns
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.settings import Access

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Wire


PREFLIGHT = get("/v1/x", "Origin: http://a.example", "Access-Control-Request-Method: POST", method="OPTIONS")


@pytest.fixture
async def rig(rig: RelayRig) -> RelayRig:
    rig.stop_clocks()
    return rig


async def no_answer(rig: RelayRig, client: Wire, after: float) -> None:
    """The relay has checked its deadlines since, and sent nothing."""
    await rig.later(after)
    rig.relay.connections.check_deadlines()
    await turns()
    with pytest.raises(BlockingIOError):
        client.sock.recv(1)


async def test_a_head_that_does_not_come_to_its_end_is_given_up(rig: RelayRig) -> None:
    """An unfinished head gets 408 after ten seconds, even if bytes keep arriving."""
    client = await rig.send(get()[:-10])
    await no_answer(rig, client, 6)
    await client.send(b"X")
    await rig.later(5)
    answered = await client.message()

    assert answered.status == 408
    assert await client.end() is End.CLOSED


async def test_a_body_that_stops_coming_is_given_up(rig: RelayRig) -> None:
    """A pause within the body longer than idleTimeout gets 408; each byte restarts the time."""
    client = await rig.send(chat()[:-2])
    await come_true(lambda: rig.relay.context.bodies.in_memory)
    await no_answer(rig, client, 59)
    await client.send(chat()[-2:-1])
    await no_answer(rig, client, 59)
    await rig.later(2)
    answered = await client.message()

    assert answered.status == 408
    assert rig.relay.context.bodies.in_memory == 0


async def test_a_body_that_never_begins_has_the_time_of_a_body(rig: RelayRig) -> None:
    """After 100 Continue the body has idleTimeout to begin."""
    client = await rig.send(chat("alpha", "Expect: 100-continue")[:-17])
    await client.message()
    await no_answer(rig, client, 59)
    await rig.later(2)

    assert (await client.message()).status == 408


async def test_a_connection_on_which_nothing_comes_is_closed(rig: RelayRig) -> None:
    """A connection without a request is closed after ten seconds, without a response."""
    client = await rig.client()
    await come_true(lambda: len(rig.relay.connections.open) > 0)
    await rig.later(11)

    assert await client.end() is End.CLOSED
    assert client.unread == b""


@pytest.mark.parametrize(
    "request_bytes",
    [get("/x?model=nobody"), chat("nobody"), PREFLIGHT],
    ids=["refused at its head", "refused with its body", "preflight"],
)
async def test_an_idle_connection_is_closed_whatever_was_answered(open_rig: OpenRig, request_bytes: bytes) -> None:
    """After an error or a preflight, an idle connection is closed after idleTimeout."""
    rig = await open_rig(access=Access(allowed_origins=("http://a.example",)))
    rig.stop_clocks()
    client = await rig.send(request_bytes)
    await client.message()
    await no_answer(rig, client, 59)
    await rig.later(2)

    assert await client.end() is End.CLOSED
    assert client.unread == b""


async def test_an_idle_connection_is_closed_after_an_answer(rig: RelayRig) -> None:
    """After a response, an idle connection is closed after idleTimeout."""
    client, call = await rig.reached(get())
    await call.say(HELLO)
    await client.message()
    await no_answer(rig, client, 59)
    await rig.later(2)

    assert await client.end() is End.CLOSED


async def test_waiting_for_a_model_takes_as_long_as_it_takes(rig: RelayRig) -> None:
    """No client timeout applies while the model server has not responded."""
    client, call = await rig.reached(chat())
    await no_answer(rig, client, 3600)
    await call.say(HELLO)

    assert (await client.message()).status == 200


@pytest.mark.parametrize("behind", [get()[:-10], chat()[:-3]], ids=["head", "body"])
async def test_a_half_read_request_waits_while_another_is_served(rig: RelayRig, behind: bytes) -> None:
    """The timeout of a pipelined partial request does not run while another one is served."""
    rest = {get()[:-10]: get()[-10:], chat()[:-3]: chat()[-3:]}[behind]
    client, call = await rig.reached(chat() + behind)
    await client.send(rest)
    await no_answer(rig, client, 3600)
    await call.say(HELLO)
    await (await rig.alpha.call()).say(HELLO)

    assert [(await client.message()).status for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("behind", [get()[:-10], chat()[:-3]], ids=["head", "body"])
async def test_the_time_of_a_half_read_request_runs_on_after_the_answer_before_it(rig: RelayRig, behind: bytes) -> None:
    """After the response before it, a partial request gets 408 when its time is up."""
    client, call = await rig.reached(chat() + behind)
    await call.say(HELLO)
    first = await client.message()
    await rig.later(61)

    assert first.status == 200
    assert (await client.message()).status == 408


async def test_a_slow_upload_does_not_hold_a_model(rig: RelayRig) -> None:
    """The model is not loaded before the body is complete."""
    client = await rig.send(get("/v1/x", "Transfer-Encoding: chunked", method="POST") + chunked(b'{"mod')[:-5])
    await come_true(lambda: rig.relay.context.bodies.in_memory)

    assert rig.phase("alpha") == "cold"
    await client.send(chunked(b'el":"alpha"}'))
    await (await rig.alpha.call()).say(HELLO)
    assert (await client.message()).status == 200
