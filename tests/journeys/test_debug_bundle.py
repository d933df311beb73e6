"""`hotseat debug-bundle`: canaries everywhere a secret can be, and none of them in the unpacked bundle."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tarfile
from contextlib import ExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fleet_journey import nats_cluster
from tests.support.hotseat import PROGRAM, Hotseat
from tests.support.llama import llama
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ECHO = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

print("started as", sys.argv)
print("in", dict(os.environ))
for name, value in os.environ.items():
    print(f"{name}={value}")

class Echo(BaseHTTPRequestHandler):
    def do_GET(self):
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        print("got", self.requestline, dict(self.headers), flush=True)
        print(self.headers, flush=True)
        print("body", sent, flush=True)
        print("as a string", json.dumps(json.dumps(sent)), flush=True)
        body = json.loads(sent or "{}")
        said = body.get("prompt") or body.get("messages", [{}])[0].get("content")
        print(f'GenerateReqInput(text="{said}", stream=False)', flush=True)
        print(f"formatted prompt: {said}", flush=True)
        print(f"<|im_start|>user\\n{said}\\n<|im_end|>", flush=True)
        body = b'{"said": "hello"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

HTTPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"""
"""A model server that prints all that it was given: its command line, its environment and every request."""
PLACES = (
    *("plain key", "key in env", "key in file", "peer's key", "fleet secret", "fleet password", "password in a URL"),
    *("option", "option=", "variable", "secret variable", "stop option"),
    *("inherited token", "inherited word", "inherited value"),
    *("bearer", "cookie", "query", "prompt", "completion prompt", "header", "wrong key"),
)
KEYS = (
    *("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "github_pat_11ABCDEFG0abcdefghij_klmnop", "AKIAIOSFODNN7EXAMPLE"),
    *("hf_abcdefghijklmnopqrst", "sk-proj-abcdefghijklmnop"),
)
"""Of other services; only their form tells what they are."""


def canary(place: str) -> str:
    return f"canary-{sha256(place.encode()).hexdigest()[:24]}"


ENVIRON = {
    "OUR_KEY": canary("key in env"),
    "HF_TOKEN": canary("inherited token"),
    "WORD": canary("inherited word"),
    "HARMLESS": canary("inherited value"),
}


def config(folder: Path, nats: str) -> dict[str, Any]:
    (folder / "echo.py").write_text(ECHO)
    (folder / "key").write_text(canary("key in file"))
    words = f"--api-key {canary('option')} --hf-token={canary('option=')} ${{env.WORD}}"
    words += f" --db postgres://user:{canary('password in a URL')}@127.0.0.1/db"
    echo = {
        "cmd": f"{shlex.quote(sys.executable)} {shlex.quote(str(folder / 'echo.py'))} ${{PORT}} {words}",
        "cmdStop": f"sh -c 'kill $0' ${{PID}} --token {canary('stop option')}",
        "env": [f"SETTING={canary('variable')}", f"DB_PASSWORD={canary('secret variable')}"],
    }
    fleet = {"name": "a", "secret": canary("fleet secret"), "user": "u", "password": canary("fleet password")}
    return {
        "logLevel": "debug",
        "apiKeys": [
            canary("plain key"),
            {"key": "${env.OUR_KEY}", "name": "env"},
            {"file": str(folder / "key"), "name": "file"},
        ],
        "peers": {"far": {"proxy": f"http://127.0.0.1:{free_port()}", "models": ["x"], "apiKey": canary("peer's key")}},
        "fleet": {**fleet, "nats": [nats], "address": "http://127.0.0.1:1"},
        "models": {"echo": echo, "alpha": llama("alpha", "-v")},
    }


def used(hotseat: Hotseat) -> Iterator[int]:
    """Requests with secrets in every part of them."""
    messages = [{"role": "user", "content": canary("prompt")}]
    headers = {
        "x-api-key": canary("plain key"),
        "Authorization": f"Bearer {canary('bearer')}",
        "Cookie": f"session={canary('cookie')}",
        "X-Secret": canary("header"),
        "X-Words": " ".join(KEYS),
    }
    for model in ("echo", "alpha"):
        path = f"/v1/chat/completions?api_key={canary('query')}"
        yield hotseat.call("POST", path, {"model": model, "messages": messages, "max_tokens": 4}, **headers).status
        body = {"model": model, "prompt": canary("completion prompt"), "max_tokens": 4}
        yield hotseat.call("POST", "/v1/completions", body, **headers).status
    yield hotseat.call("GET", "/hotseat/models", Authorization=f"Bearer {canary('wrong key')}").status


def unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        members = {entry.name: archive.extractfile(entry) for entry in archive}
        return {name.partition("/")[2]: opened.read().decode() for name, opened in members.items() if opened}


def leaks(files: dict[str, str], *more: str) -> list[str]:
    secrets = {**{place: canary(place) for place in PLACES}, **{secret: secret for secret in more}}
    return [
        f"{place} in {name}: {text[max(0, at - 200) : at + 60]!r}"
        for name, text in files.items()
        for place, secret in secrets.items()
        if (at := text.find(secret)) >= 0
    ]


def bare(hotseat: Hotseat, file: Path, key: str) -> None:
    """From a terminal that has none of the server's variables and cannot read its configuration."""
    command = [str(PROGRAM), "debug-bundle", "-o", str(file), "--url", hotseat.url]
    environ = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(file.parent), "HOTSEAT_API_KEY": key}
    subprocess.run(command, env=environ, check=True)


@pytest.mark.timeout(180)
def test_the_bundle_of_a_running_hotseat(tmp_path: Path) -> None:
    """It has logs, state and configuration, and no secret, no prompt, no value of the environment and no home."""
    with ExitStack() as stack:
        (nats,) = stack.enter_context(nats_cluster(tmp_path / "nats", 1))
        hotseat = stack.enter_context(Hotseat(config(tmp_path, nats.url), tmp_path, environ=ENVIRON))
        stack.callback(lambda: print(hotseat.log()))
        admin = {"HOTSEAT_API_KEY": canary("plain key")}
        created = hotseat.cli("keys", "create", "ann", "--role", "admin", **admin).stdout.strip()
        statuses = [*used(hotseat)]
        bundle = tmp_path / "bundle.tar.gz"
        done = hotseat.cli("debug-bundle", "-o", str(bundle), HOTSEAT_API_KEY=created, HOME=str(tmp_path))
        bare(hotseat, tmp_path / "bare.tar.gz", created)
        again = hotseat.cli("debug-bundle", "-o", str(bundle), **admin)
    files = unpacked(bundle)

    assert done.returncode == 0, done.stderr
    assert statuses == [200, 200, 200, 200, 401]
    assert leaks(files, created, str(tmp_path), "badu", *KEYS) == []
    assert leaks(unpacked(tmp_path / "bare.tar.gz"), created, str(tmp_path), "badu", *KEYS) == []
    assert {"README.txt", "config.json", "models.json", "fleet.json", "metrics.txt", "logs/hotseat.txt"} <= files.keys()
    assert all(name in done.stdout for name in files if name != "README.txt")
    assert "started as" in files["logs/0-echo.txt"]
    assert "update_slots" in files["logs/1-alpha.txt"]
    assert json.loads(files["config.json"])["resolved"]["models"]["echo"]["env"]["SETTING"] == "(hidden)"
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert (again.returncode, "exists already" in again.stderr) == (1, True)


def bundle_here(folder: Path, written: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """What the command prints and writes for a configuration that no server has."""
    (folder / "config.yaml").write_text(json.dumps(written))
    command = [str(PROGRAM), "debug-bundle", "-o", "b.tar.gz", "--url", f"http://127.0.0.1:{free_port()}"]
    environ = {**os.environ, **ENVIRON, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, unpacked(folder / "b.tar.gz")


def test_the_bundle_without_a_server(tmp_path: Path) -> None:
    """It has what this machine knows, masked the same, and says what is missing."""
    said, files = bundle_here(tmp_path, config(tmp_path, "nats://127.0.0.1:1"))

    assert "missing: state, metrics and logs: no server responds at" in said
    assert files.keys() == {"README.txt", "versions.json", "devices.json", "doctor.json", "config.json"}
    assert leaks({**files, "output": said}, str(tmp_path)) == []
    assert "version: " in json.dumps(json.loads(files["versions.json"])["programs"])
    assert json.loads(files["config.json"])["resolved"]["models"]["alpha"]["cmd"][1:2] == ["-m"]


def test_the_bundle_of_a_configuration_with_an_error(tmp_path: Path) -> None:
    """The finding has the error without the password, which is not allowed in this place."""
    nats = f"nats://user:{canary('password in a URL')}@127.0.0.1:1"
    said, files = bundle_here(tmp_path, config(tmp_path, nats))

    assert "fleet.nats: must not contain a user or a password" in files["doctor.json"]
    assert "config.json" not in files
    assert leaks({**files, "output": said}, str(tmp_path)) == []


def test_the_canaries_can_be_found() -> None:
    """A search that finds nothing where something is would prove nothing."""
    assert len(leaks({"file": " ".join(map(canary, PLACES))})) == len(PLACES)
