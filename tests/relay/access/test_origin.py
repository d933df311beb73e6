"""Which requests are admitted by Host and Origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.relay_rig import post

from hotseat.errors import ClientError, Forbidden
from hotseat.relay.access.authority import reduce_absolute
from hotseat.relay.access.origin import MOST_REMEMBERED, OriginCheck
from hotseat.relay.access.page_rights import PageRights
from hotseat.relay.http.request_head import RequestHead
from hotseat.settings import Access

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig

THIS_HOST = "127.0.0.1:8080"
OWN = ("127.0.0.1", 8080)


def gate_for(
    access: Access | None = None, listen: tuple[str, int] = OWN, own_names: tuple[str, ...] = ()
) -> OriginCheck:
    access = access or Access()
    return OriginCheck(access, PageRights(access.allowed_origins), (listen[0], *own_names))


PLAIN = gate_for()
FRIENDLY = gate_for(
    Access(
        allowed_hosts=("models.example", ".team.example", "*.sub.example", "Ported.Example:8443", "[fd00::1]:8080"),
        allowed_origins=("https://chat.example", "HTTP://Upper.Example:3000/", "any-scheme.example"),
    ),
    ("box.lan", 8080),
    ("workshop.example", "workshop"),
)
OPEN = gate_for(Access(allowed_hosts=("*",), allowed_origins=("*",)))


def ask(
    gate: OriginCheck,
    method: str = "POST",
    path: str = "/v1/chat/completions",
    host: str = THIS_HOST,
    origin: str | None = None,
    site: str | None = None,
    mode: str | None = None,
    content_type: str | None = None,
    *,
    announced: str | None = None,
    has_key: bool = False,
) -> None:
    names = ("origin", "sec-fetch-site", "sec-fetch-mode", "content-type", "access-control-request-method")
    said = dict(zip(names, (origin, site, mode, content_type, announced), strict=True))
    known = {name.encode(): value.encode() for name, value in said.items() if value is not None}
    head = RequestHead(method.encode(), path.encode(), False, [], known, None, False)
    for _ in range(2):  # the second time it may be remembered
        gate.check(head, host.encode("latin-1"), lambda: has_key)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8080",
        "192.168.1.20:8080",
        "[::1]",
        "[::1]:8080",
        "[fe80::1]:65535",
        "[::ffff:127.0.0.1]",
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "hotseat",
        "hotseat_1:8080",
        "my-box",
        "chat.localhost",
        "a.b.localhost:8080",
        "box.local",
        "BOX.local.:8080",
        "host.docker.internal",
        "host.containers.internal:8080",
    ],
)
def test_names_that_cannot_be_foreign_are_served(host: str) -> None:
    """Addresses, names without a dot and names under reserved domains are accepted as Host."""
    ask(PLAIN, host=host)


@pytest.mark.parametrize(
    "host",
    [
        "models.example",
        "MODELS.example:443",
        "models.example.",
        "team.example",
        "a.team.example",
        "b.a.team.example:1",
        "x.sub.example",
        "ported.example",
        "[fd00::1]",
        "box.lan",
        "BOX.lan:8080",
        "workshop.example:8080",
    ],
)
def test_configured_names_are_served(host: str) -> None:
    """Names in allowedHosts, the listen address and the machine's names are accepted, in any case, with any port."""
    ask(FRIENDLY, host=host)


@pytest.mark.parametrize("gate", [PLAIN, FRIENDLY])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "notlocalhost.",
        "ai.",
        "sub.example",
        "evilteam.example",
        "models.example.evil",
        "0.0.0.0",
        "0.0.0.0:8080",
        "0.0.0.0.",
        "[::]",
        "[::]:8080",
        "[0:0::0]",
        "[::ffff:0.0.0.0]",
        "a..b",
        "evil.workshop.example",
        "box.local.evil.example",
        "evillocal.",
        "x.internal.evil",
    ],
)
def test_foreign_names_are_refused(gate: OriginCheck, host: str) -> None:
    """The 403 names the configuration key that would allow the name."""
    with pytest.raises(Forbidden, match="allowedHosts"):
        ask(gate, host=host)


@pytest.mark.parametrize("listen", ["0.0.0.0", "::", ""])
def test_listening_everywhere_does_not_make_it_a_name(listen: str) -> None:
    """0.0.0.0 and [::] are refused as Host even if hotseat listens on them."""
    gate = gate_for(listen=(listen, 8080))

    for host in ("0.0.0.0:8080", "[::]:8080"):
        with pytest.raises(Forbidden):
            ask(gate, host=host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        " ",
        "x/?",
        "x/",
        "x?y",
        "x#y",
        "u@x",
        "x\\y",
        "x%20y",
        "x y",
        "x\ty",
        "x,y",
        "x:",
        "x:http",
        "x:65536",
        "x:99999",
        "x:123456",
        "x:-1",
        "x:80:80",
        ":8080",
        "[::1",
        "::1",
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]:80",
        "[::1]x",
        "[zz::1]",
        "[1:2]",
        "[.....]",
        "256.1.1.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "0",
        "1.2.3.4.5",
        "x.0x1",
        "m\xfcller",
        "x\x00",
        "localhost\n",
        "a" * 300,
    ],
)
def test_a_host_that_is_no_host_is_400(host: str) -> None:
    """A Host that two parsers could read differently gets 400."""
    with pytest.raises(ClientError) as refusal:
        ask(FRIENDLY, host=host)

    assert refusal.value.status == 400


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (THIS_HOST, "http://127.0.0.1:8080"),
        ("localhost:8080", "http://localhost:8080"),
        ("LocalHost:8080", "http://localhost:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("localhost", "http://localhost"),
        ("localhost", "http://localhost:80"),
        ("localhost:443", "https://localhost"),
        ("localhost", "https://localhost"),
        ("models.example", "https://models.example"),
        (THIS_HOST, "https://chat.example"),
        (THIS_HOST, "HTTPS://Chat.Example"),
        (THIS_HOST, "http://upper.example:3000"),
        (THIS_HOST, "http://any-scheme.example"),
        (THIS_HOST, "https://any-scheme.example"),
        (THIS_HOST, "http://localhost:8080"),
        (THIS_HOST, "http://[::1]:8080"),
        ("localhost:8080", "http://127.0.0.1:8080"),
        ("[::1]:9999", "http://localhost:9999"),
        ("localhost", "http://127.0.0.1"),
    ],
)
@pytest.mark.parametrize("site", [None, "same-origin", "same-site", "cross-site"])
def test_our_own_and_allowed_pages_are_served(host: str, origin: str, site: str | None) -> None:
    """hotseat's own origin and allowedOrigins may use every path; the names of the loopback are one origin."""
    for method, path in (("POST", "/v1/chat/completions"), ("DELETE", "/upstream/m"), ("GET", "/hotseat/config")):
        ask(FRIENDLY, method, path, host, origin, site, "cors", "application/json")


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (THIS_HOST, "https://evil.example"),
        (THIS_HOST, "null"),
        (THIS_HOST, ""),
        (THIS_HOST, "http://chat.localhost:8080"),
        ("localhost:8080", "http://chat.localhost:8080"),
        (THIS_HOST, "http://0.0.0.0:8080"),
        (THIS_HOST, "http://[::]:8080"),
        (THIS_HOST, "http://localhost.:8080"),
        (THIS_HOST, "http://localhost.evil.example:8080"),
        (THIS_HOST, "http://box.local:8080"),
        (THIS_HOST, "ftp://127.0.0.1:8080"),
        (THIS_HOST, "ws://localhost"),
        (THIS_HOST, "application://x"),
        (THIS_HOST, "file"),
        (THIS_HOST, "http://127.0.0.1:8080.evil.example"),
        (THIS_HOST, "http://user@127.0.0.1:8080"),
        (THIS_HOST, "http://127.0.0.1:8080/"),
        (THIS_HOST, "127.0.0.1:8080"),
        (THIS_HOST, "chrome-extension://abcdef"),
        (THIS_HOST, "http://chat.example"),
        (THIS_HOST, "https://chat.example.evil"),
    ],
)
@pytest.mark.parametrize("site", [None, "none", "same-origin", "cross-site"])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/chat/completions"), ("GET", "/swagger"), ("DELETE", "/upstream/m")]
)
def test_foreign_pages_are_refused(host: str, origin: str, site: str | None, method: str, path: str) -> None:
    """A foreign origin gets 403 for every method and path; the error names allowedOrigins."""
    with pytest.raises(Forbidden, match="allowedOrigins"):
        ask(FRIENDLY, method, path, host, origin, site, "navigate")


# Origins that may ask models and nothing else

LOCAL_PAGES = [
    "http://localhost:3000",
    "http://127.0.0.1",
    "http://127.0.0.2:8080",
    "https://[::1]:8443",
    "app://obsidian.md",
    "file://",
    "tauri://localhost",
    "vscode-webview://1a2b3c",
]
ASKING = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/messages?beta=true"),
    ("POST", "/completion"),
    ("POST", "/upstream/org/m/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/m"),
]
MANAGING = [
    ("GET", "/hotseat/config"),
    ("GET", "/health"),
    ("GET", "/running"),
    ("GET", "/metrics"),
    ("GET", "/metrics/upstreams"),
    ("GET", "/"),
    ("GET", "/slots"),
    ("POST", "/slots/1?action=erase"),
    ("POST", "/lora-adapters"),
    ("GET", "/upstream/m/load"),
    ("GET", "/upstream/m/"),
    ("DELETE", "/upstream/m"),
    ("DELETE", "/v1/models/m"),
    ("POST", "/v1/anything"),
    ("POST", "/hotseat/reload"),
    ("POST", "/hotseat/v1/chat/completions"),
    ("POST", "/upstream/m/hotseat/yield"),
]


@pytest.mark.parametrize("origin", LOCAL_PAGES)
@pytest.mark.parametrize(("method", "path"), ASKING)
def test_pages_of_this_machine_may_ask_models(origin: str, method: str, path: str) -> None:
    """Pages of loopback servers and desktop programs may send inference requests and their preflights."""
    for host in (THIS_HOST, "localhost:8080", "192.168.1.20:8080"):
        ask(PLAIN, method, path, host, origin, "cross-site", "cors", "application/json")
        ask(PLAIN, "OPTIONS", path, host, origin, "cross-site", "cors", announced=method)


@pytest.mark.parametrize("origin", LOCAL_PAGES)
@pytest.mark.parametrize(("method", "path"), MANAGING)
def test_pages_of_this_machine_may_manage_nothing(origin: str, method: str, path: str) -> None:
    """Pages of this machine get 403 for management requests and preflights, also after an accepted request."""
    gate = gate_for()
    ask(gate, origin=origin, content_type="application/json")

    for asked, announced in ((method, None), ("OPTIONS", method), ("OPTIONS", None)):
        with pytest.raises(Forbidden, match=r"may only use models, not manage them.* allowedOrigins"):
            ask(gate, asked, path, origin=origin, announced=announced)


def test_an_origin_that_is_named_may_do_everything() -> None:
    """A local page that is in allowedOrigins may also manage models."""
    gate = gate_for(Access(allowed_origins=("http://localhost:3000", "app://obsidian.md")))

    for origin in ("http://localhost:3000", "app://obsidian.md"):
        ask(gate, "DELETE", "/upstream/m", origin=origin)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://chat.localhost:8080", "null", "chrome-extension://x"]
)
def test_a_star_lets_every_origin_ask_models(origin: str) -> None:
    """With allowedOrigins `*`, every origin may use models but not manage them."""
    for method, path in ASKING:
        ask(OPEN, method, path, origin=origin, content_type="application/json")
    for method, path in MANAGING:
        with pytest.raises(Forbidden, match="may only use models"):
            ask(OPEN, method, path, origin=origin)


def test_an_origin_of_sandboxed_pages_may_never_manage() -> None:
    """The origin `null` in allowedOrigins may use models only, because sandboxed pages have it."""
    gate = gate_for(Access(allowed_origins=("null",)))
    ask(gate, origin="null", content_type="application/json")

    with pytest.raises(Forbidden, match="may only use models"):
        ask(gate, "GET", "/hotseat/config", origin="null")


def test_a_star_accepts_every_host() -> None:
    """With allowedHosts `*`, every valid name is accepted; an invalid one is still refused."""
    for host in ("evil.example", "models.example.com:443", "0.0.0.0"):
        ask(OPEN, "GET", "/health", host)

    with pytest.raises(ClientError, match="must be a name"):
        ask(OPEN, "GET", "/health", "x/y")


def test_with_a_key_any_host_may_be_used() -> None:
    """With a valid key any Host is accepted, but not for later requests without a key or foreign origins."""
    gate = gate_for()
    ask(gate, host="models.example.com", has_key=True)
    ask(gate, host="models.example.com", origin="https://models.example.com", has_key=True)

    for origin in (None, "https://models.example.com"):
        with pytest.raises(Forbidden, match="allowedHosts"):
            ask(gate, host="models.example.com", origin=origin)
    with pytest.raises(Forbidden, match="allowedOrigins"):
        ask(gate, host="models.example.com", origin="https://evil.example", has_key=True)


def is_refused(method: str, path: str, site: str, mode: str | None) -> bool:
    try:
        ask(PLAIN, method, path, site=site, mode=mode)
    except Forbidden as refusal:
        return "allowedOrigins" in str(refusal)
    return False


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "something-new", ""])
def test_other_sites_are_refused_without_an_origin_too(method: str, site: str) -> None:
    """A request with a foreign Sec-Fetch-Site gets 403 even without an Origin."""
    paths = ("/health", "/upstream/m/load", "/upstream/m", "/v1/chat/completions", "/", "/hotseat/events")
    modes = (None, "no-cors", "navigate", "websocket")
    served = [(path, mode) for path in paths for mode in modes if not is_refused(method, path, site, mode)]

    assert served == []


@pytest.mark.parametrize("site", [None, "none", "same-origin"])
def test_what_the_user_does_is_served(site: str | None) -> None:
    """Requests from tools, the address bar and hotseat's own pages are accepted."""
    ask(PLAIN, "GET", "/upstream/m/load", site=site, mode="navigate")


@pytest.mark.parametrize(
    "path", ["/swagger", "/swagger?x", "/hotseat/ui/", "/hotseat/ui/models?x=1", "/hotseat/assets/a.js"]
)
def test_a_link_from_elsewhere_opens_static_pages(path: str) -> None:
    """A cross-site navigation may open static pages with GET and HEAD, and nothing else."""
    gate = gate_for()
    for method in ("GET", "HEAD"):
        ask(gate, method, path, site="cross-site", mode="navigate")

    for method, asked, mode in (
        ("POST", path, "navigate"),
        ("GET", path, "no-cors"),
        ("GET", path, None),
        ("GET", "/swaggers", "navigate"),
        ("GET", "/hotseat/uis", "navigate"),
    ):
        with pytest.raises(Forbidden):
            ask(gate, method, asked, site="cross-site", mode=mode)


def test_a_foreign_host_opens_no_page_either() -> None:
    """A foreign Host is refused even for a navigation to a static page."""
    with pytest.raises(Forbidden, match="allowedHosts"):
        ask(PLAIN, "GET", "/swagger", "evil.example", site="cross-site", mode="navigate")


@pytest.mark.parametrize(
    "content_type", ["text/plain", "Text/Plain; x=application/json", " application/x-www-form-urlencoded"]
)
def test_a_browser_sends_json_to_the_api(content_type: str) -> None:
    """Browsers must send application/json to the API; other clients may send any type."""
    ask(PLAIN, content_type=content_type)
    ask(PLAIN, path="/echo", site="same-origin", content_type=content_type)

    with pytest.raises(Forbidden, match="application/json"):
        ask(PLAIN, site="same-origin", content_type=content_type)
    with pytest.raises(Forbidden, match="application/json"):
        ask(PLAIN, origin=f"http://{THIS_HOST}", content_type=content_type)


def test_what_is_remembered_is_bounded() -> None:
    """The cache of accepted hosts is bounded, and a foreign host is still refused."""
    gate = gate_for()
    for number in range(3 * MOST_REMEMBERED):
        ask(gate, "GET", "/", f"name-{number}-x")

    assert len(gate._welcome) <= MOST_REMEMBERED
    with pytest.raises(Forbidden):
        ask(gate, host="evil.example")


@given(st.binary(max_size=30), st.none() | st.binary(max_size=30), st.sampled_from([None, b"none", b"cross-site"]))
def test_no_header_causes_anything_but_a_verdict(host: bytes, origin: bytes | None, site: bytes | None) -> None:
    """Arbitrary bytes are accepted or refused, with the same result twice."""
    known = {b"origin": origin, b"sec-fetch-site": site}
    known_of = {name: value for name, value in known.items() if value is not None}
    head = RequestHead(b"GET", b"/slots", False, [], known_of, None, False)
    verdicts = []
    for _ in range(2):
        try:
            FRIENDLY.check(head, host, lambda: False)
        except ClientError as refusal:
            verdicts.append((refusal.status, refusal.message))

    assert len(verdicts) in (0, 2)
    assert verdicts[:1] == verdicts[1:]


@pytest.mark.parametrize(
    ("target", "host", "reduced"),
    [
        ("/slots?x=1", THIS_HOST, "/slots?x=1"),
        ("/a?next=http://evil.example/", THIS_HOST, "/a?next=http://evil.example/"),
        ("*", THIS_HOST, "*"),
        ("http://127.0.0.1:8080/slots?x=1", THIS_HOST, "/slots?x=1"),
        ("HTTP://LOCALHOST/slots", "localhost:80", "/slots"),
        ("https://localhost/a%2Fb", "localhost", "/a%2Fb"),
        ("http://localhost", "localhost", "/"),
        ("http://localhost?x=/", "localhost", "/?x=/"),
        ("http://localhost//double", "localhost", "//double"),
        ("http://[::1]:1/x", "[::1]:1", "/x"),
    ],
)
def test_an_absolute_target_is_reduced_to_its_path(target: str, host: str, reduced: str) -> None:
    """The path and query of an absolute target stay as received; other targets are unchanged."""
    assert reduce_absolute(target.encode(), host.encode()) == reduced.encode()


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("http://evil/a", THIS_HOST),
        ("http://127.0.0.1/a", THIS_HOST),
        ("http://user@127.0.0.1:8080/a", THIS_HOST),
        ("http://127.0.0.1:8080@evil/a", THIS_HOST),
        ("http:///a", THIS_HOST),
        ("http://", ""),
        ("http://x/a", "x/a"),
        ("ftp://127.0.0.1:8080/a", THIS_HOST),
        ("evil.example/x://127.0.0.1:8080/a", THIS_HOST),
    ],
)
def test_an_absolute_target_for_somebody_else_is_refused(target: str, host: str) -> None:
    """An absolute target whose authority is not the Host, or whose scheme is not HTTP, gets 400."""
    with pytest.raises(ClientError) as refusal:
        reduce_absolute(target.encode(), host.encode())

    assert refusal.value.status == 400


FROM_A_PAGE = ("Content-Type: application/json", "Origin: http://localhost:3000")


@pytest.mark.parametrize(
    "path", ["admin/reset/v1/chat/completions", "slots/0/v1/completions", "v1/unload/v1/chat/completions"]
)
async def test_a_path_is_judged_by_what_the_model_server_gets(rig: RelayRig, path: str) -> None:
    """A page that may only use models cannot put an inference path behind another one."""
    refused = await rig.refusal(post(b"{}", *FROM_A_PAGE, target=f"/upstream/alpha/{path}"))
    asked, _ = await rig.exchange(post(b"{}", *FROM_A_PAGE, target="/upstream/alpha/v1/chat/completions"))

    assert refused.status == 403
    assert asked.first_line == "POST /v1/chat/completions HTTP/1.1"
    assert rig.alpha.requests == 1
