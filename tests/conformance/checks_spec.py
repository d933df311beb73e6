"""What the interface specification says, as far as it can be observed; ids carry its section numbers."""

from __future__ import annotations

import hashlib
import json
import os
import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

from rig import (
    LATE,
    NOBODY,
    PATIENCE,
    Answer,
    Config,
    Headers,
    Proxy,
    alive,
    chat_body,
    check,
    eventually,
    eventually_none,
    expect,
    expect_error_naming,
    expect_result,
    expect_said,
    expect_stopped,
    in_background,
    model,
)
from stub_upstream import embedding

KEY = "sesame"

CROWD: Config = {
    "healthCheckTimeout": 20,
    "models": {
        "alpha": model("--slots 2"),
        "beta": model("--slots 3"),
        "org/model": model(),
        "slow": model("--token-delay 0.1"),
        "sleepy": model("--load-seconds 1"),
        "lingering": model("--token-delay 0.1 --stop-seconds 1"),
        "vectors": model("--embedding"),
        "locked": model(f"--api-key {KEY}"),
        "dud": model("--exit-on-start"),
        "endless": model("--load-seconds 60", healthCheckTimeout=2),
        "stuck": model("--hang-health", healthCheckTimeout=2),
    },
}
METERED: Config = {**CROWD, "metrics": True}
IMPATIENT: Config = {"healthCheckTimeout": 2, "models": {"endless": model("--load-seconds 60")}}


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# 1. What the service does


@check("spec-1-model-field-selects", "The model field of the body decides which upstream answers.", CROWD)
def model_field_selects(proxy: Proxy) -> None:
    for name in ("alpha", "beta", "alpha"):
        expect_said(proxy.chat(name), name)


@check("spec-1-one-at-a-time", "Alternating requests never have two upstreams alive at the same time.", CROWD)
def one_at_a_time(proxy: Proxy) -> None:
    for name in ("lingering", "alpha", "beta"):
        expect_said(proxy.chat(name), name)
    lives = [(proxy.only_fact("started", name).time, name) for name in ("alpha", "beta")]
    deaths = [(proxy.only_fact("exited", name).time, name) for name in ("lingering", "alpha")]
    for (death, old), (birth, new) in zip(deaths, lives, strict=True):
        expect(death <= birth, f"{new} started {death - birth:.2f} s before the end of {old}")


@check("spec-1-health-polled-first", "A cold model gets the request only once its health endpoint says ready.", CROWD)
def health_polled_first(proxy: Proxy) -> None:
    expect_said(proxy.chat("sleepy"), "sleepy")
    asked, ready = proxy.only_fact("request_started", "sleepy"), proxy.only_fact("ready", "sleepy")
    expect(asked.time >= ready.time, f"forwarded {ready.time - asked.time:.2f} s before the upstream was ready")


# 2. Resources


def listed(proxy: Proxy) -> list[Any]:
    answer = proxy.call("GET", "/v1/models")
    data = answer.get("data")
    expect(answer.status == 200 and isinstance(data, list), answer)
    return list(data)


@check(
    "spec-2.1-model-entry", "Every model entry has a string id, object 'model', integer created, string owner.", CROWD
)
def model_entry(proxy: Proxy) -> None:
    for entry in listed(proxy):
        strings = isinstance(entry.get("id"), str) and isinstance(entry.get("owned_by"), str)
        expect(strings and entry.get("object") == "model" and is_integer(entry.get("created")), entry)


@check("spec-2.2-model-list", "The model list is an object 'list' with one entry per configured model.", CROWD)
def model_list(proxy: Proxy) -> None:
    answer = proxy.call("GET", "/v1/models")
    expect(answer.get("object") == "list", answer)
    names = sorted(entry["id"] for entry in listed(proxy))
    expect(names == sorted(CROWD["models"]), names)


@check("spec-2.8-health-check-timeout", "The top-level healthCheckTimeout bounds the wait for every model.", IMPATIENT)
def global_timeout(proxy: Proxy) -> None:
    answer = proxy.chat("endless")
    expect(answer.status == 503 and 1.8 <= answer.seconds <= LATE, f"{answer} after {answer.seconds:.1f} s")


# 3. States and transitions


@check("spec-3-cold-request-runs", "An inference request turns a model that was not running into a running one.", CROWD)
def cold_request_runs(proxy: Proxy) -> None:
    expect(proxy.running() == [], proxy.running())
    expect_said(proxy.chat("alpha"), "alpha")
    expect(proxy.running() == ["alpha"], proxy.running())


@check("spec-3-running-forwarded", "Requests to a running model are forwarded to the same process.", CROWD)
def running_forwarded(proxy: Proxy) -> None:
    pid = proxy.loaded("alpha")
    for _ in range(3):
        expect_said(proxy.chat("alpha"), "alpha")
    asked = [fact.pid for fact in proxy.inferences("alpha")]
    expect(asked == [pid] * 3, f"process {pid} was loaded, {asked} were asked")


@check("spec-3-swap", "A swap stops the old model, then starts the new one, then forwards the request to it.", CROWD)
def swap(proxy: Proxy) -> None:
    old = proxy.loaded("lingering")
    expect_said(proxy.chat("sleepy"), "sleepy")
    expect(proxy.running() == ["sleepy"] and not alive(old), f"running {proxy.running()}, old alive: {alive(old)}")
    order = [
        ("sigterm", "lingering"),
        ("exited", "lingering"),
        ("started", "sleepy"),
        ("ready", "sleepy"),
        ("request_started", "sleepy"),
    ]
    times = [proxy.only_fact(event, name).time for event, name in order]
    expect(times == sorted(times), [f"{name} {event} {at:.2f}" for (event, name), at in zip(order, times, strict=True)])


@check("spec-3-swap-lets-old-finish", "A swap stops the old model only after its request in flight is answered.", CROWD)
def swap_lets_old_finish(proxy: Proxy) -> None:
    proxy.loaded("slow")
    first = in_background(lambda: proxy.chat("slow"))
    expect(eventually(lambda: proxy.inferences("slow"), PATIENCE), "the first request never reached its upstream")
    expect_said(proxy.chat("alpha"), "alpha")
    expect_said(first.result(), "slow")
    finished, stopped = proxy.only_fact("request_finished", "slow"), proxy.only_fact("sigterm", "slow")
    expect(finished.time <= stopped.time, f"SIGTERM {finished.time - stopped.time:.2f} s before the answer was done")


@check("spec-3-loading-not-running", "A model that still loads is not reported as running.", CROWD)
def loading_not_running(proxy: Proxy) -> None:
    pending = in_background(lambda: proxy.load("sleepy"))
    expect(eventually(lambda: proxy.facts("started", "sleepy"), PATIENCE), "the model never started")
    running, health = proxy.running(), proxy.health()
    expect(not proxy.facts("ready", "sleepy"), "GET /running and /health were answered only after the load")
    expect(running == [] and health.get("sleepy", {}).get("status") != "running", f"{running}, {health}")
    pending.result()


@check("spec-3-load", "GET /upstream/{model}/load answers once the model is ready and sends it no inference.", CROWD)
def load(proxy: Proxy) -> None:
    answer = proxy.load("sleepy")
    expect_result(answer, "ok", "sleepy")
    expect(proxy.facts("ready", "sleepy"), "answered before the model was ready")
    expect(proxy.running() == ["sleepy"], proxy.running())
    expect(not proxy.inferences(), proxy.inferences())


@check("spec-3-load-swaps", "Loading a model stops the one that ran before.", CROWD)
def load_swaps(proxy: Proxy) -> None:
    old = proxy.loaded("alpha")
    expect_result(proxy.load("beta"), "ok", "beta")
    expect_stopped(proxy, old, "alpha")
    expect(proxy.running() == ["beta"], proxy.running())


@check("spec-3-load-running", "Loading a running model answers ok and keeps its process.", CROWD)
def load_running(proxy: Proxy) -> None:
    proxy.loaded("alpha")
    expect_result(proxy.load("alpha"), "ok", "alpha")
    proxy.only_fact("started", "alpha")


@check("spec-3-unload-running", "DELETE /upstream/{model} sends SIGTERM, answers ok and the model is gone.", CROWD)
def unload_running(proxy: Proxy) -> None:
    pid = proxy.loaded("lingering")
    expect_result(proxy.unload("lingering"), "ok", "lingering")
    expect(not alive(pid), f"process {pid} is alive after its unload was reported")
    proxy.only_fact("sigterm", "lingering")
    expect_stopped(proxy, pid, "lingering")


@check("spec-3-unload-not-running", "DELETE of a model that is not running answers error and names it.", CROWD)
def unload_not_running(proxy: Proxy) -> None:
    proxy.loaded("beta")
    answer = proxy.unload("alpha")
    expect_result(answer, "error", "alpha")
    expect("not running" in answer.get("message").lower(), answer)
    expect(proxy.running() == ["beta"], proxy.running())


@check(
    "spec-3-failed-start-not-running", "After a failed start the model is not running and no process is left.", CROWD
)
def failed_start_not_running(proxy: Proxy) -> None:
    for name in ("dud", "stuck"):
        expect(proxy.chat(name).status == 503, f"no 503 from {name}")
        expect_stopped(proxy, proxy.facts("started", name)[-1].pid, name)


# 4.1 Inference endpoints


@check("spec-4.1-chat", "POST /v1/chat/completions gives the upstream's answer.", CROWD)
def chat(proxy: Proxy) -> None:
    expect_said(proxy.chat("alpha", "tell me"), "alpha", "tell me")


@check("spec-4.1-body-forwarded", "Every field of a request reaches the upstream with its value.", CROWD)
def body_forwarded(proxy: Proxy) -> None:
    extras: dict[str, Any] = {
        "temperature": 0.25,
        "max_tokens": 5,
        "stop": ["\n"],
        "unheard_of": {"deep": [1, None, "ü"]},
    }
    answer = proxy.chat("alpha", "größe", **extras)
    expect(answer.get("received") == chat_body("alpha", "größe", **extras), answer)
    expect_said(answer, "alpha", "größe", count=5)


@check("spec-4.1-chat-stream", "A streamed chat is SSE, ends with [DONE] and says what the unary one says.", CROWD)
def chat_stream(proxy: Proxy) -> None:
    stream = proxy.stream("alpha").read()
    kind = stream.response.headers.get_content_type()
    expect(stream.response.status == 200 and kind == "text/event-stream", f"{stream}, {kind}")
    expect(stream.complete() and stream.text() == proxy.chat("alpha").text(), stream)


@check("spec-4.1-stream-live", "Each streamed chunk arrives before the upstream produces the next but one.", CROWD)
def stream_live(proxy: Proxy) -> None:
    proxy.loaded("slow")
    stream = proxy.stream("slow").read()
    produced_last = proxy.only_fact("request_finished", "slow").time
    lead = [produced_last - arrival for arrival in stream.arrivals[:8]]
    behind = [f"chunk {n}" for n, seconds in enumerate(lead) if seconds < 0.1 * (7 - n) - 0.2]
    expect(len(lead) == 8 and lead[0] > 0.5 and not behind, f"{stream}; late: {behind}; leads: {lead}")


@check("spec-4.1-completions", "POST /v1/completions gives the upstream's answer.", CROWD)
def completions(proxy: Proxy) -> None:
    body = {"model": "alpha", "prompt": "once", "max_tokens": 6, "temperature": 0, "stop": ["."]}
    answer = proxy.call("POST", "/v1/completions", body)
    expect_said(answer, "alpha", "once", count=6)
    expect(answer.get("received") == body, answer)


@check("spec-4.1-completions-swap", "A completion request swaps to the model it names.", CROWD)
def completions_swap(proxy: Proxy) -> None:
    proxy.loaded("beta")
    expect_said(proxy.call("POST", "/v1/completions", {"model": "alpha", "prompt": "once"}), "alpha", "once")
    expect(proxy.running() == ["alpha"], proxy.running())


def expect_embeddings(answer: Answer, inputs: list[str]) -> None:
    expect(answer.status == 200 and answer.get("object") == "list", answer)
    expected = [{"object": "embedding", "index": n, "embedding": embedding(text)} for n, text in enumerate(inputs)]
    expect(answer.get("data") == expected, answer)
    usage = answer.get("usage")
    expect(isinstance(answer.get("model"), str) and isinstance(usage, dict), answer)
    expect(is_integer(usage.get("prompt_tokens")) and is_integer(usage.get("total_tokens")), answer)


@check("spec-4.1-embeddings-string", "Embeddings of one string give one element with index 0.", CROWD)
def embeddings_string(proxy: Proxy) -> None:
    expect_embeddings(proxy.call("POST", "/v1/embeddings", {"model": "vectors", "input": "one"}), ["one"])


@check("spec-4.1-embeddings-batch", "Embeddings of a batch give one element per input, indexed in input order.", CROWD)
def embeddings_batch(proxy: Proxy) -> None:
    inputs = ["one", "two", "three"]
    expect_embeddings(proxy.call("POST", "/v1/embeddings", {"model": "vectors", "input": inputs}), inputs)


@check("spec-4.1-embeddings-unsupported", "Without --embedding the upstream's own refusal is passed on.", CROWD)
def embeddings_unsupported(proxy: Proxy) -> None:
    answer = proxy.call("POST", "/v1/embeddings", {"model": "alpha", "input": "one"})
    expect(answer.status == 501 and "does not support embeddings" in str(answer.get("error")), answer)


# 4.2 Management endpoints


@check("spec-4.2-health-empty", "GET /health is status ok with an empty models object while nothing runs.", CROWD)
def health_empty(proxy: Proxy) -> None:
    answer = proxy.call("GET", "/health")
    expect(answer.get("status") == "ok" and answer.get("models") == {}, answer)


@check("spec-4.2-health-running", "GET /health maps a running model to status running and its upstream's pid.", CROWD)
def health_running(proxy: Proxy) -> None:
    pid = proxy.loaded("alpha")
    answer = proxy.call("GET", "/health")
    models = answer.get("models")
    expect(answer.get("status") == "ok" and isinstance(models, dict) and list(models) == ["alpha"], answer)
    entry = models["alpha"]
    expect(entry.get("status") == "running" and is_integer(entry.get("pid")), answer)
    expect(entry["pid"] == pid and alive(pid), f"{answer}; the upstream's pid is {pid}")


@check("spec-4.2-running-empty", "GET /running is an empty array while nothing runs.", CROWD)
def running_empty(proxy: Proxy) -> None:
    answer = proxy.call("GET", "/running")
    expect(answer.get("running") == [], answer)


@check("spec-4.2-running-names", "GET /running is an array of the names of running models.", CROWD)
def running_names(proxy: Proxy) -> None:
    for name in ("alpha", "org/model"):
        proxy.loaded(name)
        expect(proxy.running() == [name], proxy.running())


class Page(HTMLParser):
    """Collects what a browser would fetch for a page, and the code inside it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.assets: list[str] = []
        self.scripts: list[str] = []
        self.code = ""
        self._inside: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        source = given.get("href", "") if tag == "link" else given.get("src", "")
        if source and not source.startswith("data:"):
            self.assets.append(source)
            if tag == "script":
                self.scripts.append(source)
        self._inside = tag if tag in ("script", "style") else self._inside

    def handle_endtag(self, tag: str) -> None:
        self._inside = None if tag == self._inside else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.code += data


def swagger(proxy: Proxy) -> tuple[str, str]:
    """The path of the documentation page, redirects followed, and its HTML."""
    path = "/swagger"
    answer = proxy.call("GET", path)
    if answer.status in (301, 302, 303, 307, 308):
        path = urlsplit(urljoin(path, answer.headers["Location"])).path
        answer = proxy.call("GET", path)
    kind = answer.headers.get_content_type()
    expect(answer.status == 200 and kind == "text/html" and b"<html" in answer.body.lower(), f"{kind}: {answer}")
    return path, answer.body.decode()


def is_foreign(url: str, proxy: Proxy) -> bool:
    return urlsplit(url).netloc not in ("", f"127.0.0.1:{proxy.port}", f"localhost:{proxy.port}")


@check("spec-4.2-swagger-page", "GET /swagger is an HTML page.", CROWD)
def swagger_page(proxy: Proxy) -> None:
    swagger(proxy)


@check(
    "spec-4.2-swagger-openapi", "/swagger references an OpenAPI document, served here, that lists 4.1 and 4.2.", CROWD
)
def swagger_openapi(proxy: Proxy) -> None:
    base, html = swagger(proxy)
    own_scripts = [urljoin(base, script) for script in Page(html).scripts if not is_foreign(script, proxy)]
    sources = [html, *(proxy.call("GET", script).body.decode() for script in own_scripts)]
    quoted = {
        found
        for source in sources
        for found in re.findall(r"""["'`]([a-zA-Z0-9_./-]*(?:openapi|\.json)[a-zA-Z0-9_./-]*)["'`]""", source)
    }
    documents = [proxy.call("GET", urljoin(base, path)) for path in sorted(quoted)]
    described = [parsed["paths"] for document in documents if (parsed := openapi(document))]
    expect(described, f"no OpenAPI document among {sorted(quoted)}")
    expected = {
        "/v1/models": "get",
        "/v1/chat/completions": "post",
        "/v1/completions": "post",
        "/v1/embeddings": "post",
        "/health": "get",
        "/running": "get",
        "/upstream/{model}": "delete",
        "/upstream/{model}/load": "get",
        "/swagger": "get",
        "/metrics": "get",
    }
    missing = [f"{method} {path}" for path, method in expected.items() if method not in described[0].get(path, {})]
    expect(not missing, f"not described: {missing}")


def openapi(document: Answer) -> dict[str, Any] | None:
    try:
        parsed = json.loads(document.body)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) and "openapi" in parsed and "paths" in parsed else None


@check(
    "spec-4.2-swagger-self-contained", "/swagger needs nothing from another host, and its own assets are served.", CROWD
)
def swagger_self_contained(proxy: Proxy) -> None:
    base, html = swagger(proxy)
    page = Page(html)
    fetched_by_code = re.findall(r"""(?:import|from|fetch\(|url\()\s*\(?["'`]?((?:https?:)?//[^"'`\s)]+)""", page.code)
    foreign = [url for url in (*page.assets, *fetched_by_code) if is_foreign(url, proxy)]
    expect(not foreign, f"needs {foreign}")
    missing = [asset for asset in page.assets if proxy.call("GET", urljoin(base, asset)).status != 200]
    expect(not missing, f"not served: {missing}")


NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|Inf|NaN)"
METRIC = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"{METRIC}(?:\{{(?:{LABEL}(?:,{LABEL})*,?)?\}})? {NUMBER}(?: -?\d+)?")
TYPE = rf"# TYPE {METRIC} (?:counter|gauge|histogram|summary|untyped)"
COMMENT = re.compile(rf"# HELP {METRIC}(?: .*)?|{TYPE}|#(?! HELP| TYPE).*")


def expect_prometheus(answer: Answer) -> None:
    expect(answer.status == 200, answer)
    kind = answer.headers.get_content_type()
    expect(kind in ("text/plain", "application/openmetrics-text"), f"Content-Type {kind}")
    text = answer.body.decode()
    lines = [line for line in text.splitlines() if line]
    odd = [line for line in lines if not SAMPLE.fullmatch(line) and not COMMENT.fullmatch(line)]
    expect(not odd, f"not in the text format: {odd[:3]}")
    complete = text.endswith("\n") and any(SAMPLE.fullmatch(line) for line in lines)
    expect(complete, f"no sample or no last newline: {answer}")


@check("spec-4.2-metrics", "GET /metrics is Prometheus text by default, before and after a model ran.", CROWD)
def metrics(proxy: Proxy) -> None:
    expect_prometheus(proxy.call("GET", "/metrics"))
    proxy.chat("org/model")
    expect_prometheus(proxy.call("GET", "/metrics"))


@check("spec-4.2-metrics-enabled", "GET /metrics is Prometheus text with `metrics: true`.", METERED)
def metrics_enabled(proxy: Proxy) -> None:
    expect_prometheus(proxy.call("GET", "/metrics"))


# 4.3 Routing


@check("spec-4.3-model-from-url", "ANY /upstream/{model}/{path} loads that model and forwards /{path} to it.", CROWD)
def model_from_url(proxy: Proxy) -> None:
    proxy.loaded("beta")
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        echo = proxy.call(method, "/upstream/alpha/echo/a%2Fb/c%20d?x=1&x=%20", b"" if method == "GET" else b"raw")
        seen = (echo.get("name"), echo.get("method"), echo.get("target"))
        expect(seen == ("alpha", method, "/echo/a%2Fb/c%20d?x=1&x=%20"), echo)
    expect_said(proxy.call("POST", "/upstream/alpha/v1/chat/completions", chat_body("alpha")), "alpha")
    expect(proxy.running() == ["alpha"], proxy.running())


def check_slash_name(id: str, name_in_url: str) -> None:
    @check(id, f"A model whose name contains a slash is reached as /upstream/{name_in_url}.", CROWD)
    def slash_name(proxy: Proxy) -> None:
        expect_result(proxy.load(name_in_url), "ok", "org/model")
        expect(proxy.running() == ["org/model"], proxy.running())
        echo = proxy.call("GET", f"/upstream/{name_in_url}/echo/x?y=1")
        expect((echo.get("name"), echo.get("target")) == ("org/model", "/echo/x?y=1"), echo)
        expect_result(proxy.unload(name_in_url), "ok", "org/model")
        expect(proxy.running() == [], proxy.running())


check_slash_name("spec-4.3-slash-name-plain", "org/model")
check_slash_name("spec-4.3-slash-name-encoded", "org%2Fmodel")


# 4.4 Native upstream passthrough


@check("spec-4.4-completion", "POST /completion goes to the model its body names, swapping if needed.", CROWD)
def native_completion(proxy: Proxy) -> None:
    proxy.loaded("beta")
    body = {"model": "alpha", "prompt": "once", "n_predict": 5, "grammar": 'root ::= "a"'}
    answer = proxy.call("POST", "/completion", body)
    expect_said(answer, "alpha", "once", count=5)
    expect(answer.get("received") == body, answer)


@check("spec-4.4-slots", "GET /slots reports the slots of the running model.", CROWD)
def slots(proxy: Proxy) -> None:
    for name, count in (("alpha", 2), ("beta", 3)):
        proxy.loaded(name)
        answer = proxy.call("GET", "/slots")
        expect(answer.status == 200 and len(answer.json()) == count, f"{name}: {answer}")


CARRIED: Headers = {
    "Accept": "text/x-odd, */*;q=0.1",
    "Accept-Encoding": "identity;q=1, br;q=0",
    "Authorization": "Bearer token",
    "Content-Type": "application/octet-stream",
    "Cookie": "a=1; b=2",
    "User-Agent": "conformance/1",
    "X-Odd-Header": 'kept, as "is"',
}


@check(
    "spec-4.4-unchanged",
    "Any other request reaches the upstream with method, path, query, headers, body as sent.",
    CROWD,
)
def unchanged(proxy: Proxy) -> None:
    proxy.loaded("alpha")
    body = os.urandom(70_000)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        target = "/echo/a%2Fb/%C3%BC//d;p=1?q=%26&q=+&empty=&flag"
        sent = b"" if method == "GET" else body
        echo = proxy.call(method, target, sent, CARRIED)
        expect((echo.status, echo.get("method"), echo.get("target")) == (200, method, target), echo)
        expect((echo.get("sha256"), echo.get("length")) == (hashlib.sha256(sent).hexdigest(), len(sent)), echo)
        received = {key.lower(): value for key, value in echo.get("headers")}
        lost = {key: received.get(key.lower()) for key, value in CARRIED.items() if received.get(key.lower()) != value}
        expect(not lost, f"changed headers: {lost}")


@check("spec-4.4-large-and-chunked", "A body of several megabytes and a chunked body arrive whole.", CROWD)
def large_and_chunked(proxy: Proxy) -> None:
    proxy.loaded("alpha")
    for body, chunked in ((os.urandom(3_000_000), False), (os.urandom(100_000), True)):
        echo = proxy.call("POST", "/echo/body", body, {"Content-Type": "application/octet-stream"}, chunked=chunked)
        expect(echo.get("sha256") == hashlib.sha256(body).hexdigest(), f"chunked: {chunked}, {echo}")


@check("spec-4.4-answer-unchanged", "An upstream's own 404 and its headers come back through the passthrough.", CROWD)
def answer_unchanged(proxy: Proxy) -> None:
    proxy.loaded("alpha")
    answer = proxy.call("GET", "/nothing-here")
    expect(answer.status == 404 and "no GET /nothing-here here" in str(answer.get("error")), answer)
    expect(answer.headers["X-Stub"] == "alpha", f"X-Stub: {answer.headers['X-Stub']}")


# 5. Authentication


@check(
    "spec-5-upstream-checks-key", "The upstream sees Authorization: 401 from it without its key, 200 with it.", CROWD
)
def upstream_checks_key(proxy: Proxy) -> None:
    refused = proxy.chat("locked")
    expect(refused.status == 401 and "Invalid API Key" in str(refused.get("error")), refused)
    expect_said(proxy.chat("locked", headers={"Authorization": f"Bearer {KEY}"}), "locked")


@check("spec-5-management-open", "Management endpoints and the model list need no authorization.", CROWD)
def management_open(proxy: Proxy) -> None:
    paths = [
        ("GET", "/upstream/locked/load"),
        ("GET", "/v1/models"),
        ("GET", "/health"),
        ("GET", "/running"),
        ("GET", "/swagger"),
        ("GET", "/metrics"),
        ("DELETE", "/upstream/locked"),
    ]
    refused = [
        f"{method} {path}: {answer}"
        for method, path in paths
        if (answer := proxy.call(method, path)).status in (401, 403, 407) or answer.status >= 500
    ]
    expect(not refused, refused)


# 7. Errors


def check_unknown_model(label: str, method: str, path: str, body: object = None) -> None:
    @check(f"spec-7-unknown-model-{label}", f"{method} {path} for an unknown model is 404 and names it.", CROWD)
    def unknown_model(proxy: Proxy) -> None:
        expect_error_naming(proxy.call(method, path, body), 404, NOBODY)
        expect(not proxy.facts("started"), "an upstream was started")


check_unknown_model("chat", "POST", "/v1/chat/completions", chat_body(NOBODY))
check_unknown_model("completions", "POST", "/v1/completions", {"model": NOBODY, "prompt": "x"})
check_unknown_model("embeddings", "POST", "/v1/embeddings", {"model": NOBODY, "input": "x"})
check_unknown_model("native", "POST", "/completion", {"model": NOBODY, "prompt": "x"})
check_unknown_model("load", "GET", f"/upstream/{NOBODY}/load")
check_unknown_model("unload", "DELETE", f"/upstream/{NOBODY}")
check_unknown_model("path", "GET", f"/upstream/{NOBODY}/props")


@check(
    "spec-7-start-fails",
    "An upstream that exits on start gives 503 with an error text, long before the timeout.",
    CROWD,
)
def start_fails(proxy: Proxy) -> None:
    answer = proxy.chat("dud")
    expect(answer.status == 503 and isinstance(answer.get("error"), str) and answer.get("error"), answer)
    expect(answer.seconds < LATE, f"answered after {answer.seconds:.1f} s")


def check_timeout(name: str, truth: str) -> None:
    @check(f"spec-7-timeout-{name}", truth, CROWD)
    def timeout(proxy: Proxy) -> None:
        answer = proxy.chat(name)
        expect(answer.status == 503 and "timed out after 2 seconds" in str(answer.get("error")), answer)
        expect(isinstance(answer.get("error"), str), answer)
        expect(1.8 <= answer.seconds <= LATE, f"answered after {answer.seconds:.1f} s")
        expect(not eventually_none(proxy.survivors, within=3), "its process lives on")


check_timeout("endless", "A model still loading at healthCheckTimeout gives 503 'timed out after N seconds'.")
check_timeout("stuck", "A health endpoint that never answers gives 503 'timed out after N seconds'.")


@check("spec-7-upstream-error", "An error of the upstream is forwarded with its status, body and headers.", CROWD)
def upstream_error(proxy: Proxy) -> None:
    for status in (500, 400, 429, 503):
        answer = proxy.chat("alpha", fail=status)
        expected = {"error": {"message": "failed on demand", "type": "stub_error", "code": status}}
        expect(answer.status == status and answer.json() == expected, answer)
        expect(answer.headers["X-Stub"] == "alpha", f"X-Stub: {answer.headers['X-Stub']}")
