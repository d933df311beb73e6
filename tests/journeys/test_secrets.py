"""Canaries everywhere a secret can be; then everything that hotseat prints or serves is searched for them."""

from __future__ import annotations

import json
import shlex
import sys
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.hotseat import Hotseat
from tests.support.ports import free_port
from tests.support.processes import command_line, environment
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHATTY = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

print("started as", sys.argv, "in", dict(os.environ), flush=True)
if "--fail" in sys.argv:
    sys.exit("cannot start with " + " ".join(sys.argv))

class Chatty(BaseHTTPRequestHandler):
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b'{"said": "hello"}'
        self.send_response(500 if "fail" in self.path else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_PUT = do_GET

    def log_message(self, *args):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[1])), Chatty).serve_forever()
"""
"""A model server that prints its own command line and environment: some do."""


def canary(place: str) -> str:
    return f"canary-{sha256(place.encode()).hexdigest()[:12]}"


OURS = {place: canary(place) for place in ("plain key", "key in env", "key in file", "hashed key", "peer's key")}
"""Ours alone: not even model servers may know them."""
SERVERS = {place: canary(place) for place in ("option", "option=", "variable", "stop option", "inherited macro")}
FROM_ENV = {
    name: canary(name) for name in ("PLAIN_WORD", "HFT", "STOP_WORD", "MODE", "MEMBER", "SLEEP_WORD", "SERVED_NAME")
}
SERVERS |= FROM_ENV
"""Model servers must know them, and their own command lines show them to the kernel; nothing of hotseat may."""
CLIENTS = {place: canary(place) for place in ("bearer", "cookie", "query", "prompt", "wrong key", "header")}
"""Pass through on their way to a model server."""


def config(tmp_path: Path) -> dict[str, Any]:
    program = tmp_path / "chatty.py"
    program.write_text(CHATTY)
    key_file = tmp_path / "key"
    key_file.write_text(OURS["key in file"])
    key_file.chmod(0o600)
    server = f"{shlex.quote(sys.executable)} {shlex.quote(str(program))} ${{PORT}}"
    secret_words = f"--api-key {SERVERS['option']} --hf-token={SERVERS['option=']} --api-key ${{secret}}"
    secret_words += " ${env.PLAIN_WORD} -hft ${env.HFT} 'a text with ${env.PLAIN_WORD} in it'"
    model = {
        "cmd": f"{server} {secret_words}",
        "env": [f"HF_TOKEN={SERVERS['variable']}", "MODE=${env.MODE}"],
        "filters": {"setParams": {"member": "${env.MEMBER}"}},
        "sleep": {"suspend": "no-such-program ${env.SLEEP_WORD}", "resume": "POST /wake/${env.SLEEP_WORD}"},
        "useModelName": "${env.SERVED_NAME}",
    }
    stop = f"{shlex.quote(sys.executable)} -c 'import os, sys; os.kill(int(sys.argv[1]), 15)' ${{PID}}"
    return {
        "logLevel": "debug",
        "logToStdout": "both",
        "macros": {"secret": "${env.INHERITED}"},
        "apiKeys": [
            OURS["plain key"],
            {"key": "${env.OUR_KEY}", "role": "operate", "name": "env"},
            {"file": str(key_file), "name": "file"},
            {"hash": f"sha256:{sha256(OURS['hashed key'].encode()).hexdigest()}", "name": "hash"},
        ],
        "peers": {"far": {"proxy": f"http://127.0.0.1:{free_port()}", "models": ["x"], "apiKey": OURS["peer's key"]}},
        "models": {
            "good": {**model, "cmdStop": f"{stop} --token {SERVERS['stop option']} ${{env.STOP_WORD}}"},
            "bad": {**model, "cmd": f"{model['cmd']} --fail"},
        },
    }


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Hotseat]:
    environ = {"OUR_KEY": OURS["key in env"], "INHERITED": SERVERS["inherited macro"], **FROM_ENV}
    with Hotseat(config(tmp_path), tmp_path, environ=environ) as rig:
        yield rig


FEEDS = (
    *("/hotseat/events", "/hotseat/traffic", "/models/sse", "/api/events"),
    *("/logs/stream", "/logs/stream/{source}"),
)
"""They do not end; /hotseat/models/{name} shows the same entries of the journal, and /logs the same lines."""


def served(rig: Hotseat) -> Iterator[str]:
    """What every path of the API answers to an admin, and to somebody with a wrong key."""
    admin, wrong = f"Bearer {OURS['plain key']}", f"Bearer {CLIENTS['wrong key']}"
    described = rig.call("GET", "/hotseat/openapi.json", Authorization=admin).json()
    for path, methods in described["paths"].items():
        filled = path.replace("{model}", "bad").replace("{name}", "good").replace("{ticket}", "1")
        for method in methods:
            if path in FEEDS or (method, path) == ("delete", "/upstream/{model}"):
                continue
            for credential in (admin, wrong):
                answer = rig.call(method.upper(), f"{filled}?key={CLIENTS['query']}", Authorization=credential)
                yield f"{method} {path} {answer.status} {answer.headers} {answer.body.decode()}"


def used(rig: Hotseat) -> Iterator[str]:
    """Requests of all kinds; what the client itself is answered may hold only what it sent itself."""
    body = {"model": "good", "messages": [{"role": "user", "content": CLIENTS["prompt"]}]}
    headers = {
        "Authorization": f"Bearer {CLIENTS['bearer']}",
        "x-api-key": OURS["plain key"],
        "Cookie": f"session={CLIENTS['cookie']}",
        "X-Secret": CLIENTS["header"],
    }
    query = f"?api_key={CLIENTS['query']}"
    for model in ("good", "bad", "far/x", "nobody"):
        answer = rig.call("POST", f"/v1/chat/completions{query}", {**body, "model": model}, **headers)
        yield f"chat {answer.status} {answer.headers} {answer.body.decode()}"
    for path in ("/slots", "/upstream/good/fail", "/upstream/nobody/x", "/upstream/good/../x"):
        answer = rig.call("GET", path + query, **headers)
        yield f"{path} {answer.status} {answer.headers} {answer.body.decode()}"


def said_by_commands(rig: Hotseat, key: str) -> Iterator[str]:
    for words in (
        ("ps",),
        ("list",),
        ("why", "good"),
        ("logs", "-n", "10000"),
        ("logs", "good"),
        ("check", str(rig.config)),
        ("check", "--json", str(rig.config)),
        ("doctor",),
    ):
        done = rig.cli(*words, HOTSEAT_API_KEY=key)
        yield f"{words} {done.stdout} {done.stderr}"


def found(text: str, *canaries: dict[str, str]) -> list[str]:
    """Where a secret shows: whose it is and what is around it."""
    return [
        f"{place}: {text[max(0, at - 200) : at + 60]!r}"
        for secrets in canaries
        for place, secret in secrets.items()
        if (at := text.find(secret)) >= 0
    ]


def test_no_secret_is_printed_or_served(rig: Hotseat) -> None:
    """Not in answers, errors, metrics, the journal, the configuration, the log, commands, or our own command lines."""
    answers = [*used(rig), *served(rig)]
    eventually(lambda: "started as" in rig.log())
    commands = [*said_by_commands(rig, OURS["plain key"])]
    ours = [command_line(pid) for pid in (rig.process.pid, *rig.processes("hotseat.model_servers.guard_process"))]
    leaks = [leak for text in (*answers, *commands, *ours) for leak in found(text, OURS, SERVERS, CLIENTS)]

    assert leaks == []
    assert len(answers) > 40
    rig.terminate()
    assert found(rig.log(), OURS, SERVERS, CLIENTS) == []


def test_a_model_server_gets_none_of_our_keys_and_nothing_of_a_request(rig: Hotseat) -> None:
    """Its command line and its environment are what the configuration says, whatever clients send."""
    for text in used(rig):
        assert text
    (server,) = [pid for pid in rig.processes("chatty.py") if "guard" not in command_line(pid)]
    known = command_line(server) + environment(server).decode(errors="replace")

    assert found(known, OURS, CLIENTS) == []
    assert SERVERS["option"] in known


def test_the_canaries_can_be_found() -> None:
    """A search that finds nothing where something is would prove nothing."""
    assert len(found(json.dumps({**OURS, **SERVERS, **CLIENTS}), OURS, SERVERS, CLIENTS)) == 23
