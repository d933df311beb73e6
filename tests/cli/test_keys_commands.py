"""`hotseat keys`: what it prints, and when it asks before it turns authentication on."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from hotseat.settings import ApiKey, Role
from hotseat.state.key_file import KeyFile
from hotseat.state.local_proof import PROOF

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import CommandLine, Typed

FIRST = ("keys", "create", "ann", "--role", "admin")


@pytest.fixture
def here(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A server of this process, with the state directory of the command line."""
    command_line.rig.restarts.serving_pid = os.getpid()
    monkeypatch.setenv("STATE_DIRECTORY", str(command_line.rig.folder))
    return command_line


def is_secret_of(rig_digest: bytes, printed: str) -> bool:
    return sha256(printed.strip().encode()).digest() == rig_digest


async def test_the_first_key(here: CommandLine) -> None:
    """Standard output has the secret alone, for scripts; the proof of being the same user is not left behind."""
    said = await here.type(*FIRST, "--yes")
    [account] = here.rig.accounts.all()

    assert said.code == 0, said.err
    assert is_secret_of(account.digest, said.out)
    assert "from now on every client needs a key; its secret is shown only now:" in said.err
    assert not (here.rig.folder / PROOF).exists()


async def test_nobody_is_there_to_confirm_it(here: CommandLine) -> None:
    """Clients that run now would fail, so a script must say --yes."""
    said = await here.type(*FIRST)

    assert said.code == 1
    assert "there is no terminal to ask at, so no key was created; --yes answers yes" in said.err
    assert here.rig.accounts.all() == []


async def test_the_first_key_of_another_machine(here: CommandLine) -> None:
    """The process that answers is none of this user's, so it gets no proof."""
    here.rig.restarts.serving_pid = 3920
    said = await here.type(*FIRST, "--yes")

    assert said.code == 1
    assert "no process of yours on this machine listens at" in said.err
    assert here.rig.accounts.all() == []


async def test_another_state_directory(here: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server does not find the proof, and says as whom the command must run."""
    monkeypatch.setenv("STATE_DIRECTORY", str(here.rig.folder / "other"))
    said = await here.type(*FIRST, "--yes")

    assert said.code == 1
    assert "as that user, on the same machine and with the same state directory" in said.err


async def test_further_keys(here: CommandLine) -> None:
    """A list of keys shows their rights and where they are defined; of one that was revoked nothing is left."""
    here.rig.configure_keys(ApiKey("sesame", Role.ADMIN, "root"))
    options = ("--model", "q", "--requests", "60/min", "--concurrency-limit", "2")
    # The server behind the relay believes the relay, which checks keys; here there is none.
    refused = await here.type("keys", "create", "bob", *options, "--api-key", "sesame")
    await here.rig.created_keys.create(ApiKey("", Role.INFERENCE, "bob", models=("qwen",)))
    listed = await here.type("keys", "list")
    as_json = await here.type("keys", "list", "--json")

    assert "only the user who runs hotseat" in refused.err
    assert [line.split() for line in listed.out.splitlines()] == [
        ["NAME", "ROLE", "MODELS", "SOURCE", "REQUESTS", "IN", "FLIGHT"],
        ["root", "admin", "all", "configuration", "0", "0"],
        ["bob", "inference", "qwen", "created", "0", "0"],
    ]
    assert [key["name"] for key in json.loads(as_json.out)] == ["root", "bob"]


async def test_no_keys(here: CommandLine) -> None:
    """The list says what that means."""
    assert "no API keys: everybody who can reach this server" in (await here.type("keys", "list")).out


@pytest.mark.parametrize(("command", "said"), [("check", "does not start"), ("doctor", "exposure")])
def test_an_open_address_whose_keys_were_created(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    """`hotseat check` and `hotseat doctor` know the keys of this user, and report a file that is damaged."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    config = tmp_path / "config.yaml"
    config.write_text("listen: 0.0.0.0:1\nmodels: {}")
    argv = (command, str(config)) if command == "check" else (command, "--config", str(config))

    def printed() -> str:
        said = typed(*argv)
        return said.out + said.err

    without = printed()
    KeyFile(tmp_path / "keys.json").change(lambda _: (ApiKey("", Role.ADMIN, "ann", "a" * 64),))
    with_key = printed()
    (tmp_path / "keys.json").write_text("{")
    damaged = printed()

    assert said in without
    assert "can be reached from other machines and no apiKeys are configured" in without
    assert "no apiKeys are configured" not in with_key
    assert f"the API keys of {tmp_path}" in damaged
    assert command == "doctor" or [typed(*argv).code, "does not start" in damaged] == [3, True]


def test_a_created_key_that_is_also_configured(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hotseat check` refuses it as `hotseat serve` does."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    KeyFile(tmp_path / "keys.json").change(lambda _: (ApiKey("", Role.ADMIN, "ann", "a" * 64),))
    config = tmp_path / "config.yaml"
    config.write_text("apiKeys: [{name: ann, key: a-key-of-twenty-signs}]\nmodels: {}")
    said = typed("check", str(config))

    assert said.code == 3
    assert 'error: the API key "ann" exists twice' in said.err
