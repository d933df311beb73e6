"""The list of commands in `hotseat --help`, in sections, and the commands that people mean by other words."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

SECTIONS = {
    "First steps": ("init", "serve", "run", "check", "doctor"),
    "Models": ("list", "show", "pull", "rm", "estimate"),
    "Monitoring": ("ps", "top", "why", "logs", "activity", "usage", "devices"),
    "Control": ("load", "stop", "reload", "restart", "profile", "yield", "keys"),
    "Other": ("fleet", "systemd", "record", "simulate", "schema", "debug-bundle"),
}
MEANT = {
    "chat": "run",
    "delete": "rm",
    "download": "pull",
    "ls": "list",
    "models": "list",
    "remove": "rm",
    "start": "serve",
    "status": "ps",
    "unload": "stop",
}
"""What other programs call a command; similar letters would suggest `schema` for `chat`."""
WIDEST = 80


# Contexts and formatters are Any: typer has its own click, which is private.
class CommandList(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        column = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                texts = [self.commands[name].get_short_help_str(WIDEST) for name in names]
                formatter.write_dl([(name.ljust(column), text) for name, text in zip(names, texts, strict=True)])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if meant := MEANT.get(args[0]):
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        return super().resolve_command(ctx, args)
