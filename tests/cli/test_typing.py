"""Command line arguments: options, addresses, help, versions, and the resulting requests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.command_line import answering
from typer.main import get_command

from hotseat import __version__
from hotseat.cli import normalised
from hotseat.cli.commands import app
from hotseat.cli.tables import duration
from hotseat.config.units import parse_listen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.command_line import CommandLine, Typed

COMMANDS = (
    "init",
    "serve",
    "check",
    "doctor",
    "debug-bundle",
    "schema",
    "estimate",
    "pull",
    "restart",
    "show",
    "rm",
    "ps",
    "list",
    "load",
    "run",
    "top",
    "activity",
    "usage",
    "stop",
    "logs",
    "why",
    "devices",
    "yield",
    "reload",
    "profile",
    "record",
    "simulate",
    "fleet",
    "keys",
    "systemd",
)


def test_joining_a_fleet_that_could_not_come_back_is_refused(typed: Typed, tmp_path: Path) -> None:
    """Other hosts could not reach a host that listens on loopback only."""
    fleet = "fleet: {nats: nats://n1.example:4222}"
    (tmp_path / "config.yaml").write_text(f'models: {{qwen: {{cmd: "serve ${{PORT}}"}}}}\n{fleet}')
    said = typed("serve", "--config", str(tmp_path / "config.yaml"))

    assert said.code == 3
    assert "Set fleet.address" in said.err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9090", ("127.0.0.1", 9090)),
        ("localhost:80", ("localhost", 80)),
        (":8080", ("0.0.0.0", 8080)),
        ("9090", ("127.0.0.1", 9090)),
        ("[::1]:8080", ("::1", 8080)),
    ],
)
def test_an_address_may_be_written_in_several_ways(text: str, address: tuple[str, int]) -> None:
    """A bare port is this machine only; a bare colon is every interface, as in llama-swap."""
    assert parse_listen(text) == address


@pytest.mark.parametrize("text", ["", "here", "127.0.0.1:", "127.0.0.1:http", "::1:8080", "127.0.0.1:70000", "x:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """The error says how to write one."""
    with pytest.raises(ValueError, match="host:port"):
        parse_listen(text)


def test_flags_of_llama_swap_are_understood() -> None:
    """One dash works like two for its long options; nothing else is changed."""
    typed = ["serve", "-config", "a.yaml", "-listen=:8080", "-config-dir", "d", "-f", "--config", "-configure"]
    safe = ["-tls-cert-file", "c.pem", "-tls-key-file=k.pem"]

    assert normalised(safe) == ["--tls-cert-file", "c.pem", "--tls-key-file=k.pem"]
    assert normalised(typed) == [
        "serve", "--config", "a.yaml", "--listen=:8080", "--config-dir", "d", "-f", "--config", "-configure",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words", [("--config", "z.yaml", "--config", "more"), ("--config-dir", "more", "--config", "z.yaml")]
)
def test_a_configuration_may_be_in_a_folder(
    words: tuple[str, ...], tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are read in the order of their names, after the files that are named before it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more").mkdir()
    for file, level in (("z.yaml", "info"), ("more/b.yml", "warn"), ("more/a.yaml", "debug")):
        (tmp_path / file).write_text(f"logLevel: {level}\n")
    said = typed("serve", *words)

    assert said.code == 3
    assert "more/a.yaml:1:1: error: logLevel: has another value in z.yaml:1:1\nmore/b.yml:1:1: error: " in said.err


def test_without_a_name_the_configuration_is_in_the_current_folder(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is config.yaml."""
    monkeypatch.chdir(tmp_path)
    said = typed("serve")

    assert said.code == 3
    assert said.err.startswith("config.yaml:1:1: ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.4, "0s"), (59.4, "59s"), (185, "3m05s"), (3599.6, "1h00m"), (7620, "2h07m"), (353_000, "4d02h")],
)
def test_durations_are_short(seconds: float | None, text: str) -> None:
    """Two units are enough."""
    assert duration(seconds) == text


def test_the_version_is_printed(typed: Typed) -> None:
    """--version says which hotseat this is."""
    said = typed("--version")

    assert (said.code, said.out) == (0, f"hotseat {__version__}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example(typed: Typed, command: str) -> None:
    """Help ends with one real command line."""
    said = typed(command, "--help")

    assert f"Example: hotseat {command}" in said.out


TYPED = {
    "activity": ("activity",),
    "debug-bundle": ("debug-bundle", "-o", "{folder}/bundle.tar.gz"),
    "devices": ("devices",),
    "fleet cordon": ("fleet", "cordon", "a"),
    "fleet drain": ("fleet", "drain", "a"),
    "fleet logs": ("fleet", "logs", "qwen"),
    "fleet move": ("fleet", "move", "qwen", "a"),
    "fleet ps": ("fleet", "ps"),
    "fleet requests": ("fleet", "requests"),
    "fleet restart": ("fleet", "restart", "a"),
    "fleet status": ("fleet", "status"),
    "fleet uncordon": ("fleet", "uncordon", "a"),
    "fleet undrain": ("fleet", "undrain", "a"),
    "fleet why": ("fleet", "why", "qwen"),
    "keys create": ("keys", "create", "ann"),
    "keys list": ("keys", "list"),
    "keys revoke": ("keys", "revoke", "ann"),
    "keys rotate": ("keys", "rotate", "ann"),
    "list": ("list",),
    "load": ("load", "dud"),
    "logs": ("logs", "qwen"),
    "profile": ("profile",),
    "ps": ("ps",),
    "reload": ("reload",),
    "run": ("run", "qwen", "hello"),
    "stop": ("stop", "dud"),
    "top": ("top",),
    "usage": ("usage", "--csv"),
    "why": ("why", "qwen"),
    "yield": ("yield",),
}
OTHERWISE = ("doctor", "pull", "record", "restart", "rm", "show")
"""They begin with files of this machine, a download, a signal or a stream without an end."""


def commands_of_a_server(command: Any, name: str = "") -> Iterator[str]:
    """The commands that ask a running hotseat."""
    for each, inner in getattr(command, "commands", {}).items():
        yield from commands_of_a_server(inner, f"{name} {each}".strip())
    if any(parameter.name == "url" for parameter in command.params):
        yield name


def test_every_command_of_a_server_is_tried() -> None:
    """A new one needs a place in the list."""
    assert {*commands_of_a_server(get_command(app))} == TYPED.keys() | {*OTHERWISE}


def poisoned(value: Any) -> Any:
    """With terminal escapes in every text: 7-bit and 8-bit, a colour, a title and a bell."""
    match value:
        case str():
            return f"\x1b[31m{value}\x9b\x90\x1b]0;title\x07"
        case list():
            return [*map(poisoned, value)]
        case dict():
            return {name: poisoned(member) for name, member in value.items()}
    return value


async def test_no_command_prints_terminal_escapes_of_servers_and_clients(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither as a result nor in an error, nor in CSV; without them every text is as it was sent."""
    received = HTTPResponse.read

    def read(response: HTTPResponse, size: int | None = None) -> bytes:
        lines = received(response, size).decode().split("\n")
        try:
            return json.dumps(poisoned(json.loads("\n".join(lines))), ensure_ascii=False).encode()
        except ValueError:
            return "\n".join(map(poisoned, lines)).encode()

    monkeypatch.setattr(HTTPResponse, "read", read)
    for words in TYPED.values():
        said = await command_line.type(*(word.format(folder=tmp_path) for word in words))

        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", (said.out + said.err).replace("\r\n", "\n")), words
        assert said.out + said.err, words


LOG_LINE = {"at": 1.0, "text": "loaded", "model": "qwen", "level": "error", "host": "a"}
PINNED = {"name": "qwen", "pinned": True}
MACHINE = {"t": "machine", "patience": 1.0, "max_queue": 9, "devices": {}, "groups": [], "models": [PINNED]}
STREAMED: dict[tuple[str, ...], list[Any]] = {
    ("fleet", "logs", "qwen", "-f"): [LOG_LINE],
    ("logs", "-f"): [LOG_LINE],
    ("logs", "-f", "--json"): [LOG_LINE],
    ("record", "{folder}/trace.jsonl"): [MACHINE],
    ("run", "qwen", "hello"): [{"choices": [{"delta": {"content": "hi"}}]}, {"error": {"message": "out of memory"}}],
}
"""Commands that read a stream, and its events."""


@pytest.mark.parametrize("words", STREAMED, ids=" ".join)
@pytest.mark.parametrize("is_json", [True, False], ids=["in JSON", "around JSON"])
def test_no_command_prints_terminal_escapes_of_a_stream(
    typed: Typed, tmp_path: Path, words: tuple[str, ...], is_json: bool
) -> None:
    """Neither those in the texts of an event nor those around it."""
    events = [json.dumps(poisoned(each) if is_json else each, ensure_ascii=False) for each in STREAMED[words]]
    lines = "".join(f"data: {each if is_json else poisoned(each)}\n\n" for each in events)
    head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n"
    with answering((head + lines).encode()) as url:
        said = typed(*(word.format(folder=tmp_path) for word in words), "--url", url)

    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", said.out + said.err)
    assert said.out, said.err


def test_an_option_says_what_its_value_is() -> None:
    """Without words of its own, typer writes a type of Python: `<str>`, `<int range>` or `<list[Path]>`."""
    pending: list[Any] = [get_command(app)]
    named: list[tuple[str, str]] = []
    unclear: list[tuple[str, str]] = []
    while pending:
        command = pending.pop()
        pending += getattr(command, "commands", {}).values()
        for each in filter(is_of_a_bare_type, command.params):
            (named if each.metavar else unclear).append((command.name, each.name))

    assert unclear == []
    assert len(named) > 50


def is_of_a_bare_type(parameter: Any) -> bool:
    if parameter.param_type_name != "option" or getattr(parameter, "is_flag", False) or parameter.hidden:
        return False
    return parameter.multiple or parameter.type.name in (
        "str",
        "text",
        "integer",
        "integer range",
        "int",
        "int range",
        "float",
        "float range",
    )


def test_help_names_every_command(typed: Typed) -> None:
    """Every command is listed once, in one of the sections."""
    said = typed("--help")
    listed = said.out.partition("First steps:")[2].partition("Start with")[0].splitlines()

    assert sorted(line.split()[0] for line in listed if line.startswith("  ") and line.strip()) == sorted(COMMANDS)


def test_help_begins_with_what_to_do_first(typed: Typed) -> None:
    """It is also what `hotseat` alone prints."""
    said = typed("--help")

    assert said.out.index("  init ") < said.out.index("  serve ") < said.out.index("  run ")
    assert "Start with `hotseat init`" in said.out
    assert typed().err == said.out


@pytest.mark.parametrize(
    ("wrong", "meant"), [("srve", "serve"), ("chat", "run"), ("models", "list"), ("start", "serve"), ("dance", None)]
)
def test_an_unknown_command_is_answered_with_the_one_that_was_meant(typed: Typed, wrong: str, meant: str) -> None:
    """By its letters, or because other programs call it so."""
    said = typed(wrong)

    assert f"No such command '{wrong}'." in said.err
    assert said.err.partition("Did you mean ")[2].strip() == (f"'{meant}'?" if meant else "")


@pytest.mark.parametrize("command", [(), ("fleet",), ("keys",), ("systemd",)])
def test_a_list_of_commands_cuts_no_sentence_short(typed: Typed, command: tuple[str, ...]) -> None:
    """What a command does fits into one line of 80 columns."""
    assert "..." not in typed(*command, "--help").out.partition("COMMAND [ARGS]...")[2]


def test_misuse_is_exit_2(typed: Typed) -> None:
    """Unknown commands and wrong addresses are usage errors."""
    assert [typed("dance").code, typed("load").code, typed("serve", "--listen", "nowhere").code] == [2, 2, 2]


def test_a_url_that_is_none_is_refused(typed: Typed) -> None:
    """An invalid URL is not reported as a server that is down."""
    said = typed("ps", "--url", "ftp://127.0.0.1")

    assert said.code == 1
    assert "http://127.0.0.1:8080" in said.err


def test_help_does_not_load_the_server() -> None:
    """Help is fast because it imports nothing of the server."""
    script = "import sys; sys.argv = ['hotseat', '--help']; from hotseat.cli import main\ntry: main()\nfinally: "
    script += "print('loaded:', [m for m in ('fastapi', 'pydantic', 'uvicorn', 'asyncio', 'rich') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout.endswith("loaded: []\n")


class RecordingHandler(BaseHTTPRequestHandler):
    """Records requests and answers as no hotseat would."""

    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(418)
        self.end_headers()
        self.wfile.write(b"<html>teapot</html>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its parent's name for it
        pass


@pytest.fixture
def teapot() -> Iterator[str]:
    RecordingHandler.asked = []
    with HTTPServer(("127.0.0.1", 0), RecordingHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}/behind"
        server.shutdown()
        thread.join()


def test_key_and_address_come_from_the_environment(typed: Typed, teapot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is sent as a bearer token; a path in the URL stays in front."""
    monkeypatch.setenv("HOTSEAT_URL", teapot)
    monkeypatch.setenv("HOTSEAT_API_KEY", "k-1")
    typed("why", "org/llama")

    assert RecordingHandler.asked[-1] == ("/behind/hotseat/models/org%2Fllama", "Bearer k-1")
    assert all(path.startswith("/behind/") for path, _ in RecordingHandler.asked)


def test_a_server_that_is_no_hotseat_is_named(typed: Typed, teapot: str) -> None:
    """An answer of unknown form is an error with a hint, not a traceback."""
    said = typed("ps", "--url", teapot)

    assert said.code == 1
    assert "418" in said.err
    assert "is it a hotseat server?" in said.err
