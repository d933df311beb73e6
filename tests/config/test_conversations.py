"""The key `conversations`, and which models keep theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hotseat.catalog.catalog import compare
from hotseat.cli.check import check
from hotseat.config.effective import resolved
from hotseat.settings import Conversations, GiB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.config_files import ConfigFiles

LLAMA = "llama-server -m m.gguf --port ${PORT}"


def text(key: str, command: str = LLAMA, env: str = "") -> str:
    return f"{key}\nmodels:\n  m:\n    cmd: {command}\n    env: [{env}]\n"


def keeps(files: ConfigFiles, written: str, environ: Mapping[str, str] | None = None) -> bool:
    return files.load(written, environ).catalog.resolve("m").keeps_conversations


@pytest.mark.parametrize(
    ("key", "disk"),
    [
        ("", 0),
        ("conversations:", 0),
        ("conversations: off", 0),
        ("conversations: 'no'", 0),
        ("conversations: false", 0),
        ("conversations: {disk: 0}", 0),
        ("conversations: on", 20 * GiB),
        ("conversations: ON", 20 * GiB),
        ("conversations: yes", 20 * GiB),
        ("conversations: true", 20 * GiB),
        ("conversations: {}", 20 * GiB),
        ("conversations: {disk: 512MiB}", GiB // 2),
    ],
)
def test_how_much_disk_they_may_use(files: ConfigFiles, key: str, disk: int) -> None:
    """Nothing is written to disk unless the file says so, and a model is asked to keep them only then."""
    loaded = files.load(text(key))

    assert loaded.settings.conversations == Conversations(disk)
    assert loaded.catalog.resolve("m").keeps_conversations == bool(disk)
    assert loaded.problems == ()


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("onn", 'conversations: must be on, off or a mapping such as {disk: 20GiB}, not "onn". Did you mean "on"?'),
        ("20GiB", 'conversations: must be on, off or a mapping such as {disk: 20GiB}, not "20GiB"'),
        ("1", "conversations: must be on, off or a mapping such as {disk: 20GiB}, not 1"),
        ("[on]", "conversations: must be on, off or a mapping such as {disk: 20GiB}, not a list"),
        ("{dsk: 1GiB}", 'conversations.dsk: unknown key. Did you mean "disk"?'),
        ("{disk: lots}", 'conversations.disk: must be a size such as 18GiB, 24GB or a number of bytes, not "lots"'),
    ],
)
def test_mistakes(files: ConfigFiles, key: str, problem: str) -> None:
    """Each says what may be written instead."""
    (mistake,) = files.mistakes(text(f"conversations: {key}"))

    assert mistake.endswith(f"error: {problem}")


@pytest.mark.parametrize(
    "command",
    [
        LLAMA,
        f"/opt/llama.cpp/{LLAMA} --parallel 4 --mmproj p.gguf",
        f"nice -n 5 env LLAMA_ARG_EMBEDDINGS=0 {LLAMA}",
        f"sh -c 'exec {LLAMA}'",
    ],
)
def test_a_llama_server_that_runs_here_keeps_them(files: ConfigFiles, command: str) -> None:
    """Also behind a wrapper that passes the environment on."""
    assert keeps(files, text("conversations: on", command))


@pytest.mark.parametrize(
    ("command", "env", "reason"),
    [
        ("whisper-server --port ${PORT}", "", "no llama-server"),
        ("vllm serve qwen --port ${PORT}", "", "no llama-server"),
        (f"docker run --rm --name m image {LLAMA}", "", "started by docker"),
        ("/usr/bin/podman run --rm --name m llama.cpp --port ${PORT}", "", "started by podman"),
        (f"ssh gpu1 {LLAMA}", "", "started by ssh"),
        (f"sh -c 'exec sudo -u llama {LLAMA}'", "", "started by sudo"),
        (f"{LLAMA} --slot-save-path /srv/slots", "", "--slot-save-path is set"),
        (f"{LLAMA} --slot_save_path=/srv/slots", "", "--slot-save-path is set"),
        (f"env LLAMA_ARG_SLOT_SAVE_PATH=/srv/slots {LLAMA}", "", "LLAMA_ARG_SLOT_SAVE_PATH is set"),
        (LLAMA, "LLAMA_ARG_SLOT_SAVE_PATH=/srv/slots", "LLAMA_ARG_SLOT_SAVE_PATH is set"),
        (f"{LLAMA} --embeddings", "", "--embeddings"),
        (f"{LLAMA} --reranking", "", "--reranking"),
        (LLAMA, "LLAMA_ARG_EMBEDDINGS=1", "LLAMA_ARG_EMBEDDINGS"),
        (f"{LLAMA} --no-slots", "", "--no-slots"),
        (f"{LLAMA} --no-cache-prompt", "", "--no-cache-prompt"),
        (f"{LLAMA} --lora-scaled style.gguf:0.5", "", "--lora-scaled"),
        ("llama-server -hf org/model:Q4_K_M --port ${PORT}", "", "-hf"),
        (LLAMA, "LLAMA_ARG_HF_REPO=org/model", "LLAMA_ARG_HF_REPO"),
        (f"bwrap --bind / / {LLAMA}", "", "started by bwrap"),
        (f"runuser -u llama -- {LLAMA}", "", "started by runuser"),
    ],
)
def test_other_servers_do_not_keep_them(
    files: ConfigFiles, capsys: pytest.CaptureFixture[str], command: str, env: str, reason: str
) -> None:
    """Those that have none, do not run here, or save to a folder that somebody else has chosen; `check` says which."""
    written = text("conversations: on", command, env)
    check([files.write("config.yaml", written)], as_json=False, lenient=False)

    assert not keeps(files, written)
    assert f"No conversations are kept for m ({reason}).\n" in capsys.readouterr().out


def test_a_path_in_hotseats_environment_is_the_users(files: ConfigFiles) -> None:
    """Model servers inherit it, and hotseat does not replace it."""
    assert not keeps(files, text("conversations: on"), {"LLAMA_ARG_SLOT_SAVE_PATH": "/srv/slots"})


def test_check_says_who_keeps_them_where(
    files: ConfigFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And that they are removed at the end; a configuration without them is summed up as before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    check([files.write("config.yaml", text("conversations: {disk: 8GiB}"))], as_json=False, lenient=False)
    on = capsys.readouterr().out
    check([files.write("config.yaml", text(""))], as_json=False, lenient=False)

    assert on.splitlines()[2] == (
        f"Conversations are kept across swaps for m: at most 8 GiB in {tmp_path}/hotseat/conversations,"
        " removed when hotseat ends."
    )
    assert "onversations" not in capsys.readouterr().out
    assert not (tmp_path / "hotseat").exists()


def test_a_reload_that_turns_them_on_restarts_no_model(files: ConfigFiles) -> None:
    """The new value counts from the next start on."""
    off, on = files.load(text("")).catalog, files.load(text("conversations: on")).catalog

    assert on.resolve("m") != off.resolve("m")
    assert not compare(off, on)


def test_a_file_of_a_folder_keeps_them_too(files: ConfigFiles) -> None:
    """Also if it is found while hotseat runs."""
    folder = "modelsDir: {path: models, cmd: 'llama-server -m ${MODEL_PATH} --port ${PORT}'}"
    loaded = files.load(f"conversations: on\n{folder}\n")
    assert loaded.look_again is not None

    found = loaded.look_again(lambda _: {"qwen": Path("models/qwen.gguf")})

    assert found.resolve("qwen").keeps_conversations


def test_the_effective_values_are_shown(files: ConfigFiles) -> None:
    """As `GET /hotseat/config` and `hotseat check --json` return them."""
    shown = resolved(files.load(text("conversations: {disk: 1GiB}")))

    assert shown["settings"]["conversations"] == {"disk": GiB}
    assert shown["keepConversations"] == ["m"]
