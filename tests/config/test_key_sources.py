"""Keys in the text, the environment, files and hashes, and errors about them."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from hotseat.catalog.redaction import HIDDEN
from hotseat.config.effective import resolved
from hotseat.settings import ApiKey, Budget, Role

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.config_files import ConfigFiles

MODEL = "models: {qwen: {cmd: 's ${PORT}', aliases: [q]}}\n"
DIGEST = sha256(b"open-sesame-please").hexdigest()


def keys(files: ConfigFiles, text: str, **environ: str) -> tuple[ApiKey, ...]:
    return files.load(MODEL + text, environ).settings.access.api_keys


def secret_file(tmp_path: Path, content: bytes, mode: int = 0o600) -> Path:
    file = tmp_path / "secret"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_a_key_may_lie_in_a_file_of_its_own(files: ConfigFiles, tmp_path: Path) -> None:
    """The trailing newline is not part of the key."""
    file = secret_file(tmp_path, b"open-sesame-please\n")

    assert keys(files, f"apiKeys: [{{file: '{file}', name: ann}}]") == (
        ApiKey("open-sesame-please", Role.INFERENCE, "ann"),
    )


def test_a_key_may_come_from_the_environment_and_is_kept_from_servers(files: ConfigFiles) -> None:
    """A model server's environment does not contain the key."""
    loaded = files.load(MODEL + "apiKeys: [{key: '${env.KEY}'}]", {"KEY": "open-sesame-please"})

    assert loaded.settings.access.api_keys[0].secret == "open-sesame-please"
    assert loaded.withheld_env == {"KEY"}


def test_a_key_may_be_known_by_its_hash_alone(files: ConfigFiles) -> None:
    """The configuration does not reveal the key then."""
    (key,) = keys(files, f"apiKeys: [{{hash: 'sha256:{DIGEST.upper()}', role: operate}}]")

    assert key == ApiKey("", Role.OPERATE, hashed=DIGEST)


def test_limits_and_models_of_a_key(files: ConfigFiles) -> None:
    """An alias counts as its model."""
    (key,) = keys(
        files,
        "apiKeys: [{key: the-key-of-somebody, models: [q], requests: 60/min, tokens: 2M/day,"
        " concurrencyLimit: 4, priority: batch}]",
    )

    assert key == ApiKey(
        "the-key-of-somebody",
        Role.INFERENCE,
        models=("qwen",),
        requests=Budget(60, 60.0),
        tokens=Budget(2_000_000, 86400.0),
        concurrency=4,
        is_batch=True,
    )


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("{role: admin}", "apiKeys[0]: must have exactly one of key, file and hash"),
        (
            f"{{key: the-key-of-somebody, hash: 'sha256:{DIGEST}'}}",
            "apiKeys[0]: must have exactly one of key, file and hash",
        ),
        ("{hash: 'md5:abc'}", "apiKeys[0].hash: must be sha256: and 64 hexadecimal digits"),
        (f"{{hash: 'sha256:{sha256(b'').hexdigest()}'}}", "apiKeys[0].hash: is the hash of an empty key"),
        ("{key: ''}", "apiKeys[0].key: a key must not be empty"),
        ("''", "apiKeys[0]: a key must not be empty"),
        ("{file: /nowhere/secret}", "apiKeys[0].file: the file cannot be read: No such file or directory"),
        ("{file: /dev/zero}", "apiKeys[0].file: the file cannot be read: it is not a regular file"),
        (
            "{key: the-key-of-somebody}, {key: the-key-of-somebody}",
            "apiKeys[1]: the same key is already defined in line 2",
        ),
        (
            f"{{key: open-sesame-please}}, {{hash: 'sha256:{DIGEST}', role: admin}}",
            "apiKeys[1]: the same key is already defined in line 2 of config.yaml. Give each user a separate key",
        ),
        (
            f"{{hash: 'sha256:{DIGEST}', role: inference}}, open-sesame-please",
            "apiKeys[1]: the same key is already defined",
        ),
        (
            "a",
            "apiKeys[0]: the key has fewer than 8 characters and can be guessed. Make one with `openssl rand -hex 24`",
        ),
        ("{key: seven-7, role: admin}", "apiKeys[0].key: the key has fewer than 8 characters and can be guessed"),
        (
            "{key: the-key-of-somebody, name: ann}, {key: the-key-of-another, name: ann}",
            'apiKeys[1].name: another key is already named "ann"',
        ),
        (
            "{key: the-key-of-somebody, name: 'user:ann'}",
            "apiKeys[0].name: a name must not begin with user:, which stands for users who have signed in at a proxy",
        ),
    ],
)
def test_a_key_that_cannot_be_meant(files: ConfigFiles, entries: str, problem: str) -> None:
    """Each error has its position and shows no secret."""
    (message,) = [each for each in files.mistakes(f"{MODEL}apiKeys: [{entries}]") if "error" in each]

    assert problem in message


@pytest.mark.parametrize("content", [b"", b"two words", b"two\nlines", b"\xff", b"x\0y"])
def test_a_file_that_holds_no_key(files: ConfigFiles, tmp_path: Path, content: bytes) -> None:
    """An unusable file is an error at once, not a key that never matches."""
    (message,) = files.mistakes(f"{MODEL}apiKeys: [{{file: '{secret_file(tmp_path, content)}'}}]")

    assert "must contain a key and nothing else" in message or "it is not UTF-8" in message


def test_a_pipe_is_not_waited_for(files: ConfigFiles, tmp_path: Path) -> None:
    """Reading a pipe would block until somebody writes."""
    os.mkfifo(tmp_path / "pipe")
    (message,) = files.mistakes(f"{MODEL}apiKeys: [{{file: '{tmp_path / 'pipe'}'}}]")

    assert "it is not a regular file" in message


def test_a_file_that_everybody_may_read_is_worth_a_word(files: ConfigFiles, tmp_path: Path) -> None:
    """The file loads, with a warning that says what to do."""
    file = secret_file(tmp_path, b"open-sesame-please", mode=0o644)
    (message,) = files.warnings(f"{MODEL}apiKeys: [{{file: '{file}'}}]")

    assert f"any user of this machine may read this key. Run chmod o-r {file}" in message


def test_a_model_that_nobody_knows_is_worth_a_word(files: ConfigFiles) -> None:
    """A folder of models may add it later."""
    (message,) = files.warnings(f"{MODEL}apiKeys: [{{key: the-key-of-somebody, models: [qwem]}}]")

    assert 'apiKeys[0].models[0]: no model is called "qwem". Did you mean "qwen"?' in message


def test_what_is_shown_of_a_key_is_no_secret(files: ConfigFiles) -> None:
    """The holder and the limits are shown, but neither the key nor its hash."""
    loaded = files.load(f"{MODEL}apiKeys: [{{key: another-long-secret, name: ann}}, {{hash: 'sha256:{DIGEST}'}}]")
    shown = resolved(loaded)["settings"]["apiKeys"]

    assert [entry["key"] for entry in shown] == [HIDDEN, HIDDEN]
    assert shown[0]["name"] == "ann"
    assert "another-long-secret" not in str(shown) + repr(loaded.settings)
    assert DIGEST not in str(shown) + repr(loaded.settings)


def test_a_key_in_a_file_has_a_least_length_too(files: ConfigFiles, tmp_path: Path) -> None:
    """The error is at the position of the file's name."""
    (message,) = files.mistakes(f"{MODEL}apiKeys: [{{file: '{secret_file(tmp_path, b'short')}'}}]")

    assert "apiKeys[0].file: the key has fewer than 8 characters" in message


def test_a_key_that_is_rather_short_is_worth_a_word(files: ConfigFiles) -> None:
    """Configurations of llama-swap have such keys, so they load."""
    (message,) = files.warnings(f"{MODEL}apiKeys: [{{key: sk-hunter2}}]")

    assert "warning: apiKeys[0].key: the key has fewer than 16 characters" in message


def test_a_mapping_says_what_its_key_may_do_and_a_text_may_do_everything(files: ConfigFiles) -> None:
    """The default role may use models; a plain text is llama-swap's form, in which every key may do everything."""
    text = "apiKeys: [the-key-of-somebody, {key: the-key-of-another}]"

    assert [key.role for key in keys(files, text)] == [Role.ADMIN, Role.INFERENCE]
    assert ApiKey("the-key-of-somebody").role is Role.INFERENCE
