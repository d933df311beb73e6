"""API keys without a configuration file: created, used, rotated and revoked with the installed command."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.client import PATIENCE_S
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.hotseat import PROGRAM, Hotseat
from tests.support.processes import environment
from tests.support.stubs import STUB, stub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = {"models": {"slow": stub("slow", "--token-delay 0.2")}}
MANY = 3000
"""Words: far more than are spoken before the test ends."""


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def first_key(hotseat: Hotseat) -> str:
    created = hotseat.cli("keys", "create", "root", "--role", "admin", "--yes")
    assert created.returncode == 0, created.stderr
    return created.stdout.strip()


def changed(hotseat: Hotseat, root: str, *words: str) -> str:
    done = hotseat.cli("keys", *words, HOTSEAT_API_KEY=root)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def hotseat(tmp_path: Path) -> Iterator[ForkedHotseat]:
    with ForkedHotseat(CONFIG, tmp_path) as hotseat:
        yield hotseat


def test_the_life_of_a_key(hotseat: ForkedHotseat) -> None:
    """The first key closes the server for everybody else; a revoked one loses its stream in the middle."""
    was_open = hotseat.call("GET", "/running").status
    root = first_key(hotseat)
    bob = changed(hotseat, root, "create", "bob")
    stream = hotseat.stream("slow", MANY, **bearer(bob)).until_it_speaks()
    new = changed(hotseat, root, "rotate", "bob")
    old_secret, new_secret = (hotseat.call("GET", "/v1/models", **bearer(key)).status for key in (bob, new))
    goes_on = next(iter(stream))
    changed(hotseat, root, "revoke", "bob")
    stream.read()

    assert was_open == 200
    assert hotseat.call("GET", "/running").status == 401
    assert (old_secret, new_secret) == (401, 200)
    assert "content" in goes_on
    assert not stream.done
    assert hotseat.call("GET", "/v1/models", **bearer(new)).status == 401
    assert "bob" not in changed(hotseat, root, "list")
    assert not any(secret in hotseat.log() for secret in (root, bob, new))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedHotseat]:
    """Two models that nobody starts, and a key for each way to ask."""
    config = {
        "models": {name: stub(name) for name in ("alpha", "gamma-secret")},
        "selectors": {"best": {"strategy": "pin", "targets": ["gamma-secret"]}},
        "apiKeys": [
            {"name": "all", "key": "for-all-models", "role": "operate"},
            {"name": "some", "key": "for-one-model", "role": "operate", "models": ["alpha", "best"]},
        ],
    }
    with ForkedHotseat(config, tmp_path_factory.mktemp("guarded")) as hotseat:
        yield hotseat


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/chat/completions", {"model": "gamma-secre"}),
        ("POST", "/v1/chat/completions", {"messages": []}),
        ("POST", "/api/chat", {"model": "gamma-secre", "messages": []}),
        ("POST", "/api/show", {"model": "gamma-secre"}),
        ("POST", "/models/load", {"model": "gamma-secre"}),
        ("POST", "/models/load", {"model": "best"}),
        ("GET", "/upstream/gamma-secre/", None),
        ("GET", "/completion?model=gamma-secre", None),
        ("GET", "/hotseat/models/gamma-secre/estimate", None),
        ("GET", "/hotseat/models/gamma-secre", None),
    ],
)
def test_only_a_key_for_all_models_is_told_names(
    guarded: ForkedHotseat, method: str, path: str, body: dict[str, object] | None
) -> None:
    """A misspelt name, a missing one or a selector is answered with names of models, but not to a key for some."""
    told = {
        secret: guarded.call(method, path, body, **bearer(secret)).body.decode()
        for secret in ("for-all-models", "for-one-model")
    }

    assert "gamma-secret" in told["for-all-models"]
    assert "gamma-secret" not in told["for-one-model"]


def test_keys_survive_restarts(tmp_path: Path) -> None:
    """Also in the process that still serves old clients: the stream of a key that is revoked later is cut."""
    with Hotseat(CONFIG, tmp_path) as hotseat:
        root = first_key(hotseat)
        bob = changed(hotseat, root, "create", "bob")
        stream = hotseat.stream("slow", MANY, **bearer(bob)).until_it_speaks()
        restarted = hotseat.cli("restart", HOTSEAT_API_KEY=root)
        next(iter(stream))
        still_valid = hotseat.call("GET", "/v1/models", **bearer(bob)).status
        changed(hotseat, root, "revoke", "bob")
        stream.read()

        assert restarted.returncode == 0, restarted.stderr
        assert still_valid == 200
        assert not stream.done
        assert hotseat.call("GET", "/v1/models", **bearer(bob)).status == 401
        assert hotseat.call("GET", "/v1/models").status == 401
    with ForkedHotseat(CONFIG, tmp_path) as hotseat:
        assert hotseat.call("GET", "/v1/models").status == 401
        assert hotseat.call("GET", "/v1/models", **bearer(root)).status == 200


def test_keys_that_cannot_be_read(tmp_path: Path) -> None:
    """hotseat does not start without the keys that exist; the message names their file."""
    file, config = tmp_path / "keys.json", tmp_path / "config.yaml"
    file.write_text('{"format": 1, "keys": [')
    config.write_text("models: {}")
    environ = {**os.environ, "STATE_DIRECTORY": str(tmp_path)}
    argv = [str(PROGRAM), "serve", "--config", str(config), "--listen", "127.0.0.1:0"]
    ended = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)

    assert ended.returncode == 3
    assert f"the API keys of {file} cannot be read" in ended.stderr


def test_a_reload_that_names_a_created_key(hotseat: ForkedHotseat) -> None:
    """The configuration is refused, because nobody would know whose rights count; the key keeps its own."""
    root = first_key(hotseat)
    hotseat.write({**CONFIG, "apiKeys": [{"name": "root", "key": "another-secret-for-root"}]})
    reloaded = hotseat.call("POST", "/hotseat/reload", **bearer(root))

    assert 'the API key "root" exists twice' in str(reloaded.json())
    assert hotseat.call("GET", "/v1/models", **bearer("another-secret-for-root")).status == 401
    assert hotseat.call("GET", "/v1/models", **bearer(root)).status == 200


def test_a_model_server_gets_a_key_of_its_own(tmp_path: Path) -> None:
    """Also if no key is in the configuration: other users of the machine cannot ask it either."""
    program = tmp_path / "llama-server"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {STUB} --name llama "$@"\n')
    program.chmod(0o755)
    with ForkedHotseat({"models": {"llama": {"cmd": f"{program} --port ${{PORT}}"}}}, tmp_path) as hotseat:
        root = first_key(hotseat)
        loaded = hotseat.call("GET", "/upstream/llama/load", **bearer(root))
        variables = environment(hotseat.health()["llama"]["pid"])

    assert loaded.status == 200, loaded.body
    assert b"LLAMA_API_KEY=" in variables
