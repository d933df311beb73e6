"""Hostile pages in a real browser: from another site, from another port, through DNS rebinding, and from a model
server. They cannot load, unload or read anything; a page on this machine can only send requests to models."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from playwright.sync_api import Error as PlaywrightError
from tests.support.browser import open_browser
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.hostile_page import hostile_page, serving
from tests.support.stubs import stub
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser
    from playwright.sync_api import Page as BrowserPage
    from tests.support.hotseat import Hotseat

EVIL, REBOUND, BOX = "evil.test", "rebound.test", "box"
MANY = 20
"""Attempts that must reach hotseat; with fewer, the test would prove nothing."""
MODELS = {"alpha": stub("alpha"), "beta": stub("beta")}

ODD_TYPES = [
    "Content-Type: text/html",
    "content-type:\tTEXT/HTML ;charset=utf-8",
    "Content-Type: application/json;,text/html",
    "Content-Type: application/json, text/html",
    "Content-Type: application/json;charset=utf-8,text/html",
    'Content-Type: application/json;charset="utf-8,text/html',
    "Content-Type: application/json\r\nContent-Type: text/html",
    "Content-Type: text/html\r\nContent-Type: application/json",
    "Content-Type: text/plain;,text/html",
    "Content-Type: text/event-stream;,text/html",
    "Content-Type: image/png;,text/html",
    "Content-Type: application/json\r\nContent-Type: */*, text/html",
    "Content-Type: application/json\r\nConnection: content-type\r\nContent-Type: text/html",
    "Content-Type: */*",
    "Content-Type: application/unknown",
    "Content-Type: nonsense",
    "Content-Type: ",
    "X-Nothing: at all",
    "Content-Type: application/xhtml+xml",
    "Content-Type: application/xml",
    "Content-Type: text/xml;charset=utf-8",
    "Content-Type: image/svg+xml",
    "Content-Type: application/rss+xml",
    "Content-Type: multipart/x-mixed-replace;boundary=x",
    "Content-Type: text/html\r\nContent-Security-Policy: sandbox allow-scripts allow-same-origin",
    "Content-Type: text/html\r\nConnection: content-security-policy",
    "Content-Type: text/html\r\nX-Content-Type-Options: sniff",
]
"""Response headers with which a browser may treat the body as a page."""
MARKER = "read-up-to-here-"
"""The first part of the ids of requests that mark a place in the audit log."""
LIKE_PAGES = 12
"""Chromium must treat at least this many as pages; with fewer, the test would prove nothing."""

ACTING = {
    "refresh": "Content-Type: text/plain\r\nRefresh: 0;url=/upstream/alpha/load",
    "link": "Content-Type: text/plain\r\nLink: </upstream/alpha/load>; rel=preload; as=fetch",
    "worker": "Content-Type: text/javascript\r\nService-Worker-Allowed: /",
    "register": "Content-Type: text/html",
}
"""Headers that make a browser send requests without a page, and a service worker that would intercept requests."""

# Valid both as HTML and as XML.
TRYING = """<?xml version="1.0"?>
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>waits</title><script>
fetch("/hotseat/config").then((answer) => answer.text()).then(
  (text) => { document.title = text.includes("models") ? "read" : "refused"; },
  () => { document.title = "refused"; });
</script></head><body></body></html>
"""

REGISTERING = """<!doctype html><title>waits</title><script>
(async () => navigator.serviceWorker.register("/upstream/hostile/worker", {scope: "/"}))().then(
  () => { document.title = "registered"; }, () => { document.title = "refused"; });
</script>"""

TYPED_SERVER = f"""
import socketserver
import sys

HEADS = {{**{ACTING!r}, **{dict(enumerate(ODD_TYPES))!r}}}
BODIES = {{"worker": b"", "register": {REGISTERING.encode()!r}}}
STATUSES = {{"206": "206 Partial Content", "404": "404 Not Found", "500": "500 Oh"}}

class Page(socketserver.StreamRequestHandler):
    def handle(self):
        path = self.rfile.readline().split()[1].decode()
        while self.rfile.readline().strip():
            pass
        name, _, status = path.partition("?")[0].strip("/").partition("-")
        head = HEADS.get(int(name) if name.isdigit() else name, "Content-Type: application/json")
        first = "HTTP/1.1 " + STATUSES.get(status, "200 OK")
        body = BODIES.get(name, {TRYING.encode()!r})
        lines = "\\r\\n".join([first, head, f"Content-Length: {{len(body)}}", "", ""])
        self.wfile.write(lines.encode("latin-1") + body)

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

Server(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""

WEB_SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

PAGE = b'''<!doctype html><title>waits</title><script>
const tried = ["/hotseat/models", "/v1/models"].map((path) => fetch(path).then((answer) => answer.ok, () => false));
const unload = fetch("/upstream/hostile", {method: "DELETE"}).then((answer) => answer.status < 400, () => false);
Promise.all([...tried, unload]).then((worked) => { document.title = worked.join(" "); });
</script>'''

class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

HTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = "--host-resolver-rules=" + ", ".join(f"MAP {name} 127.0.0.1" for name in (EVIL, REBOUND, BOX))
    # Chromium's local network access checks would block some attacks; not all browsers have them.
    with open_browser(names, "--disable-features=LocalNetworkAccessChecks") as browser:
        yield browser


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    """Shared by the tests whose attacks are all rejected, because those leave no state behind."""
    with ForkedHotseat({"models": MODELS}, tmp_path_factory.mktemp("hotseat")) as rig:
        yield rig


@pytest.fixture
def own_rig(tmp_path: Path) -> Iterator[Hotseat]:
    """For a test whose page may send requests to models: some may still be in progress when it ends."""
    with ForkedHotseat({"models": MODELS}, tmp_path) as rig:
        yield rig


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    """With a model server that serves pages of all content types; shared, because the tests only read."""
    folder = tmp_path_factory.mktemp("typed")
    with ForkedHotseat(hostile(folder, TYPED_SERVER), folder) as rig:
        rig.load("hostile")
        yield rig


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hotseat]:
    """Like `typed`, with trusted pages."""
    folder = tmp_path_factory.mktemp("trusting")
    with ForkedHotseat(hostile(folder, TYPED_SERVER, upstream={"trustPages": True}), folder) as rig:
        rig.load("hostile")
        yield rig


def state(rig: Hotseat) -> dict[str, Any]:
    """The state that attacks could change."""
    models = rig.call("GET", "/hotseat/models").json()["models"]
    return {
        "pids": {model["model"]: model["pid"] for model in models},
        "requests": rig.call("GET", "/hotseat/requests").json()["finished"],
        "actions": actions(rig),
    }


def actions(rig: Hotseat) -> list[str]:
    """The lines of the audit log. They are written late but in order, so this waits for the line of an own request."""
    marker = f"{MARKER}{uuid4().hex}"
    rig.call("POST", "/hotseat/no-such-path", **{"X-Request-Id": marker})
    eventually(lambda: marker in rig.log())
    return [line for line in rig.log().splitlines() if '"message": "audit"' in line and MARKER not in line]


@dataclass
class Attack:
    readable: list[str]
    """Requests whose responses the hostile page could read."""
    statuses: Counter[int]
    """Statuses of hotseat's responses."""


def attacked(browser: Browser, rig: Hotseat, url: str, page: str | None = None) -> Attack:
    """Open the hostile page at this URL; `page` replaces its content."""
    context = browser.new_context()
    attack = Attack([], Counter())
    try:
        visit = context.new_page()
        if page is not None:
            visit.route(url, lambda route: route.fulfill(body=page, content_type="text/html"))
        at_us = f":{rig.port}/"
        context.on("response", lambda answer: attack.statuses.update([answer.status] if at_us in answer.url else []))
        visit.goto(url)
        attack.readable = visit.evaluate("window.outcome")
        for opened in context.pages:
            opened.wait_for_load_state()
        return attack
    finally:
        context.close()


@pytest.mark.parametrize("host", [EVIL, "beta.localhost"])
def test_a_page_from_another_origin_can_do_nothing(rig: Hotseat, browser: Browser, host: str) -> None:
    """Fetches, forms, tags, frames, beacons, WebSockets, event streams and windows are all rejected without effect."""
    rig.load("alpha")
    before = state(rig)
    with serving(hostile_page(rig.url)) as site:
        attack = attacked(browser, rig, f"http://{host}:{site.port}/")

    assert attack.readable == []
    assert set(attack.statuses) == {403}
    assert attack.statuses[403] > MANY
    assert state(rig) == before


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_page_from_another_server_on_this_machine_can_only_use_models(
    own_rig: Hotseat, browser: Browser, host: str
) -> None:
    """It can list models and read their responses; it cannot load, unload, manage or read anything else."""
    rig = own_rig
    rig.load("alpha")
    before = state(rig)
    with serving(hostile_page(rig.url)) as site:
        attack = attacked(browser, rig, f"http://{host}:{site.port}/")

    assert {each.partition(":")[0] for each in attack.readable} == {
        "GET /v1/models",
        "POST /v1/chat/completions",
        "POST /completion",
        "POST /upstream/beta/v1/chat/completions",
    }
    assert attack.statuses[403] > MANY // 2
    assert state(rig)["actions"] == before["actions"]


def test_the_dashboard_may_use_every_name_of_this_machine(rig: Hotseat, browser: Browser) -> None:
    """A page from localhost may call 127.0.0.1, although these are two origins to a browser."""
    rig.load("alpha")
    context = browser.new_context()
    page = context.new_page()
    asked = """async (base) => [(await fetch(base + "/hotseat/config")).status,
        (await fetch(base + "/upstream/alpha", {method: "DELETE"})).status]"""
    page.route("**/swagger", lambda route: route.fulfill(body="<title>ours</title>", content_type="text/html"))
    page.goto(f"http://localhost:{rig.port}/swagger")  # without the policy of that page, which allows 'self' only
    statuses = page.evaluate(asked, f"http://127.0.0.1:{rig.port}")
    context.close()

    assert statuses == [200, 200]


def test_a_page_that_uses_dns_rebinding_can_do_nothing(rig: Hotseat, browser: Browser) -> None:
    """The browser sees one origin; hotseat rejects the requests because of the host name."""
    rig.load("alpha")
    before = state(rig)
    attack = attacked(browser, rig, f"http://{REBOUND}:{rig.port}/hostile", hostile_page(""))
    del attack.statuses[200]  # the attacker's own page

    assert attack.readable == []
    assert set(attack.statuses) == {403}
    assert attack.statuses[403] > MANY
    assert state(rig) == before


def test_a_link_from_another_site_loads_nothing(rig: Hotseat, browser: Browser) -> None:
    """Following a link is a navigation, which browsers do not block for local addresses."""
    before = state(rig)
    with serving(f'<a id="link" href="{rig.url}/upstream/beta/load">kittens</a>') as site:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://{EVIL}:{site.port}/")
        with page.expect_response(f"{rig.url}/upstream/beta/load") as answer:
            page.click("#link")
        status = answer.value.status
        context.close()

    assert status == 403
    assert state(rig) == before


def test_a_page_from_an_allowed_origin_can_do_everything(tmp_path: Path, browser: Browser) -> None:
    """`allowedOrigins` is for browser apps. This also proves that the attacks work where they are allowed."""
    with serving() as site:
        origin = f"http://{EVIL}:{site.port}"
        with ForkedHotseat({"allowedOrigins": [origin], "models": MODELS}, tmp_path) as rig:
            rig.load("alpha")
            site.page = hostile_page(rig.url)
            attack = attacked(browser, rig, f"{origin}/")

    tried = {each.partition(":")[0] for each in attack.readable}
    assert {"GET /v1/models", "GET /upstream/beta/load", "POST /v1/chat/completions", "events"} <= tried
    assert '"action": "DELETE /upstream/alpha"' in rig.log()


def hostile(tmp_path: Path, server: str = WEB_SERVER, **more: Any) -> dict[str, Any]:
    program = tmp_path / "web_server.py"
    program.write_text(server)
    cmd = f"{shlex.quote(sys.executable)} {shlex.quote(str(program))} ${{PORT}}"
    return {"models": {"hostile": {"cmd": cmd}, "alpha": stub("alpha")}, **more}


def title_of(browser: Browser, url: str) -> str:
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(url)
        page.wait_for_function("document.title !== 'waits'")
        return page.title()
    finally:
        context.close()


def test_a_page_from_a_model_server_can_do_nothing(tmp_path: Path, browser: Browser) -> None:
    """It has the same origin as hotseat, but runs in a sandbox: it cannot list or unload models."""
    with ForkedHotseat(hostile(tmp_path), tmp_path) as rig:
        pid = rig.load("hostile")
        worked = title_of(browser, f"{rig.url}/?model=hostile")
        after = rig.call("GET", "/health").json()["models"]

    assert worked == "false false false"
    assert after["hostile"]["pid"] == pid


def test_a_trusted_page_from_a_model_server_can_use_the_api(tmp_path: Path, browser: Browser) -> None:
    """`upstream.trustPages: true` gives it the same access as the dashboard."""
    with ForkedHotseat(hostile(tmp_path, upstream={"trustPages": True}), tmp_path) as rig:
        rig.load("hostile")
        worked = title_of(browser, f"{rig.url}/upstream/hostile/")

    assert worked == "true true true"


def outcomes(browser: Browser, urls: list[str]) -> list[str]:
    """The outcome of each page: its last title, `download` or `no page`."""
    context = browser.new_context()
    try:
        page = context.new_page()
        return [outcome(page, url) for url in urls]
    finally:
        context.close()


def outcome(page: BrowserPage, url: str) -> str:
    try:
        page.goto(url)
    except PlaywrightError as problem:
        if "Download is starting" not in problem.message:
            raise
        return "download"
    page.wait_for_function("document.title !== 'waits'")
    return page.title() or "no page"


def test_no_content_type_lets_a_page_escape_the_sandbox(typed: Hotseat, browser: Browser) -> None:
    """The sandbox applies to all response headers, paths and statuses, also when the headers are cached."""
    numbers = range(len(ODD_TYPES))
    # Where the browser's machine may be another one, pages under /upstream/ are not redirected to their own origin.
    paths = [f"http://{BOX}:{typed.port}/upstream/hostile/{number}" for number in numbers]
    paths += [f"{typed.url}/{number}?model=hostile" for number in numbers]  # these headers are cached now
    paths += [f"{typed.url}/{number}-{status}" for number in range(4) for status in (206, 404, 500)]
    seen = outcomes(browser, paths)

    assert [path for path, became in zip(paths, seen, strict=True) if became == "read"] == []
    assert seen[: len(numbers)].count("refused") >= LIKE_PAGES


def test_the_same_pages_read_the_configuration_if_trusted(trusting: Hotseat, browser: Browser) -> None:
    """So the test above would notice a page outside the sandbox."""
    seen = outcomes(browser, [f"{trusting.url}/upstream/hostile/{number}" for number in range(len(ODD_TYPES))])

    assert seen.count("read") >= LIKE_PAGES


@pytest.mark.parametrize("name", ["refresh", "link"])
def test_a_header_of_a_plain_text_response_loads_nothing(typed: Hotseat, browser: Browser, name: str) -> None:
    """A browser follows some headers of any response; hotseat rejects the resulting request as cross-origin."""
    context = browser.new_context()
    page = context.new_page()
    with page.expect_response("**/upstream/alpha/load") as answer:
        page.goto(f"{typed.url}/{name}?model=hostile")
    status, running = answer.value.status, typed.call("GET", "/running").json()["running"]
    context.close()

    assert status == 403
    assert running == ["hostile"]


def test_a_page_from_a_model_server_cannot_install_a_service_worker(
    typed: Hotseat, trusting: Hotseat, browser: Browser
) -> None:
    """A service worker could answer in place of hotseat until it is removed; only a trusted page can install one."""
    became = [title_of(browser, f"{rig.url}/register?model=hostile") for rig in (typed, trusting)]

    assert became == ["refused", "registered"]
