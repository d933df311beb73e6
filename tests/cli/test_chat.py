"""`hotseat run`: streams, reasoning and failures, against a scripted server."""

from __future__ import annotations

import io
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from hotseat.cli import chat
from hotseat.cli.chat import Chat, converse
from hotseat.cli.client import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.command_line import Typed


class ScriptedServer(ThreadingHTTPServer):
    """Answers each request with the next scripted events, and records the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ScriptedHandler)
        self.answers: list[list[Any]] = []
        self.asked: list[Any] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class ScriptedHandler(BaseHTTPRequestHandler):
    server: ScriptedServer

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in self.server.answers.pop(0):
            self.wfile.write(
                f": still here\n\ndata: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
            )

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def piece(text: str, kind: str = "content") -> dict[str, Any]:
    return {"choices": [{"delta": {kind: text}}]}


def test_a_question_is_answered(server: ScriptedServer, typed: Typed) -> None:
    """Pieces are concatenated; control sequences and reasoning do not reach a pipe."""
    server.answers = [
        [piece("hmm", "reasoning_content"), piece("He\x1b[31mllo,\n"), {"choices": []}, piece("you"), "[DONE]"]
    ]
    said = typed("run", "m", "hi", "--url", server.url)

    assert (said.code, said.out) == (0, "Hello,\nyou\n")
    assert server.asked == [{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}]


def test_a_pipe_may_ask(server: ScriptedServer, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a prompt, standard input is the prompt."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a file"))
    server.answers = [[piece("yes"), "[DONE]"]]
    typed("run", "m", "--url", server.url)

    assert server.asked[0]["messages"][0]["content"] == "from a file"


@pytest.mark.parametrize("error", ["it died", {"message": "it died", "code": "upstream_failed"}])
def test_an_error_within_the_stream_is_a_failure(server: ScriptedServer, typed: Typed, error: object) -> None:
    """The text before the error is printed."""
    server.answers = [[piece("well"), {"error": error}]]
    said = typed("run", "m", "hi", "--url", server.url)

    assert (said.code, said.out, said.err) == (1, "well", "hotseat: it died\n")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_the_reasoning_on_a_terminal(
    server: ScriptedServer, typed: Typed, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """llama.cpp and vLLM have different names for it."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(chat, "Thinking", OnATerminal)
    server.answers = [[piece("hmm", name), piece("yes"), "[DONE]"]]
    said = typed("run", "m", "hi", "--url", server.url)

    assert said.out == "\x1b[2mhmm\x1b[0m\n\nyes\n"


class OnATerminal(chat.Thinking):
    def __init__(self) -> None:
        super().__init__()
        self._is_shown = True


def test_an_error_with_terminal_escapes(server: ScriptedServer, typed: Typed) -> None:
    """The terminal gets the text only, also of 8-bit sequences."""
    server.answers = [[piece("we\x9b31mll"), {"error": "it \x1b]0;title\x07died\x9b2J"}]]
    said = typed("run", "m", "hi", "--url", server.url)

    assert (said.code, said.out, said.err) == (1, "well", "hotseat: it died\n")


def test_a_conversation_remembers(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The history lasts until /clear; a failed prompt is not part of it, and end of input ends the command."""
    server.answers = [[piece("1"), "[DONE]"], [{"error": "no"}], [piece("2"), "[DONE]"], [piece("3"), "[DONE]"]]
    lines = iter(["one", "", "fails", "two", "/?", "/clear", "three"])

    def typed(_: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    converse(Chat(Server(server.url), "m"))

    asked = [[message["content"] for message in body["messages"]] for body in server.asked]
    assert asked == [["one"], ["one", "1", "fails"], ["one", "1", "two"], ["three"]]
    said = capsys.readouterr().out
    assert "/clear starts a new conversation" in said
    assert "new conversation\n3\n" in said


def test_settings_of_a_conversation(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They go into every following request, and each is confirmed; a line with a slash is never sent."""
    server.answers = [[piece("1"), "[DONE]"]]
    lines = iter(
        ["/set system Be brief.", "/set parameter temperature 0.2", "/set parameter", "/sett x", "hello", "", "/bye"]
    )
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    converse(Chat(Server(server.url), "m"))
    [body], (out, err) = server.asked, capsys.readouterr()

    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    assert body["temperature"] == 0.2
    assert "system prompt: Be brief.\ntemperature: 0.2\n" in out
    assert "hotseat: /set system TEXT sets the system prompt" in err
    assert "hotseat: /sett is not a command; /clear starts a new conversation" in err


def test_ctrl_c_at_the_prompt_throws_the_line_away(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message says how to quit."""
    lines: list[str | None] = ["/bye", None]

    def typed(_: str) -> str:
        if line := lines.pop():
            return line
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", typed)
    converse(Chat(Server(server.url), "m"))

    assert "(/bye quits)" in capsys.readouterr().out
    assert server.asked == []


def test_an_unreachable_server_exits_4(typed: Typed) -> None:
    """The exit code says so too."""
    said = typed("run", "m", "hi", "--url", "http://127.0.0.1:9")

    assert said.code == 4
