"""`hotseat systemd`: units that systemd accepts, and that restrict the service."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.hotseat import PROGRAM

from hotseat.cli import systemd_unit

if TYPE_CHECKING:
    from tests.support.command_line import Typed

MOST_EXPOSED = 2.5
"""On systemd's scale from 0 to 10; a unit without any confinement has 9.6."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(systemd_unit, "SYSTEM_UNITS", tmp_path / "system")
    for name in ("config.yaml", "my config.yaml"):
        (tmp_path / name).write_text("listen: localhost:9090\nmodels: {}\n")
    return tmp_path


def test_the_unit_is_confined(folder: Path, typed: Typed) -> None:
    """`systemd-analyze security` rates it."""
    typed("systemd", "install", "--config", "my config.yaml")
    file = folder / "system/hotseat.service"
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", file], capture_output=True, text=True
    )
    verified = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True)

    level = re.search(r"Overall exposure level for hotseat.service: (\d+\.\d+)", judged.stdout)
    assert level, judged.stderr
    assert float(level[1]) <= MOST_EXPOSED
    assert verified.stderr == ""


def test_the_unit_names_program_and_configuration_in_full(folder: Path, typed: Typed) -> None:
    """systemd starts it in another folder with another PATH."""
    said = typed("systemd", "install", "--print", "--config", "my config.yaml")

    assert said.out.startswith("# hotseat.service\n[Unit]\n")
    assert f"ExecStart={PROGRAM} serve --config '{folder}/my config.yaml'\n" in said.out
    assert "Type=notify\n" in said.out


def test_a_printed_unit_is_not_written(folder: Path, typed: Typed) -> None:
    """Nor is a configuration needed that is there already."""
    said = typed("systemd", "install", "--print", "--config", "nothere.yaml")

    assert said.code == 0
    assert not (folder / "system").exists()


def test_the_state_directory_is_private(folder: Path, typed: Typed) -> None:
    """systemd would let every user list it."""
    said = typed("systemd", "install", "--print", "--config", "my config.yaml")

    assert "StateDirectory=hotseat\nStateDirectoryMode=0700\n" in said.out


def test_a_unit_of_ones_own_needs_no_root(folder: Path, typed: Typed) -> None:
    """It is installed in the user's folder, runs as the user, and the next steps use `--user`."""
    said = typed("systemd", "install", "--user")

    text = (folder / "config/systemd/user/hotseat.service").read_text()
    assert "User=" not in text
    assert "WantedBy=default.target" in text
    assert "next: systemctl --user daemon-reload && systemctl --user enable --now hotseat.service" in said.out


def test_the_socket_listens_where_the_configuration_says(folder: Path, typed: Typed) -> None:
    """localhost has two addresses; the socket is what gets enabled."""
    said = typed("systemd", "install", "--socket", "--config", "my config.yaml")

    text = (folder / "system/hotseat.socket").read_text()
    assert "ListenStream=127.0.0.1:9090\nListenStream=[::1]:9090\n" in text
    assert "systemctl enable --now hotseat.socket" in said.out


def test_a_unit_that_exists_is_left_alone(folder: Path, typed: Typed) -> None:
    """--force overwrites it."""
    file = folder / "system/hotseat.service"
    file.parent.mkdir()
    file.write_text("mine")
    refused, text = typed("systemd", "install"), file.read_text()
    forced = typed("systemd", "install", "--force")

    assert (refused.code, text) == (1, "mine")
    assert "--force overwrites it" in refused.err
    assert (forced.code, file.read_text() != "mine") == (0, True)


def test_a_unit_without_a_configuration_is_not_installed(folder: Path, typed: Typed) -> None:
    """The service would fail at every start."""
    said = typed("systemd", "install", "--config", "nothere.yaml")

    assert said.err == "hotseat: nothere.yaml does not exist; `hotseat init` writes a configuration\n"
    assert not (folder / "system").exists()


def test_what_cannot_be_written_is_an_error_with_a_way_out(
    folder: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message suggests sudo or a user unit."""
    (folder / "file").write_text("")
    monkeypatch.setattr(systemd_unit, "SYSTEM_UNITS", folder / "file")
    said = typed("systemd", "install")

    assert said.code == 1
    assert "use sudo, or --user for a user unit" in said.err


@pytest.mark.usefixtures("folder")
def test_a_wrong_configuration_has_no_address(typed: Typed) -> None:
    """A socket unit needs a valid configuration."""
    Path("bad.yaml").write_text("lisen: 1\n")
    said = typed("systemd", "install", "--print", "--socket", "--config", "bad.yaml")

    assert said.code == 1
    assert "the configuration has errors: " in said.err


def test_the_unit_leaves_model_servers_to_hotseat(folder: Path, typed: Typed) -> None:
    """systemd ends only the main process, asks for a restart with SIGUSR1, and goes on when a server is ended."""
    typed("systemd", "install")
    lines = (folder / "system/hotseat.service").read_text().splitlines()

    assert {"KillMode=process", "RestartKillSignal=SIGUSR1", "OOMPolicy=continue", "Restart=on-failure"} <= {*lines}


def test_servers_that_are_kept_keep_their_temporary_files(folder: Path, typed: Typed) -> None:
    """systemd deletes a PrivateTmp at each restart, under those who use it."""
    typed("systemd", "install")
    lines = (folder / "system/hotseat.service").read_text().splitlines()

    assert "ReadWritePaths=/tmp /var/tmp" in lines
    assert not any(line.startswith("PrivateTmp") for line in lines)


@pytest.mark.parametrize(("setting", "is_mentioned"), [("", True), ("crashGrace: 15s\n", False), ("lisen: 1\n", False)])
def test_without_a_grace_the_installation_says_what_to_add(
    folder: Path, typed: Typed, setting: str, is_mentioned: bool
) -> None:
    """One sentence; the file is left as it is, also if it has errors."""
    (folder / "config.yaml").write_text(f"models: {{}}\n{setting}")
    said = typed("systemd", "install", "--config", "config.yaml")

    assert ("add `crashGrace: 15s` to config.yaml" in said.out) == is_mentioned
    assert (folder / "config.yaml").read_text() == f"models: {{}}\n{setting}"
