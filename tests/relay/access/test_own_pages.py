"""A model server's own Host, LABEL.localhost: every path is the server's, nothing is hotseat's."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.relay.access.test_every_route import METHODS, OF_MODELS, said
from tests.relay.exchange.test_websockets import echo_server_for
from tests.support.fake_launcher import catalog, spec
from tests.support.relay_rig import HELLO, MODELS
from tests.support.routes import own_routes
from tests.support.transport import DEADLINE_S
from websockets.asyncio.client import connect
from websockets.typing import Origin

from hotseat.errors import HotseatError
from hotseat.relay.access.policy import Policy
from hotseat.relay.downstream.admission import NotAdmitted, admit
from hotseat.relay.http.request_head import RequestHead
from hotseat.relay.routing.model_name import MODEL_IN_URL
from hotseat.settings import Access, ApiKey, Role, Settings, TlsFiles

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

HOST = "Host: alpha.localhost:8080"
OWN_PAGE = (HOST, "Origin: http://alpha.localhost:8080", "Sec-Fetch-Site: same-origin")
TYPED = ("Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Accept: text/html")
FROM_DASHBOARD = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Referer: http://127.0.0.1:8080/")
DONE = b"HTTP/1.1 204 No Content\r\n\r\n"
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"
KEYS = Access(
    api_keys=(ApiKey("uses-models"), ApiKey("uses-beta", models=("beta",)), ApiKey("operates", Role.OPERATE)),
)


async def test_every_path_is_the_servers(rig: RelayRig) -> None:
    """With every method and every path of hotseat's API, the model server gets the target unchanged."""
    reached = []
    asked = [(method, path) for path in ("/", *own_routes(), *OF_MODELS) for method in METHODS]
    for method, path in asked:
        request, _ = await rig.exchange(said(method, path, HOST), DONE)
        reached.append(tuple(request.first_line.split(" ")[:2]))

    assert reached == asked
    assert rig.management.lines == []
    assert rig.upstreams["beta"].lines == []


@pytest.mark.parametrize("host", ["ALPHA.localhost", "alpha.localhost.", "alpha.LocalHost.:8080", "alpha.localhost:1"])
async def test_a_name_in_any_spelling_is_the_servers(rig: RelayRig, host: str) -> None:
    """Case, a final dot and the port do not matter."""
    request, _ = await rig.exchange(said("GET", "/health", f"Host: {host}"))

    assert request.first_line == "GET /health HTTP/1.1"


@pytest.mark.parametrize("host", ["alpah.localhost:8080", "a.alpha.localhost", "alpha.alpha.localhost"])
@pytest.mark.parametrize("fields", [TYPED, ("Sec-Fetch-Site: same-origin",), ("Origin: http://{host}",)])
async def test_a_browser_finds_nothing_at_an_unknown_label(rig: RelayRig, host: str, fields: tuple[str, ...]) -> None:
    """A page of a removed model's server may still be open there: it must not become one of hotseat's own."""
    for path in ("/", "/hotseat/config", "/hotseat/ui/", "/v1/models", "/health"):
        lines = (each.format(host=host) for each in fields)
        answer = await rig.refusal(said("GET", path, f"Host: {host}", *lines))

        assert answer.status == 404
        assert "no model has its pages at" in answer["X-Error-Message"]
    assert rig.management.lines == []


async def test_the_nearest_label_is_named(rig: RelayRig) -> None:
    """The error names it."""
    answer = await rig.refusal(said("GET", "/", "Host: alpah.localhost", *TYPED))

    assert 'Did you mean "alpha"?' in answer["X-Error-Message"]


@pytest.mark.parametrize("host", ["models.localhost", "hotseat.localhost:8080"])
async def test_a_program_may_call_hotseat_by_a_name_that_is_no_models(rig: RelayRig, host: str) -> None:
    """Containers and proxies have such names for hotseat; a request without a browser's fields reaches it."""
    client = await rig.send(said("GET", "/health", f"Host: {host}"))
    await (await rig.management.call()).say(HELLO)

    assert (await client.message()).body == b"hello"


async def test_a_configured_name_under_localhost_is_hotseats_own(open_rig: OpenRig) -> None:
    """A name in allowedHosts is hotseat's, also for its pages, and also if a model has this label."""
    rig = await open_rig(access=Access(allowed_hosts=("alpha.localhost",)))
    client = await rig.send(said("GET", "/hotseat/config", *OWN_PAGE))
    await (await rig.management.call()).say(HELLO)

    assert (await client.message()).body == b"hello"
    assert rig.alpha.lines == []


async def test_a_star_in_allowed_hosts_does_not_make_it_hotseats(open_rig: OpenRig) -> None:
    """Neither `*` nor a whole domain takes the name from the model server."""
    rig = await open_rig(access=Access(allowed_hosts=("*", ".localhost", "*.localhost")))
    request, _ = await rig.exchange(said("GET", "/hotseat/config", *OWN_PAGE))

    assert request.first_line == "GET /hotseat/config HTTP/1.1"
    assert rig.management.lines == []


# Its own pages


async def test_a_page_uses_its_own_server(rig: RelayRig) -> None:
    """The server gets its own address as Host and as Origin: some compare them."""
    for _ in range(2):
        fields = (*OWN_PAGE, "Content-Type: application/json", "Content-Length: 2")
        request, answer = await rig.exchange(said("POST", "/v1/chat/completions", *fields) + b"{}")

        assert answer.body == b"hello"
        assert request["host"] == rig.alpha.address.authority
        assert request.all("origin") == [f"http://{rig.alpha.address.authority}"]
        assert "sec-fetch-site" not in request.names
        assert request["x-forwarded-host"] == "alpha.localhost:8080"


async def test_a_body_that_names_another_model_stays_here(rig: RelayRig) -> None:
    """The Host decides: a page cannot reach another model by its name in a body or a query."""
    body = b'{"model":"beta"}'
    fields = (*OWN_PAGE, "Content-Type: application/json", f"Content-Length: {len(body)}")
    request, _ = await rig.exchange(said("POST", "/v1/chat/completions?model=beta", *fields) + body)

    assert request.first_line == "POST /v1/chat/completions?model=beta HTTP/1.1"
    assert rig.upstreams["beta"].lines == []


async def test_its_pages_are_not_sandboxed(rig: RelayRig) -> None:
    """They have an origin of their own. The same head is still sandboxed under hotseat's address, cached or not."""
    for _ in range(3):
        _, here = await rig.exchange(said("GET", "/", HOST), PAGE)
        _, there = await rig.exchange(said("GET", "/upstream/alpha/", "Host: box"), PAGE)

        assert here.all("Content-Security-Policy") == []
        assert len(there.all("Content-Security-Policy")) == 1


async def test_a_websocket_of_a_page(rig: RelayRig) -> None:
    """A page opens a websocket to its own server, with an Origin that the server takes for its own."""
    here: dict[str, Any] = {"host": "127.0.0.1", "port": rig.port, "open_timeout": DEADLINE_S}
    async with echo_server_for(rig) as echo:
        origin = Origin("http://alpha.localhost:8080")
        async with connect("ws://alpha.localhost:8080/echo", origin=origin, **here) as client:
            await client.send("hello")
            assert await client.recv() == "hello"
        request = echo.connections[0].request

    assert request is not None
    assert request.headers["Origin"] == f"http://{rig.launcher.addresses['alpha'].authority}"


# Who else may use it


@pytest.mark.parametrize(
    "fields",
    [
        TYPED,
        FROM_DASHBOARD,
        (*FROM_DASHBOARD[:2], "Referer: http://localhost:8080/hotseat/ui/"),
        (*FROM_DASHBOARD[:2], "Referer: HTTP://[::1]:8080"),
        ("User-Agent: curl",),
    ],
)
async def test_a_person_opens_the_page(rig: RelayRig, fields: tuple[str, ...]) -> None:
    """Typed, or by a link on hotseat's own page; this starts the model."""
    _, answer = await rig.exchange(said("GET", "/?q=1", HOST, *fields), PAGE)

    assert answer.body == b"hello"


@pytest.mark.parametrize("path", ["/", "/hotseat/ui/", "/swagger", "/v1/models"])
@pytest.mark.parametrize(
    "referer",
    [
        "",
        "https://evil.example/",
        "http://beta.localhost:8080/",
        "http://alpha.localhost:8080/",
        "http://localhost:3000/",
        "http://localhost/",
        "http://localhost:8080@evil.example/",
        "http://localhost:8080.evil.example/",
        "http://192.168.1.5:8080/",
        "ftp://localhost:8080/",
        "localhost:8080",
    ],
)
async def test_a_link_on_another_site_opens_nothing(rig: RelayRig, path: str, referer: str) -> None:
    """It gets 403 and starts no model, whatever the path is at hotseat's own Host."""
    answer = await rig.refusal(said("GET", path, HOST, *FROM_DASHBOARD[:2], f"Referer: {referer}"))

    assert answer.status == 403
    assert not rig.dispatcher.views.current().running()


@pytest.mark.parametrize("line", ["POST", "no-cors"])
async def test_only_a_link_counts_as_one(rig: RelayRig, line: str) -> None:
    """A form or a subresource with hotseat's own Referer gets 403."""
    mode = "navigate" if line == "POST" else line
    fields = ("Sec-Fetch-Site: cross-site", f"Sec-Fetch-Mode: {mode}", FROM_DASHBOARD[2])

    assert (await rig.refusal(said("POST" if line == "POST" else "GET", "/", HOST, *fields))).status == 403


@pytest.mark.parametrize("allowed", [(), ("*",), ("null", "https://chat.example", "http://beta.localhost:8080")])
async def test_pages_of_other_origins_may_not_use_it(open_rig: OpenRig, allowed: tuple[str, ...]) -> None:
    """Not even those in allowedOrigins, which are allowed at hotseat's own Host; none of them gets CORS headers."""
    rig = await open_rig(access=Access(allowed_origins=allowed))
    for origin in ("http://beta.localhost:8080", "http://localhost:8080", "https://chat.example", "null", "app://x"):
        for more in ((), ("Access-Control-Request-Method: POST",)):
            method = "OPTIONS" if more else "POST"
            answer = await rig.refusal(said(method, "/v1/chat/completions", HOST, f"Origin: {origin}", *more))

            assert answer.status == 403
            assert "access-control-allow-origin" not in answer.names
    assert rig.alpha.lines == []


async def test_an_icon_starts_no_model(rig: RelayRig) -> None:
    """Paths in upstream.ignorePaths do not start a model here either; the page itself does."""
    answer = await rig.refusal(said("GET", "/favicon.ico", *OWN_PAGE))
    before = rig.dispatcher.views.current().running()
    await rig.exchange(said("GET", "/", *OWN_PAGE))
    request, _ = await rig.exchange(said("GET", "/favicon.ico", *OWN_PAGE))

    assert (answer.status, before) == (409, ())
    assert request.first_line == "GET /favicon.ico HTTP/1.1"


# Keys


@pytest.mark.parametrize(
    ("method", "path", "key", "status"),
    [
        ("GET", "/health", "", 401),
        ("GET", "/hotseat/ready", "", 401),
        ("GET", "/", "", 401),
        ("GET", "/", "uses-models", 403),
        ("GET", "/hotseat/config", "uses-models", 403),
        ("GET", "/metrics", "uses-models", 403),
        ("GET", "/metrics/upstreams", "uses-models", 403),
        ("POST", "/slots/0", "uses-models", 403),
        ("GET", "/health", "uses-beta", 403),
        ("POST", "/v1/chat/completions", "uses-beta", 403),
        ("GET", "/health", "uses-models", 200),
        ("POST", "/v1/chat/completions", "uses-models", 200),
        ("GET", "/", "operates", 200),
        ("POST", "/hotseat/reload", "operates", 200),
    ],
)
async def test_what_is_forwarded_decides_about_keys(
    open_rig: OpenRig, method: str, path: str, key: str, status: int
) -> None:
    """A key is needed for every path, with the role of that path at the server, and it does not reach the server."""
    rig = await open_rig(access=KEYS)
    request = said(method, path, HOST, *((f"Authorization: Bearer {key}",) if key else ()))
    if status != 200:
        assert (await rig.refusal(request)).status == status
        assert rig.alpha.lines == []
        return
    received, answer = await rig.exchange(request)

    assert answer.status == 200
    assert "authorization" not in received.names


async def test_the_audit_log_names_the_host(rig: RelayRig, caplog: pytest.LogCaptureFixture) -> None:
    """Without it, one could not tell which server an action was for."""
    with caplog.at_level(logging.INFO, "hotseat.audit"):
        await rig.exchange(said("POST", "/slots/0?x=1", *OWN_PAGE))

    assert 'action="POST alpha.localhost/slots/0"' in caplog.text


# The way there


@pytest.mark.parametrize(
    ("host", "target", "location"),
    [
        ("localhost:8080", "/upstream/alpha/", "//alpha.localhost:8080/"),
        ("127.0.0.1:8080", "/upstream/alpha", "//alpha.localhost:8080/"),
        ("[::1]:8080", "/upstream/alpha/a%2Fb?q=1&r", "//alpha.localhost:8080/a%2Fb?q=1&r"),
        ("localhost", "/upstream/al/", "//alpha.localhost/"),
        ("localhost:8080", "/upstream/alpha?q", "//alpha.localhost:8080/?q"),
        ("localhost:8080", "/upstream/alpha//evil.example/", "//alpha.localhost:8080//evil.example/"),
        ("localhost:8080", "/upstream/Org/B.1/x", "//org-b-1.localhost:8080/x"),
    ],
)
async def test_a_page_under_our_address_moves_to_its_own(
    open_rig: OpenRig, host: str, target: str, location: str
) -> None:
    """A navigation under /upstream/ is redirected, with its path and query, and starts nothing."""
    rig = await open_rig(models=(spec("alpha", aliases=("al",)), spec("Org/B.1")))
    for fields in (TYPED, (*TYPED[1:], "Sec-Fetch-Site: same-origin"), ("Accept: text/html,*/*",)):
        answer = await rig.refusal(said("GET", target, f"Host: {host}", *fields))

        assert (answer.status, answer["Location"]) == (307, location)
    assert not rig.dispatcher.views.current().running()


@pytest.mark.parametrize("host", ["box:8080", "192.168.1.5:8080", "127.0.0.2:8080", "box.local"])
async def test_elsewhere_a_page_stays_and_is_sandboxed(rig: RelayRig, host: str) -> None:
    """Where LABEL.localhost would be another machine, nothing is redirected."""
    request, answer = await rig.exchange(said("GET", "/upstream/alpha/", f"Host: {host}", *TYPED), PAGE)

    assert request.first_line == "GET / HTTP/1.1"
    assert answer.all("Content-Security-Policy") != []


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("GET", ("Sec-Fetch-Mode: cors", "Accept: text/html")),
        ("GET", ("Accept: */*",)),
        ("HEAD", TYPED),
        ("POST", TYPED),
    ],
)
async def test_only_a_navigation_is_redirected(rig: RelayRig, method: str, fields: tuple[str, ...]) -> None:
    """Programs and scripts get what they ask for at the address that they ask."""
    request, _ = await rig.exchange(said(method, "/upstream/alpha/", "Host: localhost:8080", *fields), DONE)

    assert request.first_line == f"{method} / HTTP/1.1"


@pytest.mark.parametrize(
    "settings",
    [
        Settings(access=Access(api_keys=(ApiKey("operates", Role.OPERATE),))),
        Settings(trust_pages=True),
        Settings(tls=TlsFiles(Path("cert.pem"))),
    ],
)
async def test_some_settings_leave_pages_under_our_address(open_rig: OpenRig, settings: Settings) -> None:
    """A browser would have to be given the key again, a trusted page may stay, and no certificate covers the name."""
    rig = await open_rig(settings=settings)
    fields = ("Host: localhost:8080", *TYPED, "Authorization: Bearer operates")
    request, _ = await rig.exchange(said("GET", "/upstream/alpha/", *fields), PAGE)

    assert request.first_line == "GET / HTTP/1.1"


# All of it

HOSTS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["alpha", "ALPHA", "beta", "nope", "a.alpha", "alpha.", "localhost", "-", "xn--a"])
    | st.text("abc.-_:@%[]", min_size=1, max_size=6),
    st.sampled_from([".localhost", ".LOCALHOST", ".localhost."]),
    st.sampled_from(["", ":8080", ":80", ":x"]),
)
TARGETS = st.sampled_from(["/", *own_routes(), *OF_MODELS, "*", "//x", "/..", "http://localhost/hotseat/config"])
VALUES: dict[str, st.SearchStrategy[str]] = {
    "origin": st.sampled_from(["http://alpha.localhost:8080", "http://localhost:8080", "null", "https://evil.example"]),
    "sec-fetch-site": st.sampled_from(["none", "same-origin", "same-site", "cross-site"]),
    "sec-fetch-mode": st.sampled_from(["navigate", "cors", "no-cors", "websocket"]),
    "referer": st.sampled_from(["http://localhost:8080/", "http://alpha.localhost:8080/x"]),
    "accept": st.just("text/html"),
    "access-control-request-method": st.sampled_from(METHODS),
}
POLICIES = [Policy(Settings()), Policy(Settings(access=Access(allowed_hosts=("*",), allowed_origins=("*",))))]
CATALOG = catalog(*MODELS)


@given(
    HOSTS,
    st.sampled_from(METHODS),
    TARGETS,
    st.fixed_dictionaries({}, optional=VALUES),
    st.sampled_from(POLICIES),
)
def test_no_page_there_reaches_hotseat(
    host: str, method: str, target: str, fields: dict[str, str], policy: Policy
) -> None:
    """Whatever a browser sends to a name under .localhost is refused, or goes to the server with this label."""
    fields = {"sec-fetch-site": "same-origin", **fields}
    known = {name.encode(): value.encode() for name, value in {"host": host, **fields}.items()}
    head = RequestHead(method.encode(), target.encode(), False, list(known.items()), known, None, False)
    try:
        admission = admit(head, policy, CATALOG)
    except NotAdmitted as answer:  # the browser's preflights of its own pages need no answer of ours
        raise AssertionError(answer.outcome) from answer
    except HotseatError:
        return

    destination = admission.destination
    assert (destination.kind, destination.target) == (MODEL_IN_URL, target.encode())
    assert destination.named_model is not None
    assert host.lower().partition(".")[0] == destination.named_model.name


def test_a_page_there_is_nobodys_at_our_own_host() -> None:
    """Its origin is neither loopback nor trusted at any name of hotseat, with any port."""
    policy = POLICIES[0]
    for host in ("localhost:8080", "127.0.0.1:8080", "[::1]:8080", "box", "hotseat.internal"):
        for origin in ("http://alpha.localhost:8080", "http://alpha.localhost", "http://alpha.localhost.:8080"):
            for target in ("/v1/chat/completions", "/v1/models", "/hotseat/config", "/upstream/alpha/", "/health"):
                known = {b"host": host.encode(), b"origin": origin.encode()}
                head = RequestHead(b"POST", target.encode(), False, [], known, None, False)

                assert is_refused(head, policy)


def is_refused(head: RequestHead, policy: Policy) -> bool:
    try:
        admit(head, policy, CATALOG)
    except HotseatError as error:
        return error.status == 403
    return False
