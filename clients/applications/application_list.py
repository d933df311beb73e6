"""The tested applications: where each is installed, in which version, how it is connected, and its known limits."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from clients.applications import command_lines
from clients.applications.command_lines import EDIT, READ, Agent, Editor
from clients.applications.open_webui import ollama_connection, open_page, openai_connection
from clients.applications.pi import open_pi
from clients.applications.steps import STEPS, load, unload
from clients.client_list import NODE
from clients.rig import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from clients.applications.command_lines import Invoke
    from clients.applications.steps import Session, Step
    from clients.applications.workspace import Workspace

    Opener = Callable[[Workspace], AbstractContextManager[Session]]

FOLDER = REPOSITORY / ".cache/applications"
UV = str(Path(sys.executable).with_name("uv"))
WITHOUT_TORCH = str(Path(__file__).with_name("without-torch.txt"))


@dataclass(frozen=True, slots=True)
class Application:
    name: str
    version: str
    connection: str
    """How a person connects it: the API, and the page that says how."""
    open: Opener
    installation: tuple[tuple[str, ...], ...]
    limits: Mapping[str, str] = field(default_factory=dict)
    """By the name of a step: what the application does instead, whatever the server."""
    steps: tuple[Step, ...] = STEPS

    def install(self) -> None:
        for argv in self.installation:
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def from_npm(folder: str, *packages: str) -> tuple[tuple[str, ...], ...]:
    options = ("--silent", "--no-fund", "--no-audit", "--no-save", "--prefix", str(FOLDER / folder))
    return (("npm", "install", *options, *packages),)


def from_pypi(folder: str, package: str, version: str) -> tuple[tuple[str, ...], ...]:
    """Without torch, which is gigabytes, and which no step needs."""
    home = str(FOLDER / folder)
    install = (UV, "pip", "install", "-q", "--python", f"{home}/bin/python", "--override", WITHOUT_TORCH)
    return ((UV, "venv", "-q", "--allow-existing", home), (*install, f"{package}=={version}"))


def locked(package: str) -> str:
    """The version of a package of `clients/node`."""
    return str(json.loads((NODE / "package.json").read_text())["dependencies"][package])


def npm_program(folder: str, name: str) -> str:
    return str(FOLDER / folder / "node_modules/.bin" / name)


def agent(program: str, invoke: Invoke, tool: str) -> Opener:
    return lambda workspace: nullcontext(Agent(workspace, program, invoke, f"[[call {tool}]]"))


CONTINUE = str(NODE / "node_modules/.bin/cn")
AIDER = str(FOLDER / "aider/bin/aider")
PI_PACKAGES = [f"@earendil-works/{name}@0.85.1" for name in ("pi-coding-agent", "pi-ai", "pi-tui")]
"""The extension wants all three in any version; npm would take the newest of the last two."""
PI = FOLDER / "pi/node_modules"
OPEN_WEBUI = str(FOLDER / "open-webui/bin/open-webui")
NOT_LISTED = "Compares the name with the model list and shows `Model not found` itself."

TESTED = (
    Application(
        "Continue",
        locked("@continuedev/cli"),
        "`/v1/chat/completions` ([how-to](../howto/continue.md))",
        agent(CONTINUE, command_lines.continue_, f"Bash command={READ}"),
        (("npm", "ci", "--silent", "--prefix", str(NODE)),),
    ),
)
"""Applications that every change is tested with: those that are small."""

ON_DEMAND = (
    Application(
        "aider",
        "0.86.2",
        "`/v1/chat/completions` ([how-to](../howto/aider.md))",
        lambda workspace: nullcontext(Editor(workspace, AIDER, command_lines.aider, EDIT)),
        from_pypi("aider", "aider-chat", "0.86.2"),
    ),
    Application(
        "opencode",
        "1.18.33",
        "`/v1/chat/completions` ([how-to](../howto/opencode.md))",
        agent(npm_program("opencode", "opencode"), command_lines.opencode, f"bash command={READ}; description=read"),
        from_npm("opencode", "opencode-ai@1.18.33"),
    ),
    Application(
        "Claude Code",
        "2.1.325",
        "`/v1/messages` ([how-to](../howto/claude-code.md))",
        agent(npm_program("claude-code", "claude"), command_lines.claude_code, f"Bash command={READ}"),
        from_npm("claude-code", "@anthropic-ai/claude-code@2.1.325"),
        {"unknown_model": "Shows a sentence of its own: the model may not exist."},
    ),
    Application(
        "Codex",
        "0.166.0",
        "`/v1/responses` ([how-to](../howto/codex.md))",
        agent(npm_program("codex", "codex"), command_lines.codex, f"exec_command cmd={READ}"),
        from_npm("codex", "@openai/codex@0.166.0"),
    ),
    Application(
        "Open WebUI",
        "0.12.4",
        "OpenAI connection with provider llama.cpp, `/v1/chat/completions` ([how-to](../howto/open-webui.md))",
        lambda workspace: open_page(workspace, OPEN_WEBUI, openai_connection(workspace)),
        from_pypi("open-webui", "open-webui", "0.12.4"),
        {"unknown_model": NOT_LISTED},
        (*STEPS, unload, load),
    ),
    Application(
        "Open WebUI",
        "0.12.4",
        "Ollama connection, `/api/chat` ([how-to](../howto/open-webui.md))",
        lambda workspace: open_page(workspace, OPEN_WEBUI, ollama_connection(workspace)),
        from_pypi("open-webui", "open-webui", "0.12.4"),
        {"unknown_model": NOT_LISTED},
        (*STEPS, unload),
    ),
    Application(
        "pi with pi-llama-cpp",
        "0.85.1 with 0.14.0",
        "`LLAMA_SERVER_URL`: llama.cpp's router, `/v1/chat/completions`",
        lambda workspace: open_pi(workspace, PI),
        from_npm("pi", *PI_PACKAGES, "pi-llama-cpp@0.14.0", "node@22.23.3"),
        {"unknown_model": NOT_LISTED},
        (*STEPS, unload, load),
    ),
)
"""Applications of hundreds of megabytes, which `just applications` tests as well."""
