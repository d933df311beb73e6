"""Compare as many models as fit into memory with one model at a time, with the same requests to real servers.

Needs `just llama`; the models are sparse files and take no disk. `just bench-memory`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.memory.play import LARGE, MIB, Outcome, make_models, play, trace
from bench.report import Rows, show, write
from tests.support.llama import REPOSITORY

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes

OVER = 1.05
"""The share of the budget that may be resident: figures are estimates before the first load."""
FEWER = 3.0
"""As many loads at least with one model at a time."""


def main() -> int:
    options = parse_options()
    budget = options.budget * MIB
    # Not in /tmp, which may be a tmpfs: files read from there would be resident twice.
    with tempfile.TemporaryDirectory(dir=REPOSITORY / ".cache") as made:
        folder = Path(made)
        (folder / "models").mkdir()
        models = make_models(folder / "models", LARGE)
        asked = trace(list(models), options.requests)
        together = play(folder / "together", models, asked, budget)
        alone = play(folder / "alone", models, asked, None)
    found = {"Models side by side": rows(alone, together, budget)}
    show(found)
    print("", *together.problems, *alone.problems, sep="\n")
    if options.write:
        write("memory-bench.md", found)
    holds = together.peak <= OVER * budget and alone.loads >= FEWER * together.loads
    return 0 if holds and not together.problems + alone.problems else 1


def rows(alone: Outcome, together: Outcome, budget: Bytes) -> Rows:
    part, fewer = together.peak / budget, alone.loads / together.loads
    return [
        ["", "one model at a time", "as memory allows"],
        ["budget", "–", f"{budget // MIB} MB"],
        ["peak resident memory", f"{alone.peak // MIB} MB", f"{together.peak // MIB} MB ({part:.0%} of the budget)"],
        ["most servers at the same time", f"{alone.most_at_once}", f"{together.most_at_once}"],
        ["loads", f"{alone.loads}", f"{together.loads} ({fewer:.1f} × fewer)"],
        ["failed requests", f"{len(alone.problems)}", f"{len(together.problems)}"],
        ["the whole trace", f"{alone.took_s:.0f} s", f"{together.took_s:.0f} s"],
        ["longest wait for a response", f"{alone.worst_s:.1f} s", f"{together.worst_s:.1f} s"],
    ]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-memory", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=200, help="number of requests (%(default)s)")
    parser.add_argument("--budget", type=int, default=1500, help="RAM for models in MB (%(default)s)")
    parser.add_argument("--write", action="store_true", help="update docs/reference/memory-bench.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
