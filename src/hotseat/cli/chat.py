"""`hotseat run`: chat with a model. A pipe gets only the answer; a terminal gets a conversation."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hotseat.cli.client import in_path, misread, parsed
from hotseat.cli.problems import MISREAD, Problem

if TYPE_CHECKING:
    from collections.abc import Generator

    from hotseat.cli.client import Server

PATH = "/v1/chat/completions"
DONE = "[DONE]"
BYE, CLEAR, HELP, SET = ("/bye", "/exit", "/quit"), "/clear", ("/?", "/help"), "/set"
HELP_TEXT = "/clear starts a new conversation, /set changes a setting, /bye quits, Ctrl-C stops a response"
SET_TEXT = "/set system TEXT sets the system prompt, /set parameter NAME VALUE a parameter such as temperature"


def run(server: Server, model: str, prompt: str | None) -> None:
    """Answer one prompt from the command line or from standard input; without either, start a conversation."""
    chat = Chat(server, model)
    if prompt is None and sys.stdin.isatty():
        return converse(chat)
    chat.say(sys.stdin.read() if prompt is None else prompt)
    return None


def converse(chat: Chat) -> None:
    import readline  # noqa: F401  # gives input() line editing and history

    chat.make_ready()
    print(f"{chat.model} is ready; {HELP_TEXT}")
    while (line := asked()) is not None:
        if line in BYE:
            return
        try:
            if line.startswith("/"):
                obey(chat, line)
            elif line:
                chat.say(line)
        except Problem as problem:  # a model that fails once may answer the next time
            print(f"hotseat: {problem}", file=sys.stderr)
        except MISREAD as error:
            print(f"hotseat: {misread(error)}", file=sys.stderr)


def obey(chat: Chat, line: str) -> None:
    """Carry out a line that begins with a slash; it is never sent to the model."""
    command, *words = line.split(maxsplit=2)
    if command in HELP:
        print(HELP_TEXT)
    elif command == CLEAR:
        chat.messages.clear()
        print("new conversation")
    elif command == SET and len(words) == 2 and words[0] == "system":
        chat.system = words[1]
        print(f"system prompt: {chat.system}")
    elif command == SET and len(words) == 2 and words[0] == "parameter" and " " in words[1]:
        name, value = words[1].split(maxsplit=1)
        chat.parameters[name] = as_json(value)
        print(f"{name}: {value}")
    elif command == SET:
        raise Problem(SET_TEXT)
    else:
        raise Problem(f"{command} is not a command; {HELP_TEXT}")


def as_json(value: str) -> Any:
    """`0.2` is a number and `true` a boolean; what is not JSON is text."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def asked() -> str | None:
    """The next prompt; None at end of input. Ctrl-C discards a half-typed line."""
    try:
        return input(">>> ").strip()
    except EOFError:
        print()
        return None
    except KeyboardInterrupt:
        print("  (/bye quits)")
        return ""


@dataclass
class Chat:
    server: Server
    model: str
    messages: list[dict[str, str]] = field(default_factory=list)
    system: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    def make_ready(self) -> None:
        """On a terminal, show the load; elsewhere the chat request itself loads the model."""
        if sys.stderr.isatty() and self.server.ask("GET", f"/hotseat/models/{in_path(self.model)}")["phase"] != "ready":
            from hotseat.cli.load_bar import load_with_bar

            load_with_bar(self.server, self.model)

    def say(self, prompt: str) -> None:
        """Stream the answer and add prompt and answer to the history, also an answer that Ctrl-C stopped halfway."""
        self.make_ready()
        question = {"role": "user", "content": prompt}
        answer: list[str] = []
        try:
            with closing(self._answer([*self.messages, question])) as pieces:
                for piece in pieces:
                    answer.append(piece)
                    print(piece, end="", flush=True)
        except KeyboardInterrupt:
            if not sys.stdin.isatty():
                raise
        print()
        if answer:
            self.messages += [question, {"role": "assistant", "content": "".join(answer)}]

    def _answer(self, messages: list[dict[str, str]]) -> Generator[str, None, None]:
        thinking = Thinking()
        system = [{"role": "system", "content": self.system}] if self.system else []
        body = {**self.parameters, "model": self.model, "messages": system + messages, "stream": True}
        with closing(self.server.stream("POST", PATH, body)) as events:
            for event in events:
                if event == DONE:
                    break
                reasoning, text = parts_of(parsed(event))
                thinking.show(reasoning)
                if text:
                    thinking.end()
                    yield text
        thinking.end()


def parts_of(event: Any) -> tuple[str, str]:
    """Reasoning and text of a chunk; raises an error that arrives within the stream."""
    if error := event.get("error"):
        raise Problem(str(error.get("message", error) if isinstance(error, dict) else error))
    delta = next((choice.get("delta") or {} for choice in event.get("choices") or ()), {})
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")  # llama.cpp's name, and vLLM's
    return reasoning or "", delta.get("content") or ""


class Thinking:
    """Shows a model's reasoning dimmed on a terminal and leaves it out of pipes."""

    def __init__(self) -> None:
        self._is_shown = sys.stdout.isatty()
        self._has_begun = False

    def show(self, text: str) -> None:
        if text and self._is_shown:
            print(text if "NO_COLOR" in os.environ else f"\x1b[2m{text}\x1b[0m", end="", flush=True)
            self._has_begun = True

    def end(self) -> None:
        if self._has_begun:
            print("\n")
            self._has_begun = False
