"""The `hotseat` command: a verb, then names. What a command needs is imported when it runs, so that help is instant."""

from __future__ import annotations

import os
import sys

from hotseat.cli.problems import Problem


def main() -> None:
    """Run the command line; never returns."""
    from hotseat.cli.arguments import normalised
    from hotseat.cli.commands import app

    try:
        app(args=normalised(sys.argv[1:]), prog_name="hotseat")
    except Problem as problem:
        print(f"hotseat: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
