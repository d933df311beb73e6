"""Where keys come from: the text, the environment, files and hashes; and what is wrong with them."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from hotseat.catalog.redaction import HIDDEN
from hotseat.config.resolved import resolved
from hotseat.settings import ApiKey, Role

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.config_desk import Desk

MODEL = "models: {qwen: {cmd: 's ${PORT}', aliases: [q]}}\n"
DIGEST = sha256(b"sesame").hexdigest()


def keys(desk: Desk, text: str, **environ: str) -> tuple[ApiKey, ...]:
    return desk.load(MODEL + text, environ).settings.access.api_keys


def secret_file(tmp_path: Path, content: bytes, mode: int = 0o600) -> Path:
    file = tmp_path / "secret"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_a_key_may_lie_in_a_file_of_its_own(desk: Desk, tmp_path: Path) -> None:
    """The line end behind it is no part of it."""
    file = secret_file(tmp_path, b"sesame\n")

    assert keys(desk, f"apiKeys: [{{file: '{file}', name: ann}}]") == (ApiKey("sesame", Role.INFERENCE, "ann"),)


def test_a_key_may_come_from_the_environment_and_is_kept_from_servers(desk: Desk) -> None:
    """Whoever reads a server's environment finds nothing to come in with."""
    loaded = desk.load(MODEL + "apiKeys: [{key: '${env.KEY}'}]", {"KEY": "sesame"})

    assert loaded.settings.access.api_keys[0].secret == "sesame"
    assert loaded.withheld_env == {"KEY"}


def test_a_key_may_be_known_by_its_hash_alone(desk: Desk) -> None:
    """Then the configuration gives nothing away."""
    (key,) = keys(desk, f"apiKeys: [{{hash: 'sha256:{DIGEST.upper()}', role: operate}}]")

    assert key == ApiKey("", Role.OPERATE, hashed=DIGEST)


def test_limits_and_models_of_a_key(desk: Desk) -> None:
    """An alias counts as its model."""
    (key,) = keys(desk, "apiKeys: [{key: k, models: [q], requestsPerMinute: 60, concurrencyLimit: 4}]")

    assert key == ApiKey("k", Role.INFERENCE, models=("qwen",), per_minute=60, concurrency=4)


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ("{role: admin}", "apiKeys[0]: must have one of key, file and hash"),
        (f"{{key: k, hash: 'sha256:{DIGEST}'}}", "apiKeys[0]: must have one of key, file and hash"),
        ("{hash: 'md5:abc'}", "apiKeys[0].hash: must be sha256: and 64 hexadecimal digits"),
        ("{file: /nowhere/secret}", "apiKeys[0].file: the file cannot be read: No such file or directory"),
        ("{file: /dev/zero}", "apiKeys[0].file: the file cannot be read: it is no regular file"),
        ("{key: k}, {key: k}", "apiKeys[1]: this key is there already"),
        ("{key: k, name: ann}, {key: l, name: ann}", 'apiKeys[1].name: another key is called "ann"'),
    ],
)
def test_a_key_that_cannot_be_meant(desk: Desk, entries: str, complaint: str) -> None:
    """Each mistake is told at its place, and no secret with it."""
    (told,) = [each for each in desk.mistakes(f"{MODEL}apiKeys: [{entries}]") if "error" in each]

    assert complaint in told


@pytest.mark.parametrize("content", [b"", b"two words", b"two\nlines", b"\xff", b"x\0y"])
def test_a_file_that_holds_no_key(desk: Desk, tmp_path: Path, content: bytes) -> None:
    """Nobody should wonder why the right key is refused."""
    (told,) = desk.mistakes(f"{MODEL}apiKeys: [{{file: '{secret_file(tmp_path, content)}'}}]")

    assert "must hold a key and nothing else" in told or "it is not UTF-8" in told


def test_a_pipe_is_not_waited_for(desk: Desk, tmp_path: Path) -> None:
    """Reading it would hang until somebody writes."""
    os.mkfifo(tmp_path / "pipe")
    (told,) = desk.mistakes(f"{MODEL}apiKeys: [{{file: '{tmp_path / 'pipe'}'}}]")

    assert "it is no regular file" in told


def test_a_file_that_everybody_may_read_is_worth_a_word(desk: Desk, tmp_path: Path) -> None:
    """It loads, with a warning that says what to do."""
    file = secret_file(tmp_path, b"sesame", mode=0o644)
    (told,) = desk.warnings(f"{MODEL}apiKeys: [{{file: '{file}'}}]")

    assert f"everybody on this machine may read this key. Run chmod o-r {file}" in told


def test_a_model_that_nobody_knows_is_worth_a_word(desk: Desk) -> None:
    """It may come with a folder of models later on."""
    (told,) = desk.warnings(f"{MODEL}apiKeys: [{{key: k, models: [qwem]}}]")

    assert 'apiKeys[0].models[0]: no model is called "qwem". Did you mean "qwen"?' in told


def test_what_is_shown_of_a_key_is_no_secret(desk: Desk) -> None:
    """Neither the key nor its hash; its holder and limits are."""
    loaded = desk.load(f"{MODEL}apiKeys: [{{key: sesame, name: ann}}, {{hash: 'sha256:{DIGEST}'}}]")
    shown = resolved(loaded)["settings"]["apiKeys"]

    assert [entry["key"] for entry in shown] == [HIDDEN, HIDDEN]
    assert shown[0]["name"] == "ann"
    assert "sesame" not in str(shown) + repr(loaded.settings)
    assert DIGEST not in str(shown) + repr(loaded.settings)
