"""The `hotseat` command. Each command imports what it needs when it runs, so that `--help` is fast."""

from __future__ import annotations

import os
import sys

from hotseat.cli.problems import Problem
from hotseat.daemon.garbage_collection import collect_rarely


def main() -> None:
    """Run the command line; never returns."""
    collect_rarely()
    from hotseat.cli.arguments import normalised
    from hotseat.cli.commands import app

    try:
        app(args=normalised(sys.argv[1:]), prog_name="hotseat")
    except Problem as problem:
        print(f"hotseat: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
    except BrokenPipeError:  # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
