"""What memory allows: the same requests with one model at a time and with as many as fit.

Needs `just llama`; the models are sparse files and take no disk. `just bench-room`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.room.journey import LARGE, MIB, make_models, play, trace
from bench.room.page import PAGE, page
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
    parser = argparse.ArgumentParser(prog="just bench-room", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=200, help="how many (%(default)s)")
    parser.add_argument("--budget", type=int, default=1500, help="MB of RAM for models (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write docs/reference/room.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
