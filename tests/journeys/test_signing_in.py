"""Users sign in at nginx, which asks a sign-in service about each request; all as the how-to configures it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.nginx import HOST, nginx, shown, status
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROLES = {"ann": "inference", "ops": "operate", "eve": ""}
KEY = "a-key-for-programs"


class SignInService(BaseHTTPRequestHandler):
    """The cookie is the user; programs with a key need none."""

    def do_GET(self) -> None:
        user = (self.headers["Cookie"] or "").removeprefix("session=")
        has_key = "Authorization" in self.headers
        self.send_response(204 if user in ROLES or has_key else 401)
        if user in ROLES:
            self.send_header("X-User", user)
            self.send_header("X-Role", ROLES[user])
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class Ports(NamedTuple):
    proxy: int
    hotseat: ForkedHotseat
    state: Path

    def status(self, path: str, method: str = "GET", **headers: str) -> int:
        return status(self.proxy, path, method, Host=HOST, **headers)


@pytest.fixture
def sign_in() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SignInService) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        yield service.server_port
        service.shutdown()


@pytest.fixture
def ports(tmp_path: Path, sign_in: int) -> Iterator[Ports]:
    config = yaml.safe_load(shown("yaml", "signIn"))
    config |= {"models": {}, "apiKeys": [{"name": "program", "key": KEY, "role": "operate"}]}
    with ForkedHotseat(config, tmp_path) as hotseat:
        locations = shown("nginx", "auth_request").replace(":8080", f":{hotseat.port}").replace(":9090", f":{sign_in}")
        with nginx(tmp_path, locations) as port:
            yield Ports(port, hotseat, tmp_path / "state/hotseat")


def test_a_user_has_the_role_that_the_service_states(ports: Ports) -> None:
    """Without a sign-in nothing is served; a role gives what it gives to a key."""
    assert ports.status("/v1/models") == 401
    assert ports.status("/v1/models", Cookie="session=nobody") == 401
    assert ports.status("/v1/models", Cookie="session=ann") == 200
    assert ports.status("/hotseat/queue", Cookie="session=ann") == 403
    assert ports.status("/hotseat/queue", Cookie="session=ops") == 200


def test_headers_of_a_client_are_replaced(ports: Ports) -> None:
    """Whatever role or name a client of nginx sends, the service decides; also if it states no role."""
    forged = {"X_Forwarded_User": "root", "X_Forwarded_Role": "admin"}

    assert ports.status("/v1/models", **forged) == 401
    assert ports.status("/hotseat/queue", Cookie="session=ann", **forged) == 403
    assert ports.status("/hotseat/queue", Cookie="session=eve", **forged) == 403
    assert ports.status("/v1/models", Cookie="session=eve", **forged) == 200


def test_programs_use_keys(ports: Ports) -> None:
    """Through nginx, where they have no session, and past it; a wrong key is none."""
    key, wrong = {"Authorization": f"Bearer {KEY}"}, {"Authorization": "Bearer wrong"}

    assert ports.status("/hotseat/queue", **key) == 200
    assert ports.status("/v1/models", **wrong) == 401
    assert ports.hotseat.call("GET", "/hotseat/queue", **key).status == 200
    assert ports.hotseat.call("GET", "/hotseat/queue").status == 401


def actions(file: Path) -> list[tuple[str, str, str]]:
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    return [(each["event"], each["user"], each["action"]) for each in entries if each["event"] != "refused"]


def test_the_audit_has_the_user(ports: Ports) -> None:
    """And the action, before and after it was done."""
    reloaded = ports.status("/hotseat/reload", "POST", Cookie="session=ops")
    recorded = eventually(lambda: len(found := actions(ports.state / "audit.jsonl")) == 2 and found)

    assert reloaded == 200
    assert recorded == [("begin", "ops", "POST /hotseat/reload"), ("end", "ops", "POST /hotseat/reload")]
