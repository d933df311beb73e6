"""Compare as many models as fit into memory with one model at a time, with the same requests to real servers.

Needs `just llama`; the models are sparse files and take no disk. `just bench-memory`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.memory.page import PAGE, page
from bench.memory.play import LARGE, MIB, make_models, play, trace
from tests.support.llama import REPOSITORY

OVER = 1.05
"""The share of the budget that may be resident: figures are estimates before the first load."""
FEWER = 3.0


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
        sizes = [path.stat().st_size for path in models.values()]
    text = page(alone, together, budget, sizes)
    print(text, *together.problems, *alone.problems, sep="\n")
    if options.write:
        PAGE.write_text(text)
    holds = together.peak <= OVER * budget and alone.loads >= FEWER * together.loads
    return 0 if holds and not together.problems + alone.problems else 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-memory", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=200, help="number of requests (%(default)s)")
    parser.add_argument("--budget", type=int, default=1500, help="RAM for models in MB (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write docs/reference/memory-bench.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
