"""Wrong keys are limited and logged; valid keys are not affected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.relay_rig import HELLO, chat, get

from hotseat.identifiers import HostName
from hotseat.relay.access.wrong_keys import (
    MOST_ADDRESSES,
    MOST_NAMED,
    MOST_WRONG,
    THE_REST,
    MinuteCounts,
    log_wrong_keys,
)
from hotseat.settings import Access, ApiKey, Fleet, Role, Settings

if TYPE_CHECKING:
    import pytest
    from tests.relay.conftest import OpenRig

KEYS = Access(api_keys=(ApiKey("right", Role.ADMIN),))


def wrong(number: int, header: str = "Authorization: Bearer ") -> bytes:
    return get("/v1/models", f"{header}guess-{number}")


async def test_who_guesses_has_to_wait(open_rig: OpenRig, caplog: pytest.LogCaptureFixture) -> None:
    """After twenty wrong keys in a minute the next gets 429 and a closed connection; one log line counts them."""
    rig = await open_rig(access=KEYS)
    client = await rig.client()
    first = []
    for number in range(MOST_WRONG):
        await client.send(wrong(number))
        first.append((await client.message()).status)
    await client.send(wrong(99, "x-api-key: ") * 2)
    waits = await client.message()
    rest = await client.read_to_end()
    rig.relay.context.wrong_keys.counts.end_minute()
    again = await rig.refusal(wrong(7))

    assert set(first) == {401}
    assert (waits.status, waits["X-Error-Code"]) == (429, "too_many_wrong_keys")
    assert 1 <= int(waits["Retry-After"]) <= 60
    assert rest == b""
    assert caplog.text.count("invalid API keys were sent address=127.0.0.1 count=21 window_s=60") == 1
    assert again.status == 401
    assert "guess" not in caplog.text


async def test_a_foreign_host_is_no_way_to_guess(open_rig: OpenRig) -> None:
    """A wrong key under a foreign Host counts as a wrong key."""
    rig = await open_rig(access=KEYS)
    guess = wrong(1).replace(b"Host: box", b"Host: foreign.example")
    statuses = [(await rig.refusal(guess)).status for _ in range(MOST_WRONG + 2)]

    assert statuses == [403] * MOST_WRONG + [429] * 2


async def test_without_keys_of_ours_nothing_is_guessed(open_rig: OpenRig) -> None:
    """Without configured keys, credentials are not counted."""
    rig = await open_rig()
    guess = wrong(1).replace(b"Host: box", b"Host: foreign.example")

    assert {(await rig.refusal(guess)).status for _ in range(MOST_WRONG + 2)} == {403}


async def test_a_right_key_is_let_in_whoever_guesses_beside_it(open_rig: OpenRig) -> None:
    """A valid key works from an address that sent too many wrong ones."""
    rig = await open_rig(access=KEYS)
    for number in range(MOST_WRONG + 5):
        await rig.refusal(wrong(number))
    _, answered = await rig.exchange(chat("alpha", "Authorization: Bearer right"), HELLO)

    assert answered.status == 200


async def test_who_sends_no_key_guesses_none(open_rig: OpenRig) -> None:
    """A request without a key gets 401 and is not counted."""
    rig = await open_rig(access=KEYS)
    statuses = {(await rig.refusal(get("/v1/models"))).status for _ in range(MOST_WRONG + 5)}

    assert statuses == {401}


async def test_a_fleets_secret_is_not_to_be_guessed_either(open_rig: OpenRig, caplog: pytest.LogCaptureFixture) -> None:
    """An invalid proof is counted like a wrong key, and always gets 403 unproven."""
    fleet = Fleet(("nats://x",), HostName("here"), secrets=("between-us-hosts",))
    rig = await open_rig(settings=Settings(fleet=fleet, access=KEYS))
    request = get("/v1/models", "Hotseat-From: gpu1", "Hotseat-Proof: guess")
    refused = [await rig.refusal(request) for _ in range(MOST_WRONG + 2)]
    rig.relay.context.wrong_keys.counts.end_minute()

    assert {(answer.status, answer["hotseat-not-served"]) for answer in refused} == {(403, "unproven")}
    assert f"invalid API keys were sent address=127.0.0.1 count={MOST_WRONG + 2}" in caplog.text


async def test_too_low_a_role_is_no_guess(open_rig: OpenRig) -> None:
    """A valid key with too low a role gets 403 and is not counted."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("low", Role.INFERENCE),)))
    request = get("/hotseat/logs", "Authorization: Bearer low")

    assert {(await rig.refusal(request)).status for _ in range(MOST_WRONG + 5)} == {403}


async def test_addresses_are_counted_in_a_bounded_place(open_rig: OpenRig) -> None:
    """A thousand addresses are counted separately, and the rest together."""
    rig = await open_rig(access=KEYS)
    counted = [rig.relay.context.wrong_keys.counts.add(f"10.0.{number >> 8}.{number & 255}") for number in range(5000)]

    assert max(counted) == 5000 - MOST_ADDRESSES
    assert len(rig.relay.context.wrong_keys.counts._counts) == MOST_ADDRESSES + 1
    assert THE_REST in rig.relay.context.wrong_keys.counts._counts


def test_thousands_of_addresses_guess(caplog: pytest.LogCaptureFixture) -> None:
    """The log names those with the most wrong keys and counts the others together: a few lines in a minute."""
    counts = MinuteCounts(lambda: 0.0, lambda _, __: None, log_wrong_keys)
    for number in [7, 7, *range(5000)]:
        counts.add(f"10.0.{number >> 8}.{number & 255}")
    counts.end_minute()

    assert len(caplog.messages) == MOST_NAMED + 1
    assert "address=10.0.0.7 count=3" in caplog.messages[0]
    assert f"address={THE_REST} count={5002 - 3 - (MOST_NAMED - 1)}" in caplog.messages[-1]
