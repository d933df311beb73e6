"""The `hotseat` command. Each command imports what it needs when it runs, so that `--help` is fast."""

from __future__ import annotations

import os
import re
import sys
from typing import NoReturn

from hotseat.cli.problems import MISREAD, Problem
from hotseat.daemon.garbage_collection import collect_rarely

SINGLE_DASHED = re.compile(r"-(config|config-dir|listen|watch-config|tls-cert-file|tls-key-file)(=.*)?", re.DOTALL)


def main() -> None:
    """Run the command line; never returns."""
    collect_rarely()
    from hotseat.cli.commands import app

    try:
        app(args=normalised(sys.argv[1:]), prog_name="hotseat")
    except Problem as problem:
        fail(problem)
    except MISREAD as error:
        from hotseat.cli.client import misread

        fail(misread(error))
    except BrokenPipeError:  # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def fail(problem: Problem) -> NoReturn:
    print(f"hotseat: {problem}", file=sys.stderr)
    sys.exit(problem.exit_code)


def normalised(argv: list[str]) -> list[str]:
    """Accept llama-swap's long options with one dash, so that scripts with them keep working."""
    return [f"-{word}" if SINGLE_DASHED.fullmatch(word) else word for word in argv]
