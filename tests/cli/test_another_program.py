"""Another program answers where a hotseat is expected."""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.command_line import DRIPPING, answering
from typer.main import get_command

from hotseat.cli import client, diagnosis_commands, doctor
from hotseat.cli.commands import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.command_line import Typed

HEAD = b"HTTP/1.1 200 OK\r\nServer: tomcat\r\nConnection: close\r\nContent-Type: "
NUMBERS = b'application/json\r\n\r\n{"models": 3, "devices": 1, "queue": 5}'
EVERYTHING = b'{"message": "welcome", "secret": "s", "keys": [], "added": [], "changed": [], "removed": []}'
STREAM = HEAD + b"text/event-stream\r\n\r\n"
LATE = "has sent no complete response within 0.05 s"
ANSWERS = {
    "HTML": (HEAD + b"text/html\r\n\r\n<!doctype html><title>It works</title>", 1, "text/html, from tomcat"),
    "other JSON": (HEAD + b'application/json\r\n\r\n{"hello": "world"}', 1, "json"),
    "a list": (HEAD + b"application/json\r\n\r\n[1, 2]", 1, "json"),
    "silence": (b"", 4, LATE),
    "a header that never ends": (HEAD + DRIPPING, 4, LATE),
    "a body that never ends": (HEAD + b"application/json\r\n\r\n" + DRIPPING, 4, LATE),
    "garbage": (b"SSH-2.0-OpenSSH_9.2\r\n", 4, "no http"),
    "numbers": (HEAD + NUMBERS, 1, "json"),
    "a message": (HEAD + b'application/json\r\n\r\n{"message": "welcome"}', 1, "json"),
    "a number as message": (HEAD + b'application/json\r\n\r\n{"status": "ok", "message": 3}', 1, "json"),
    "everything": (HEAD + b"application/json\r\n\r\n" + EVERYTHING, 1, "json"),
    "nothing": (HEAD.replace(b"200 OK", b"204 No Content") + b"text/plain\r\n\r\n", 1, " responded "),
    "a list of numbers": (HEAD + b'application/json\r\n\r\n{"models": [3]}', 1, "json"),
    "events of words": (STREAM + b"data: hello\n\n", 1, " responded "),
    "events of lists": (STREAM + b"data: [1]\n\n", 1, " responded "),
    "no events": (STREAM, 1, "event-stream"),
    "an error of its own": (
        HEAD.replace(b"200 OK", b"500 Oops") + b'application/json\r\n\r\n{"error": 3}',
        1,
        "500 oops",
    ),
    "half a line": (b"\x00\xff\x17", 4, LATE),
}
"""What the program sends, the exit code of a command that needs hotseat, and what that says."""
WITHOUT_HOTSEAT: dict[tuple[str, ...], int] = {
    ("doctor",): 1,
    ("debug-bundle",): 0,
    ("devices",): 0,
    ("show",): 0,
    ("pull",): 1,
    ("rm",): 1,
}
"""Commands that do without a server, or fail here before they ask it, and their exit codes."""
OPTIONS: dict[tuple[str, ...], list[str]] = {
    ("run",): ["hello"],
    ("usage",): ["--csv"],
    ("stop",): ["model"],
    ("fleet", "logs"): ["model"],
}
ONE_SENTENCE = 2
"""Lines of standard error: none more than the sentence."""


def commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        elif any(each.name == "url" for each in command.params):
            yield (*names, name), command


ASKING = dict(commands(get_command(app)))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "config.yaml").write_text('models: {model: {cmd: "server --port ${PORT}"}}')
    monkeypatch.setattr(client, "MOST_BYTES", 1 << 20)


def wait_for_an_answer(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    for module, name in (
        (client, "SILENT_S"),
        (client, "ANSWER_S"),
        (doctor, "PATIENCE_S"),
        (diagnosis_commands, "PATIENCE_S"),
    ):
        monkeypatch.setattr(module, name, seconds)


@pytest.mark.parametrize("names", ASKING, ids=" ".join)
def test_every_command_says_what_answers(
    typed: Typed, names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence with what to do, the right exit code, and soon."""
    arguments = [each.name for each in ASKING[names].params if each.param_type_name == "argument" and each.required]
    for kind, (answer, code, says) in ANSWERS.items():
        wait_for_an_answer(monkeypatch, 0.05 if says == LATE else 10)  # a busy machine takes long to answer
        began = time.monotonic()
        for written in tmp_path.glob("hotseat-debug-*"):  # their names have seconds
            written.unlink()
        with answering(answer) as url:
            said = typed(*names, *arguments, *OPTIONS.get(names, ()), "--url", url)

        assert (kind, said.code) == (kind, WITHOUT_HOTSEAT.get(names, code))
        assert time.monotonic() - began < 20
        if names not in WITHOUT_HOTSEAT:
            assert said.err.startswith("hotseat: "), kind
            assert said.err.count("\n") < ONE_SENTENCE, kind
            assert says in said.err.lower(), kind
            assert "Set the address of one with --url or HOTSEAT_URL" in said.err, kind
            assert not said.out, kind


@pytest.mark.parametrize("answer", [b"", HEAD + DRIPPING, HEAD + b"text/html\r\n\r\n" + DRIPPING])
def test_a_server_that_responds_only_once(typed: Typed, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """What hotseat answers at once is not waited for without end after a greeting either."""
    monkeypatch.setattr(client, "_greet", lambda _: None)
    wait_for_an_answer(monkeypatch, 0.05)
    with answering(answer) as url:
        said = typed("ps", "--url", url)

    assert (said.code, said.out) == (4, "")
    assert LATE in said.err


@pytest.mark.parametrize(
    ("words", "head", "says"),
    [
        ("ps", b"application/json\r\n\r\n", "responded 200 with more than 1 MiB (application/json, from tomcat)"),
        ("logs", b"text/plain\r\n\r\n", "responded 200 with more than 1 MiB (text/plain, from tomcat)"),
        ("record trace --for 1s", b"text/event-stream\r\n\r\ndata: ", "another kind of JSON"),
    ],
)
def test_a_response_that_is_too_long(typed: Typed, words: str, head: bytes, says: str) -> None:
    """Only so much of it is kept, also of one line of a stream."""
    with answering(HEAD + head + b" " * (3 << 20)) as url:
        tracemalloc.start()
        said = typed(*words.split(), "--url", url)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert (said.code, said.out) == (1, ""), said.err
    assert says in said.err
    assert most < 4 << 20


def test_a_long_answer_of_hotseat_is_awaited(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load takes as long as it takes, while other questions are answered."""
    wait_for_an_answer(monkeypatch, 1.0)
    loaded = b'application/json\r\n\r\n{"status": "ok", "message": "qwen is ready"}'
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for pause_s in (0, 2 * client.SILENT_S):
                with listener.accept()[0] as connection:
                    connection.recv(65536)
                    threading.Event().wait(pause_s)  # a load takes time
                    connection.sendall(HEAD + loaded)

        threading.Thread(target=serve, daemon=True).start()
        said = typed("load", "qwen", "--url", f"http://127.0.0.1:{listener.getsockname()[1]}")

    assert (said.code, said.out) == (0, "qwen is ready\n")


@pytest.mark.parametrize("words", ["load", "fleet drain", "keys revoke"])
def test_nothing_is_completed(typed: Typed, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Whoever presses the tab key sees neither a traceback nor a sentence."""
    monkeypatch.setenv("_HOTSEAT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) + 1))
    for strange in (b'{"models": 3, "hosts": 3, "keys": 3}', b'{"models": [3], "hosts": [3], "keys": [3]}'):
        with answering(HEAD + b"application/json\r\n\r\n" + strange) as url:
            monkeypatch.setenv("COMP_WORDS", f"hotseat {words} ")
            monkeypatch.setenv("HOTSEAT_URL", url)
            said = typed()

        assert (said.code, said.out, said.err) == (0, "\n", "")


@pytest.mark.parametrize("event", [b"hello", b"[1]"])
def test_a_conversation_goes_on(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], event: bytes
) -> None:
    """The next response may be one that hotseat understands."""
    typing = iter(["hello", "hello", "/bye"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: next(typing))
    with answering(STREAM + b"data: " + event + b"\n\n") as url:
        said = typed("run", "model", "--url", url)

    assert (said.code, said.err.count("hotseat: the server responded with another kind of JSON")) == (0, 2)


def test_a_mistake_of_ours_is_not_said_of_a_server(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no server has answered, or what failed reads no answers, the traceback names the mistake."""
    monkeypatch.setattr("hotseat.cli.queries.ps", lambda *_: {"ours": 1}["mistake"])
    with pytest.raises(KeyError, match="mistake"):
        typed("ps")

    monkeypatch.setattr("hotseat.memory.machine.Sensors", None)
    with answering(HEAD + NUMBERS) as url, pytest.raises(TypeError, match="not callable"):
        typed("devices", "--url", url)
