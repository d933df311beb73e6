"""What `hotseat serve` says first."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.client import PATIENCE_S
from tests.support.hotseat import PROGRAM
from tests.support.ports import free_port

from hotseat.settings import Access, ApiKey, SignIn
from hotseat.startup.announcement import Banner, url_of

if TYPE_CHECKING:
    from pathlib import Path

MOST_LINES = 8
"""More would scroll other output away."""


@pytest.mark.parametrize(
    ("keys", "is_open", "said"),
    [
        ((), False, "this machine only, no API keys"),
        ((), True, "WARNING: anyone on the network can use and stop your models"),
        (("a",), False, "1 API key required"),
        (("a", "b"), True, "2 API keys required, open to other machines"),
    ],
)
def test_who_may_come_in_is_said(keys: tuple[str, ...], is_open: bool, said: str) -> None:
    """In few lines, whatever is to be said."""
    access = Access(api_keys=tuple(map(ApiKey, keys)))
    lines = Banner("http", [("127.0.0.1", 8080)], ["config.yaml"], 3, access, is_open).lines()

    assert any(said in line for line in lines)
    assert "  dashboard    http://127.0.0.1:8080/hotseat/ui/" in lines
    assert len(lines) <= MOST_LINES


def test_users_who_sign_in_are_said() -> None:
    """Alone, or besides keys."""
    both = Access(sign_in=SignIn("X-User"), api_keys=(ApiKey("a"),))
    for access, said in (
        (both, "1 API key or sign-in required"),
        (Access(sign_in=SignIn("X-User")), "sign-in required"),
    ):
        lines = Banner("http", [("127.0.0.1", 8080)], ["config.yaml"], 3, access, is_open=False).lines()

        assert any(line.endswith(f" {said}") for line in lines)


def test_the_address_for_ollamas_clients_is_said() -> None:
    """It is plain HTTP, whatever the other address is, and all of it still fits."""
    banner = Banner("https", [("::1", 8080)], ["config.yaml"], 3, Access(), False, [("127.0.0.1", 11434)])
    lines = banner.lines()

    assert "  for Ollama   http://127.0.0.1:11434" in lines
    assert len(lines) <= MOST_LINES


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:80"), ("::", "http://[::1]:80"), ("localhost", "http://localhost:80")],
)
def test_an_address_can_be_typed(host: str, url: str) -> None:
    """Every interface is this machine too."""
    assert url_of("http", host, 80) == url


def test_a_terminal_gets_the_banner(tmp_path: Path) -> None:
    """Address, models and the configuration's path, and no log lines in front of them."""
    config = tmp_path / "config.yaml"
    config.write_text("models: {qwen: {cmd: 'sleep ${PORT}'}}\n")
    port = free_port()
    terminal, theirs = pty.openpty()
    argv = [str(PROGRAM), "serve", "--config", str(config), "--listen", str(port)]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(argv, env=environment, stdout=theirs, stderr=theirs) as server:
        os.close(theirs)
        said = b""
        try:
            while b"/swagger" not in said:
                said += os.read(terminal, 4096)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE_S)
            os.close(terminal)

    first, *rest = said.decode().splitlines()
    assert first.endswith("is ready (Ctrl-C to stop)")
    assert rest[:3] == [
        f"  address      http://127.0.0.1:{port}",
        f"  base URL     http://127.0.0.1:{port}/v1",
        f"  models       1, from {config}",
    ]
