"""The contract and our decisions where outside readers stumbled: edges that a first reading misses."""

from __future__ import annotations

import json
import os
import signal
import socket

from rig import (
    NOBODY,
    PATIENCE,
    Config,
    Proxy,
    chat_body,
    check,
    eventually,
    expect,
    expect_error_naming,
    expect_said,
    model,
)

EDGES: Config = {
    "healthCheckTimeout": 20,
    "models": {
        "alpha": model(),
        "beta": model(),
        "dud": model("--exit-on-start"),
    },
}
ANY_HOST: Config = {**EDGES, "allowedHosts": ["*"], "allowedOrigins": ["*"]}


def raw(proxy: Proxy, data: bytes) -> bytes:
    """What comes back until the connection closes."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        answer = b""
        while more := connection.recv(65536):
            answer += more
        return answer


@check("edge-retry-after-failed-start", "After a failed start the next request tries again at once.", EDGES)
def retry_after_failed_start(proxy: Proxy) -> None:
    for _ in range(2):
        expect(proxy.chat("dud").status == 503, "no 503 from a model that cannot start")
    starts = len(proxy.facts("started", "dud"))
    expect(starts == 2, f"{starts} starts for two requests")


@check("edge-short-503", "The text of a 503 is one short line that names the model.", EDGES)
def short_503(proxy: Proxy) -> None:
    text = proxy.chat("dud").get("error")
    expect(isinstance(text, str) and "dud" in text and "\n" not in text and len(text) <= 400, repr(text)[:600])


@check("edge-killed-twice", "A server that is killed while ready starts again on demand, time after time.", EDGES)
def killed_twice(proxy: Proxy) -> None:
    for _ in range(3):
        expect_said(proxy.chat("alpha"), "alpha")
        os.kill(proxy.facts("started", "alpha")[-1].pid, signal.SIGKILL)
        expect(eventually(lambda: proxy.running() == [], PATIENCE), f"still running: {proxy.running()}")
    expect_said(proxy.chat("alpha"), "alpha")


@check("edge-body-over-query", "The body's model wins over ?model= in the URL.", EDGES)
def body_over_query(proxy: Proxy) -> None:
    answer = proxy.call("POST", "/v1/chat/completions?model=alpha", chat_body(NOBODY))
    expect_error_naming(answer, 404, NOBODY)


@check("edge-put-names-model", "PUT and PATCH with a JSON body that names a model go to that model.", EDGES)
def put_names_model(proxy: Proxy) -> None:
    expect_said(proxy.chat("alpha"), "alpha")
    for method in ("PUT", "PATCH"):
        answer = proxy.call(method, "/v1/things", {"model": NOBODY})
        expect(answer.status == 404 and NOBODY in answer.body.decode(), f"{method}: {answer}")


@check("edge-delete-slash", "DELETE /upstream/{model}/ stops the model like the path without the slash.", EDGES)
def delete_slash(proxy: Proxy) -> None:
    proxy.loaded("alpha")
    answer = proxy.call("DELETE", "/upstream/alpha/")
    expect(answer.get("status") == "ok" and proxy.running() == [], f"{answer}, running {proxy.running()}")
    answer = proxy.call("DELETE", "/upstream/beta/")
    expect(answer.get("status") == "error" and proxy.running() == [], f"{answer}, running {proxy.running()}")


@check("edge-management-slash", "Management paths answer with a trailing slash too.", EDGES)
def management_slash(proxy: Proxy) -> None:
    for path in ("/health/", "/running/", "/v1/models/"):
        answer = proxy.call("GET", path)
        expect(answer.status in (200, 307, 308), f"{path}: {answer}")


@check("edge-head", "HEAD answers wherever GET does.", EDGES)
def head(proxy: Proxy) -> None:
    for path in ("/health", "/running", "/v1/models", "/metrics", "/swagger"):
        answer = proxy.call("HEAD", path)
        expect(answer.status == 200 and not answer.body, f"HEAD {path}: {answer.status}")


@check("edge-reason-phrase", "Status lines carry the standard reason phrase.", EDGES)
def reason_phrase(proxy: Proxy) -> None:
    body = json.dumps(chat_body(NOBODY)).encode()
    fields = (
        f"Host: 127.0.0.1:{proxy.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    head = "\r\n".join(["POST /v1/chat/completions HTTP/1.1", *fields, "", ""])
    line = raw(proxy, head.encode() + body).split(b"\r\n", 1)[0]
    expect(line == b"HTTP/1.1 404 Not Found", line)


@check("edge-local-names", "Names that only this machine or its containers use are accepted as Host.", EDGES)
def local_names(proxy: Proxy) -> None:
    for host in ("host.docker.internal", "box.local", "models.localhost", f"localhost:{proxy.port}"):
        answer = proxy.call("GET", "/health", headers={"Host": host})
        expect(answer.status == 200, f"Host {host}: {answer}")
    answer = proxy.call("GET", "/health", headers={"Host": "rebound.example.com"})
    expect(answer.status == 403, f"a foreign name: {answer}")


@check("edge-loopback-is-one-origin", "localhost and 127.0.0.1 are the same origin.", EDGES)
def loopback_is_one_origin(proxy: Proxy) -> None:
    answer = proxy.call("GET", "/v1/models", headers={"Origin": f"http://localhost:{proxy.port}"})
    expect(answer.status == 200, answer)


@check("edge-any-host", 'allowedHosts: ["*"] accepts every Host and allowedOrigins: ["*"] every origin.', ANY_HOST)
def any_host(proxy: Proxy) -> None:
    answer = proxy.call(
        "GET", "/v1/models", headers={"Host": "models.example.com", "Origin": "https://app.example.com"}
    )
    expect(answer.status == 200, answer)
