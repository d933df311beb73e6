"""A web server on another port, and a hostile page that attempts every kind of access to hotseat."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = """<!doctype html><title>hostile</title><body><script>
const base = "%(base)s";
const chat = JSON.stringify({model: "beta", messages: [{role: "user", content: "hi"}]});
const readable = [];
const attempts = [];
const elements = [];  // for some frames that are refused, Chromium fires no event

function attempt(name, ask) {
  attempts.push((async () => {
    try {
      const answer = await ask();
      if (answer?.ok) readable.push(name + ": " + (await answer.text()).slice(0, 80));
    } catch (refused) {}
  })());
}

function tag(name, attributes) {
  const element = document.createElement(name);
  elements.push(new Promise((done) => { element.onload = element.onerror = done; }));
  document.body.append(Object.assign(element, attributes));
}

function form(action, method) {
  const frame = document.createElement("iframe");
  frame.name = "f" + Math.random();
  document.body.append(frame);
  const element = document.createElement("form");
  const field = Object.assign(document.createElement("input"), {name: chat.slice(0, -1) + ', "x": "', value: '"}'});
  Object.assign(element, {action: base + action, method, enctype: "text/plain", target: frame.name});
  element.append(field);
  document.body.append(element);
  elements.push(new Promise((done) => { frame.onload = done; }));
  element.submit();
}

function talk(name, open) {
  attempts.push(new Promise((done) => {
    const line = open();
    line.onopen = line.onmessage = () => { readable.push(name); done(); };
    line.onerror = line.onclose = done;
    setTimeout(done, 15000);
  }));
}

for (const path of ["/v1/models", "/health", "/running", "/metrics", "/metrics/upstreams", "/hotseat/models",
                    "/hotseat/config", "/hotseat/logs", "/hotseat/requests", "/hotseat/openapi.json",
                    "/upstream/beta/load"]) {
  attempt("GET " + path, () => fetch(base + path));
  attempt("no-cors " + path, () => fetch(base + path, {mode: "no-cors"}));
}
for (const path of ["/v1/chat/completions", "/completion", "/upstream/beta/v1/chat/completions"]) {
  const headers = {"Content-Type": "application/json"};
  attempt("POST " + path, () => fetch(base + path, {method: "POST", body: chat, headers}));
  attempt("plain " + path, () => fetch(base + path, {method: "POST", body: chat, mode: "no-cors"}));
  navigator.sendBeacon(base + path, chat);
  form(path, "post");
}
for (const [method, path] of [["DELETE", "/upstream/alpha"], ["POST", "/hotseat/reload"], ["PUT", "/slots"]])
  attempt(method + " " + path, () => fetch(base + path, {method}));
form("/upstream/beta/load", "get");
tag("img", {src: base + "/upstream/beta/load"});
tag("script", {src: base + "/upstream/beta/load"});
tag("iframe", {src: base + "/upstream/beta/load"});
tag("link", {rel: "stylesheet", href: base + "/upstream/beta/load"});
tag("link", {rel: "prefetch", href: base + "/upstream/beta/load"});
tag("video", {src: base + "/upstream/beta/load"});
tag("object", {data: base + "/upstream/beta/load"});
tag("img", {src: base + "/unload"});
tag("iframe", {src: base + "/unload"});
attempt("plain /models/load", () => fetch(base + "/models/load", {method: "POST", body: chat, mode: "no-cors"}));
navigator.sendBeacon(base + "/models/load", chat);
form("/models/load", "post");
const socket = (base || location.origin).replace("http", "ws") + "/upstream/alpha/ws";
talk("websocket", () => new WebSocket(socket));
talk("events", () => new EventSource(base + "/hotseat/events"));
window.open(base + "/upstream/beta/load");
const patience = () => new Promise((done) => setTimeout(done, 3000));
window.outcome = Promise.allSettled(attempts)
  .then(() => Promise.race([Promise.allSettled(elements), patience()])).then(() => readable);
</script>"""


def hostile_page(base: str) -> str:
    """The hostile page with hotseat's address; an empty base is the page's own address."""
    return PAGE.replace("%(base)s", base)


@dataclass
class Site:
    page: str
    port: int = 0


@contextmanager
def serving(page: str = "") -> Iterator[Site]:
    """A web server that answers every request with the current page of its site."""
    site = Site(page)

    class PageHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = site.page.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the base class
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), PageHandler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        site.port = server.server_address[1]
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
