"""The tested clients: where each is installed, what runs it, and its known limits."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clients.rig import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping

NODE = REPOSITORY / "clients/node"
VENVS = REPOSITORY / ".cache/clients"


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    argv: tuple[str, ...]
    limits: Mapping[str, str]
    """By the name of a situation: what the client does instead, whatever the server."""
    installation: tuple[tuple[str, ...], ...] = ()

    def install(self) -> None:
        """Install it where `argv` expects it, in the newest version that this list allows."""
        for argv in self.installation:
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def here(name: str, caller: str, **limits: str) -> Client:
    """A client from the project's own environment or from the system."""
    return Client(name, (sys.executable, "-m", f"clients.callers.{caller}"), limits)


def apart(name: str, caller: str, requirement: str, *options: str, **limits: str) -> Client:
    """A client in an environment of its own, because its dependencies conflict with the project's."""
    home = VENVS / requirement.replace("<", "-")
    python = str(home / "bin/python")
    make_home = (sys.executable, "-m", "venv", str(home))
    fill_home = (python, "-m", "pip", "install", "-qq", "--upgrade", requirement)
    return Client(name, (python, "-m", f"clients.callers.{caller}", *options), limits, (make_home, fill_home))


def node(name: str, caller: str, **limits: str) -> Client:
    """A JavaScript client of the locked versions."""
    return Client(name, ("node", str(NODE / f"{caller}.mjs")), limits, (("npm", "ci", "--prefix", str(NODE)),))


NO_COMMENTS = "Ollama's streams have no comments, so silence ends at its limit, if one was set."
NO_RETRY = "Sends one request and reports the refusal."

TESTED = (
    here("openai-python 3", "through_openai"),
    here("anthropic-python", "through_anthropic"),
    node("openai-node", "through_openai"),
    here("ollama-python", "through_ollama", two_minutes_of_comments=NO_COMMENTS, full_queue=NO_RETRY),
    here("curl", "through_curl", full_queue="Sends one request; `--retry 2` makes it retry after that time."),
)
"""Clients that every change is tested with."""

RETRIES_ANYWAY = "Does not know `x-should-retry` and sends three requests, with its own backoff."
GIVES_UP_EARLY = "Gives up after its limit and retries; `timeout=` sets another limit."
LEAVES_LATE = "Leaving the stream does not close the connection; Python's next garbage collection does."

ON_DEMAND = (
    apart("openai-python 2", "through_openai", "openai<3"),
    apart("openai-python 1", "through_openai", "openai<2"),
    apart("litellm", "through_litellm", "litellm", "openai", cancel=LEAVES_LATE),
    apart("langchain-openai", "through_langchain", "langchain-openai"),
    apart(
        "llama-index-openai-like",
        "through_llama_index",
        "llama-index-llms-openai-like",
        two_minutes_of_silence=GIVES_UP_EARLY,
        failed_start=RETRIES_ANYWAY,
        cancel=LEAVES_LATE,
    ),
    apart("llm", "through_llm", "llm", cancel=LEAVES_LATE),
    node("ollama-node", "through_ollama", two_minutes_of_comments=NO_COMMENTS, full_queue=NO_RETRY),
    apart(
        "langchain-ollama",
        "through_langchain_ollama",
        "langchain-ollama",
        two_minutes_of_comments=NO_COMMENTS,
        full_queue=NO_RETRY,
    ),
    apart("llm-ollama", "through_llm_ollama", "llm-ollama", two_minutes_of_comments=NO_COMMENTS, full_queue=NO_RETRY),
    apart(
        "litellm ollama/",
        "through_litellm",
        "litellm",
        "ollama",
        two_minutes_of_comments=NO_COMMENTS,
        full_queue=NO_RETRY,
    ),
    apart(
        "litellm ollama_chat/",
        "through_litellm",
        "litellm",
        "ollama_chat",
        two_minutes_of_comments=NO_COMMENTS,
        full_queue=NO_RETRY,
    ),
    node("AI SDK", "through_ai", failed_start=RETRIES_ANYWAY),
)
"""Clients that `python -m clients` tests as well."""
