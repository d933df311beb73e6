"""What a proxy must not do: follow redirects, share cookies, or let clients create names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.relay_rig import chat, get

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig

REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n"
COOKIE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nSet-Cookie: session=first\r\nContent-Length: 5\r\n\r\nhello"


async def test_a_redirect_is_passed_on_and_not_followed(rig: RelayRig) -> None:
    """A redirect reaches the client, and hotseat does not follow it."""
    _, answered = await rig.exchange(get("/upstream/alpha/x"), REDIRECT)

    assert (answered.status, answered["Location"]) == (302, "http://169.254.169.254/latest")
    assert len(rig.alpha.lines) == 1


async def test_a_cookie_of_one_client_is_not_anothers(rig: RelayRig) -> None:
    """A cookie set for one client is not sent with another client's request."""
    _, first = await rig.exchange(chat(), COOKIE)
    asked, _ = await rig.exchange(chat(), COOKIE)

    assert first["Set-Cookie"] == "session=first"
    assert "cookie" not in asked.names


async def test_invented_models_leave_no_trace(rig: RelayRig) -> None:
    """Requests for a thousand unknown names create no metrics and start nothing."""
    client = await rig.client()
    for n in range(1000):
        await client.send(chat(f"invented-{n}"))
        assert (await client.message()).status == 404

    assert rig.activity.entries == []
    assert not rig.dispatcher.views.current().running()
