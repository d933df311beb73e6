"""Names and addresses of this machine are known without asking anybody."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from hotseat.net.this_machine import is_here, own_names

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def no_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "workshop")
    monkeypatch.delattr(socket, "getaddrinfo")


HERE = ["127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::", "localhost", "qwen.localhost", "Workshop.", "workshop"]
ELSEWHERE = ["192.0.2.77", "2001:db8::77", "8.8.8.8", "gpu-box", "workshop.example"]


@pytest.mark.usefixtures("no_look_up")
@pytest.mark.parametrize(
    ("host", "expected"), [*((host, True) for host in HERE), *((host, False) for host in ELSEWHERE)]
)
def test_whether_a_host_is_this_machine(host: str, *, expected: bool) -> None:
    """Unspecified addresses reach this machine as loopback ones do; no name is looked up."""
    assert is_here(host) is expected


def test_an_address_of_a_network_interface_is_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its interface, the kernel says so; if it reaches the address from another one, it is elsewhere."""
    monkeypatch.setattr(socket.socket, "connect", lambda *_: None)
    monkeypatch.setattr(socket.socket, "getsockname", lambda _: ("192.0.2.5", 40_000))

    assert is_here("192.0.2.5")
    assert not is_here("192.0.2.6")


def test_a_machine_knows_its_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's names are its host name and the hosts-file lines that contain it, without DNS."""
    monkeypatch.setattr(socket, "gethostname", lambda: "Workshop.")
    monkeypatch.delattr(socket, "getaddrinfo")
    hosts = tmp_path / "hosts"
    hosts.write_text(
        "127.0.0.1 localhost ads.evil.example\n0.0.0.0 tracker.example # workshop\n"
        "127.0.1.1 workshop.Home.example workshop\n\nbroken\n"
    )

    assert own_names(hosts) == {"workshop", "workshop.home.example"}
    assert own_names(tmp_path / "missing") == {"workshop"}


def test_the_address_of_a_model_server_is_no_name_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if somebody appended it to the line with the host name: hotseat's dashboard must not answer there."""
    monkeypatch.setattr(socket, "gethostname", lambda: "workshop")
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.1.1 workshop Qwen.localhost localhost gemma.localhost.\n")

    assert own_names(hosts) == {"workshop", "localhost"}


@pytest.mark.parametrize("name", ["localhost", ""])
def test_a_machine_without_a_name_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """If the host name is localhost or empty, no name of the hosts file is accepted."""
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost ads.evil.example\n")

    assert own_names(hosts) == set()
