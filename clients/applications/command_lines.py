"""Applications for the command line: how each is connected and asked one question."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml
from clients.applications.scripted_model import RESULT
from clients.applications.workspace import WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clients.applications.workspace import Shown, Workspace

    Invoke = Callable[[Workspace, str, str], "Invocation"]

READ = "cat word.txt"


@dataclass(frozen=True, slots=True)
class Invocation:
    """The words after the program's name, and its environment variables."""

    words: tuple[str, ...]
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Agent:
    """Runs a command for the model."""

    workspace: Workspace
    program: str
    invoke: Invoke
    """With a model and a question; it writes the application's settings first."""
    tool: str
    """The question that lets the model call a tool."""

    def ask(self, model: str, question: str) -> Shown:
        invocation = self.invoke(self.workspace, model, question)
        return self.workspace.run([self.program, *invocation.words], invocation.environ)

    def use_tool(self, model: str) -> str:
        """What the model says about the result."""
        return self.ask(model, self.tool).answer.partition(RESULT)[2]


class Editor(Agent):
    """Changes a file as the model says."""

    def use_tool(self, model: str) -> str:
        """The file afterwards."""
        self.workspace.file.write_text("nothing\n")
        self.ask(model, self.tool)
        return self.workspace.file.read_text()


EDIT = f"""[[say
word.txt
```
<<<<<<< SEARCH
nothing
=======
{WORD}
>>>>>>> REPLACE
```
]]"""


def aider(workspace: Workspace, model: str, question: str) -> Invocation:
    name = f"openai/{model}"
    models = ("--model", name, "--weak-model", name, "--no-show-model-warnings", "--edit-format", "diff")
    quiet = ("--no-git", "--no-pretty", "--yes-always", "--no-check-update", "--analytics-disable")
    environ = {"OPENAI_API_BASE": f"{workspace.url}/v1", "OPENAI_API_KEY": "none"}
    return Invocation((*models, *quiet, "--message", question, "word.txt"), environ)


def opencode(workspace: Workspace, model: str, question: str) -> Invocation:
    options = {"baseURL": f"{workspace.url}/v1", "apiKey": "none"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {model: {}}}
    name = f"hotseat/{model}"
    settings = {"provider": {"hotseat": provider}, "model": name, "small_model": name, "autoupdate": False}
    (workspace.project / "opencode.json").write_text(json.dumps(settings))
    return Invocation(("run", question), {"OPENCODE_DISABLE_MODELS_FETCH": "1"})


def claude_code(workspace: Workspace, model: str, question: str) -> Invocation:
    address = {"ANTHROPIC_BASE_URL": workspace.url, "ANTHROPIC_AUTH_TOKEN": "none"}
    models = {"ANTHROPIC_MODEL": model, "ANTHROPIC_DEFAULT_HAIKU_MODEL": model}
    quiet = {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "65536", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return Invocation(("-p", question, "--allowedTools", "Bash"), {**address, **models, **quiet})


def codex(workspace: Workspace, model: str, question: str) -> Invocation:
    folder = workspace.home / ".codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(f"""\
model = "{model}"
model_provider = "hotseat"
[model_providers.hotseat]
name = "hotseat"
base_url = "{workspace.url}/v1"
wire_api = "responses"
[analytics]
enabled = false
""")
    return Invocation(("exec", "--skip-git-repo-check", question), {})


def continue_(workspace: Workspace, model: str, question: str) -> Invocation:
    entry = {"name": model, "provider": "openai", "model": model, "apiBase": f"{workspace.url}/v1", "apiKey": "none"}
    settings = {"name": "hotseat", "version": "0.0.1", "schema": "v1", "models": [entry]}
    file = workspace.home / "config.yaml"
    file.write_text(yaml.safe_dump(settings))
    return Invocation(("--config", str(file), "--auto", "-p", question), {"CONTINUE_CLI_ENABLE_TELEMETRY": "0"})
