"""What we decided where the specification is silent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

from rig import (
    LATE,
    NOBODY,
    PATIENCE,
    Config,
    Headers,
    Proxy,
    Stream,
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
    said,
    together,
)

CROWD: Config = {
    "healthCheckTimeout": 20,
    "models": {
        "alpha": model(aliases=["al", "first"]),
        "beta": model(),
        "slow": model("--token-delay 0.1"),
        "brief": model("--token-delay 0.02"),
        "sleepy": model("--load-seconds 0.5"),
        "dud": model("--exit-on-start"),
        "brittle": model("--die-after-requests 1"),
        "snapping": model("--die-mid-stream --token-delay 0.02"),
        "renamed": model(useModelName="real-name"),
        "hidden": model(unlisted=True),
        "dressed": model(env=["STUB_COLOUR=red", "STUB_SIZE=10 x 20"]),
        "elsewhere": model("--hang-health", proxy="http://127.0.0.1:${PORT}", checkEndpoint="/props"),
    },
}
UNMETERED: Config = {**CROWD, "metrics": False}
STUBBORN: Config = {"unloadTimeout": 2, "models": {"stubborn": model("--ignore-sigterm"), "alpha": model()}}
PAIR: Config = {
    "healthCheckTimeout": 20,
    "models": {
        "alpha": model(),
        "beta": model(),
        "gamma": model("--load-seconds 0.3"),
        "endless": model("--load-seconds 60"),
    },
    "groups": {"pair": {"swap": False, "exclusive": False, "members": ["beta", "gamma", "endless"]}},
}
FLEETING: Config = {
    "models": {"idle": model("--load-seconds 1.3", ttl=1), "busy": model("--token-delay 0.2", ttl=1), "kept": model()},
}


# Management answers


@check("ours-management-200", "Management calls that succeed answer 200.", CROWD)
def management_200(proxy: Proxy) -> None:
    calls = [
        ("GET", "/upstream/alpha/load"),
        ("GET", "/health"),
        ("GET", "/running"),
        ("GET", "/metrics"),
        ("DELETE", "/upstream/alpha"),
    ]
    answers = [(f"{method} {path}", proxy.call(method, path)) for method, path in calls]
    expect(all(answer.status == 200 for _, answer in answers), [f"{call}: {answer}" for call, answer in answers])


@check("ours-unload-not-running-409", "DELETE of a model that is not running answers 409.", CROWD)
def unload_not_running_409(proxy: Proxy) -> None:
    answer = proxy.unload("alpha")
    expect(answer.status == 409, answer)


@check(
    "ours-unknown-model-management",
    "Load and unload of an unknown model answer 404 with error, status, message.",
    CROWD,
)
def unknown_model_management(proxy: Proxy) -> None:
    for answer in (proxy.load(NOBODY), proxy.unload(NOBODY)):
        expect_error_naming(answer, 404, NOBODY)
        expect_result(answer, "error", NOBODY)


@check("ours-load-failure", "A load that fails answers 503 with status error, message and error.", CROWD)
def load_failure(proxy: Proxy) -> None:
    answer = proxy.load("dud")
    expect(answer.status == 503 and isinstance(answer.get("error"), str), answer)
    expect_result(answer, "error", "dud")


@check("ours-metrics-off", "With `metrics: false` GET /metrics answers 404.", UNMETERED)
def metrics_off(proxy: Proxy) -> None:
    answer = proxy.call("GET", "/metrics")
    expect(answer.status == 404, answer)
    proxy.loaded("alpha")
    answer = proxy.call("GET", "/metrics")
    expect(answer.status == 404 and "X-Stub" not in answer.headers, f"passed on to the upstream: {answer}")


@check(
    "ours-observing-starts-nothing",
    "Reading /v1/models, /health, /running, /metrics, /metrics/upstreams or /swagger starts no model.",
    CROWD,
)
def observing_starts_nothing(proxy: Proxy) -> None:
    for path in ("/v1/models", "/health", "/running", "/metrics", "/metrics/upstreams", "/swagger"):
        proxy.call("GET", path)
    time.sleep(0.4)
    expect(not proxy.facts("started"), proxy.facts("started"))


# Requests that cannot be served


@check("ours-bad-request-400", "Malformed JSON and a missing or odd model field answer 400 with an error text.", CROWD)
def bad_request_400(proxy: Proxy) -> None:
    bodies = (b'{"model": "alpha"', b"", b"[]", b'{"messages": []}', b'{"model": 5}', b'{"model": ""}')

    def expect_refusals() -> None:
        for body in bodies:
            answer = proxy.call("POST", "/v1/chat/completions", body)
            expect(answer.status == 400 and isinstance(answer.get("error"), str), f"{body!r}: {answer}")

    expect_refusals()
    expect(not proxy.facts("started"), "an upstream was started")
    proxy.loaded("alpha")
    expect_refusals()


@check(
    "ours-error-dialect", "Errors on /v1/* are objects for OpenAI's SDK (x-stainless-lang) and texts for others.", CROWD
)
def error_dialect(proxy: Proxy) -> None:
    sdk = {"x-stainless-lang": "python"}
    for body, status in ((chat_body(NOBODY), 404), (b"{", 400), (chat_body("dud"), 503)):
        plain = proxy.call("POST", "/v1/chat/completions", body)
        expect(plain.status == status and isinstance(plain.get("error"), str), plain)
        answer = proxy.call("POST", "/v1/chat/completions", body, sdk)
        error = answer.get("error")
        expect(answer.status == status and isinstance(error, dict), answer)
        expect({"message", "type", "code"} <= error.keys() and isinstance(error["message"], str), answer)
    outside = proxy.load(NOBODY, sdk)
    expect(isinstance(outside.get("error"), str), f"outside /v1: {outside}")


# Many clients


@check("ours-one-start", "Concurrent requests for one cold model start one process and are all answered.", CROWD)
def one_start(proxy: Proxy) -> None:
    for answer in together(*[lambda: proxy.chat("sleepy")] * 6):
        expect_said(answer, "sleepy")
    proxy.only_fact("started", "sleepy")


@check("ours-two-clients", "Two clients that keep asking for different models both get every answer whole.", CROWD)
def two_clients(proxy: Proxy) -> None:
    def ask_streaming() -> list[str]:
        return [
            str(s)
            for s in (proxy.stream("brief").read() for _ in range(4))
            if s.text() != said("brief") or not s.complete()
        ]

    def ask_unary() -> list[str]:
        return [str(a) for a in (proxy.chat("beta") for _ in range(4)) if a.status != 200 or a.text() != said("beta")]

    wrong = together(ask_streaming, ask_unary)
    expect(wrong == [[], []], wrong)
    expect(not proxy.facts("client_gone"), proxy.facts("client_gone"))


@check("ours-disconnect", "A client that leaves a stream is noticed by the upstream within a second.", CROWD)
def disconnect(proxy: Proxy) -> None:
    proxy.loaded("slow")
    stream = proxy.stream("slow", max_tokens=50)
    expect(next(iter(stream), None), stream)
    left = time.monotonic()
    stream.leave()
    gone = proxy.only_fact("client_gone", "slow")
    expect(gone.time - left < 1, f"noticed after {gone.time - left:.2f} s")


@check("ours-group-side-by-side", "Members of a group with `swap: false` run side by side.", PAIR)
def group_side_by_side(proxy: Proxy) -> None:
    for name in ("beta", "gamma", "beta"):
        expect_said(proxy.chat(name), name)
    expect(sorted(proxy.running()) == ["beta", "gamma"], proxy.running())
    health = proxy.health()
    pids = {name: proxy.only_fact("started", name).pid for name in ("beta", "gamma")}
    expect({name: entry["pid"] for name, entry in health.items()} == pids, f"{health}, upstreams {pids}")


# Upstreams that fail


@check("ours-dies-before-answer-502", "An upstream that dies before it answers gives 502 with an error text.", CROWD)
def dies_before_answer_502(proxy: Proxy) -> None:
    expect_said(proxy.chat("brittle"), "brittle")
    answer = proxy.chat("brittle")
    expect(answer.status == 502 and isinstance(answer.get("error"), str), answer)


@check("ours-dies-mid-stream", "An upstream that dies mid-stream never looks like a clean end to the client.", CROWD)
def dies_mid_stream(proxy: Proxy) -> None:
    stream = proxy.stream("snapping").read()
    expect(stream.text() and said("snapping").startswith(stream.text()), stream)
    expect("[DONE]" not in stream.data(), stream)
    expect(stream.broken or says_error(stream), stream)


def says_error(stream: Stream) -> bool:
    if any(event.startswith("event: error") for event in stream.events):
        return True
    return any("error" in json.loads(data) for data in stream.data() if data.startswith("{"))


@check("ours-restart-after-crash", "After an upstream crashed, the next request for it starts it again.", CROWD)
def restart_after_crash(proxy: Proxy) -> None:
    expect_said(proxy.chat("brittle"), "brittle")
    proxy.chat("brittle")
    expect_said(proxy.chat("brittle"), "brittle")
    expect(len(proxy.facts("started", "brittle")) == 2, f"{len(proxy.facts('started', 'brittle'))} starts")


@check(
    "ours-idle-crash", "An upstream that dies while idle is no longer reported as running and starts on demand.", CROWD
)
def idle_crash(proxy: Proxy) -> None:
    os.kill(proxy.loaded("alpha"), signal.SIGKILL)
    expect(eventually(lambda: proxy.running() == [], PATIENCE), f"still running: {proxy.running()}")
    expect_said(proxy.chat("alpha"), "alpha")


@check("ours-recovers-from-failed-start", "After a model failed to start, another one still loads and answers.", CROWD)
def recovers_from_failed_start(proxy: Proxy) -> None:
    expect(proxy.chat("dud").status == 503, "no 503 from the broken model")
    expect_said(proxy.chat("alpha"), "alpha")


# Stopping


@check("ours-sigkill-after-timeout", "An upstream that ignores SIGTERM is killed after unloadTimeout.", STUBBORN)
def sigkill_after_timeout(proxy: Proxy) -> None:
    pid = proxy.loaded("stubborn")
    answer = proxy.unload("stubborn")
    expect_result(answer, "ok", "stubborn")
    proxy.only_fact("sigterm", "stubborn")
    expect(1.8 <= answer.seconds <= LATE, f"answered after {answer.seconds:.1f} s")
    expect_stopped(proxy, pid, "stubborn")


@check("ours-swap-past-stubborn", "An upstream that ignores SIGTERM delays a swap but does not prevent it.", STUBBORN)
def swap_past_stubborn(proxy: Proxy) -> None:
    pid = proxy.loaded("stubborn")
    answer = proxy.chat("alpha")
    expect_said(answer, "alpha")
    expect(answer.seconds <= LATE and not alive(pid), f"after {answer.seconds:.1f} s, stubborn alive: {alive(pid)}")


@check("ours-shutdown", "On SIGTERM the proxy finishes requests in flight, stops its upstreams and exits 0.", CROWD)
def shutdown(proxy: Proxy) -> None:
    proxy.loaded("slow")
    streamed, unary = in_background(lambda: proxy.stream("slow").read()), in_background(lambda: proxy.chat("slow"))
    expect(eventually(lambda: len(proxy.inferences("slow")) == 2, PATIENCE), "the requests never reached the upstream")
    proxy.process.terminate()
    expect(streamed.result().complete() and streamed.result().text() == said("slow"), streamed.result())
    expect_said(unary.result(), "slow")
    try:
        code = proxy.process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        code = None
    expect(code == 0, f"exit code {code}")
    expect(not proxy.survivors(), proxy.survivors())


@check(
    "ours-proxy-killed", "A proxy killed with SIGKILL leaves no upstream behind, ready or loading, within 3 s.", PAIR
)
def proxy_killed(proxy: Proxy) -> None:
    proxy.loaded("beta")
    in_background(lambda: proxy.load("endless"))
    expect(eventually(lambda: proxy.facts("started", "endless"), PATIENCE), "the second model never started")
    proxy.process.kill()
    left = eventually_none(proxy.survivors, within=3)
    expect(not left, f"alive after 3 s: {[stub.name for stub in left]}")


# Who may ask


def check_foreign(label: str, truth: str, headers: Headers) -> None:
    @check(f"ours-foreign-{label}", truth, CROWD)
    def foreign(proxy: Proxy) -> None:
        refused = [("load", proxy.load("beta", headers)), ("cold chat", proxy.chat("beta", headers=headers))]
        time.sleep(0.3)
        expect(
            not proxy.facts("started"),
            f"an upstream was started by {[f'{what}: {answer}' for what, answer in refused]}",
        )
        proxy.loaded("alpha")
        for name, path in (
            ("chat", "/v1/chat/completions"),
            ("native", "/completion"),
            ("path", "/upstream/alpha/completion"),
        ):
            refused.append((name, proxy.call("POST", path, chat_body("alpha"), headers)))
        refused.append(("unload", proxy.unload("alpha", headers)))
        expect(not proxy.inferences(), f"reached the upstream: {proxy.inferences()}")
        expect(not proxy.facts("sigterm") and proxy.running() == ["alpha"], f"stopped, running {proxy.running()}")
        odd = [f"{what}: {answer}" for what, answer in refused if answer.status != 403]
        expect(not odd, odd)


check_foreign("host", "A foreign Host header is refused with 403 and has no effect.", {"Host": "evil.example"})
check_foreign(
    "origin", "A cross-site Origin is refused with 403 and has no effect.", {"Origin": "https://evil.example"}
)
check_foreign(
    "fetch-site", "Sec-Fetch-Site: cross-site is refused with 403 and has no effect.", {"Sec-Fetch-Site": "cross-site"}
)


@check("ours-own-pages-allowed", "Requests from the proxy's own pages, by 127.0.0.1 or localhost, are served.", CROWD)
def own_pages_allowed(proxy: Proxy) -> None:
    for host in (f"127.0.0.1:{proxy.port}", f"localhost:{proxy.port}"):
        own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        for answer in (proxy.load("alpha", own), proxy.chat("alpha", headers=own), proxy.unload("alpha", own)):
            expect(answer.status == 200, f"{host}: {answer}")


# Configuration


@check("ours-use-model-name", "useModelName is the model name the upstream sees; other fields stay as sent.", CROWD)
def use_model_name(proxy: Proxy) -> None:
    answer = proxy.chat("renamed", "größe", temperature=0.25)
    expect(answer.get("received") == chat_body("real-name", "größe", temperature=0.25), answer)
    expect_said(answer, "renamed", "größe")


@check("ours-aliases", "An alias reaches its model in bodies and URLs, and the model keeps its own name.", CROWD)
def aliases(proxy: Proxy) -> None:
    expect_said(proxy.chat("al"), "alpha")
    expect(proxy.running() == ["alpha"], proxy.running())
    expect(proxy.load("first").status == 200, "load by alias failed")
    proxy.only_fact("started", "alpha")
    names = [entry["id"] for entry in proxy.call("GET", "/v1/models").get("data")]
    expect(not {"al", "first"} & set(names), names)


@check("ours-unlisted", "An unlisted model is left out of /v1/models but served.", CROWD)
def unlisted(proxy: Proxy) -> None:
    names = [entry["id"] for entry in proxy.call("GET", "/v1/models").get("data")]
    expect("hidden" not in names and "alpha" in names, names)
    expect_said(proxy.chat("hidden"), "hidden")


@check("ours-env", "The env entries of a model reach its upstream.", CROWD)
def env(proxy: Proxy) -> None:
    seen = proxy.call("GET", "/upstream/dressed/props").get("env")
    expect(seen == {"STUB_COLOUR": "red", "STUB_SIZE": "10 x 20"}, seen)


@check("ours-check-endpoint", "checkEndpoint and proxy decide where readiness is asked.", CROWD)
def check_endpoint(proxy: Proxy) -> None:
    expect_said(proxy.chat("elsewhere"), "elsewhere")
    expect(
        [fact.target for fact in proxy.facts("request_started")][:1] == ["/props"], "no GET /props before the request"
    )


def expect_idle_for(seconds: float) -> None:
    expect(0.9 <= seconds <= 3, f"SIGTERM after {seconds:.2f} s of idling with a ttl of 1 s")


@check(
    "ours-ttl-from-ready",
    "A loaded but unused model is stopped ttl seconds after it was ready; reading resets nothing.",
    FLEETING,
)
def ttl_from_ready(proxy: Proxy) -> None:
    pid = proxy.loaded("idle")
    eventually(lambda: proxy.running() == [], PATIENCE)
    expect_idle_for(proxy.only_fact("sigterm", "idle").time - proxy.only_fact("ready", "idle").time)
    expect_stopped(proxy, pid, "idle")


@check("ours-ttl-from-last-request", "A request longer than the ttl is not cut; the ttl counts from its end.", FLEETING)
def ttl_from_last_request(proxy: Proxy) -> None:
    expect_said(proxy.chat("busy"), "busy")
    finished = proxy.only_fact("request_finished", "busy").time
    expect_idle_for(proxy.only_fact("sigterm", "busy").time - finished)


@check("ours-no-ttl", "A model without a ttl stays.", FLEETING)
def no_ttl(proxy: Proxy) -> None:
    pid = proxy.loaded("kept")
    time.sleep(2.5)
    expect(proxy.running() == ["kept"] and alive(pid), proxy.running())
