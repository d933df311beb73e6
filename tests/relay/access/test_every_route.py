"""Every route, with every method, refuses foreign pages before the request has an effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.routes import own_routes

from hotseat.relay.access.origin import STATIC_PAGES

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig

pytestmark = [pytest.mark.uncounted, pytest.mark.one_loop]

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")
OF_MODELS = (
    "/v1/chat/completions",
    "/v1/embeddings",
    "/completion",
    "/slots",
    "/props?model=alpha",
    "/upstream/alpha/",
    "/upstream/alpha/v1/chat/completions",
    "/",
    "/ui",
    "/anything",
)
LISTS = ("/api/version", "/api/tags", "/api/ps", "/models", "/models/sse", "/props", "/ui", "/ui/alpha", "/upstream")
OLLAMAS = ("show", "chat", "generate", "pull", "create", "copy", "push", "blobs/alpha")
FOR_INFERENCE = {
    *((method, path) for path in LISTS for method in ("GET", "HEAD")),
    *(("POST", f"/api/{name}") for name in OLLAMAS),
    # Refused to all, with what to do instead.
    ("HEAD", "/api/blobs/alpha"),
    ("DELETE", "/api/delete"),
}
UNTRUSTED = {
    "a foreign name": ("Host: evil.example",),
    "a name that was made to point here": ("Host: rebound.example:8080", "Origin: http://rebound.example:8080"),
    "the address that browsers let through": ("Host: 0.0.0.0:8080",),
    "a page of another site": ("Host: box", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"),
    "a page of another port": ("Host: box:8080", "Origin: http://box:9090", "Sec-Fetch-Site: same-site"),
    "a page without an origin": ("Host: box", "Origin: null", "Sec-Fetch-Site: cross-site"),
    "a tag of another site": ("Host: box", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"),
    "a frame of another site": ("Host: box", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"),
    "a page of a model server's own name": ("Host: localhost:8080", "Origin: http://alpha.localhost:8080"),
    "a page of a server at that name": ("Host: alpha.localhost:8080", "Origin: http://alpha.localhost:3000"),
    "a page of another model server": ("Host: alpha.localhost:8080", "Origin: http://beta.localhost:8080"),
    "a script of ours at a model server": ("Host: alpha.localhost:8080", "Origin: http://localhost:8080"),
    "a link to a model server": ("Host: alpha.localhost", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"),
    "a tag at a model server": ("Host: alpha.localhost", "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors"),
    "a preflight": ("Host: box", "Origin: https://evil.example", "Access-Control-Request-Method: DELETE"),
}


def said(method: str, path: str, *fields: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode()


def is_static_page(path: str) -> bool:
    return path == "/swagger" or path.startswith(tuple(page.decode() for page in STATIC_PAGES))


async def test_there_are_routes_to_try() -> None:
    """The tests below find more than 25 routes."""
    routes = own_routes()

    assert {"/health", "/metrics", "/upstream/alpha/load", "/upstream/alpha", "/hotseat/reload"} <= set(routes)
    assert len(routes) > 25


@pytest.mark.parametrize("caller", UNTRUSTED)
async def test_every_route_refuses_untrusted_callers(rig: RelayRig, caller: str) -> None:
    """Each request of an untrusted caller gets 403 without CORS headers, and reaches no server."""
    let_in = []
    client = await rig.client()
    for path in (*own_routes(), *OF_MODELS):
        for method in METHODS:
            if caller == "a frame of another site" and is_static_page(path) and method in ("GET", "HEAD"):
                continue  # a link may open what is only read; what it holds is shown to nobody else
            await client.send(said(method, path, *UNTRUSTED[caller]))
            answer = await client.message(to=method)
            if answer.status != 403 or "access-control-allow-origin" in answer.names:
                let_in.append((method, path, answer.status))

    assert let_in == []
    assert rig.management.lines == []
    assert all(upstream.lines == [] for upstream in rig.upstreams.values())
    assert not rig.dispatcher.views.current().running()


@pytest.mark.parametrize("origin", ["http://localhost:3000", "app://obsidian.md"])
async def test_pages_of_this_machine_reach_no_route_of_our_own(rig: RelayRig, origin: str) -> None:
    """Except for inference, every request and preflight from a page of this machine gets 403."""
    let_in = []
    client = await rig.client()
    for path in own_routes():
        for method in METHODS:
            if path.startswith("/v1/") and method in ("GET", "HEAD", "POST"):
                continue
            if (method, path) in FOR_INFERENCE:
                continue
            for fields in ((), (f"Access-Control-Request-Method: {method}",)):
                verb = "OPTIONS" if fields else method
                await client.send(said(verb, path, "Host: localhost:8080", f"Origin: {origin}", *fields))
                answer = await client.message(to=verb)
                if answer.status != 403 or "access-control-allow-origin" in answer.names:
                    let_in.append((verb, path, answer.status))

    assert let_in == []
    assert rig.management.lines == []


@pytest.mark.parametrize("caller", UNTRUSTED)
async def test_no_untrusted_caller_opens_a_websocket(rig: RelayRig, caller: str) -> None:
    """A websocket handshake of an untrusted caller gets 403 and does not reach the model server."""
    fields = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13")

    assert (await rig.refusal(said("GET", "/upstream/alpha/ws", *UNTRUSTED[caller], *fields))).status == 403
    assert rig.alpha.lines == []
