"""Compare estimated with measured memory: estimates from model files, and the memory of real servers of these files.

Needs `just llama`. The models are sparse files, so they need little disk. `just bench-estimates`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.estimates.cases import CASES
from bench.estimates.measure import MIB, Result, compare
from bench.report import machine, server_version, show, write
from tests.support.llama import REPOSITORY

BOUND, LEAST_WITHIN = 0.10, 6


def main() -> int:
    options = parse_options()
    results = [measured(number) for number, case in enumerate(CASES) if options.only in case.name]
    found = {
        "Buffers": [["model", "file", "reordered", "cache", "working"], *map(buffer_row, results)],
        "Resident memory": [["model", "anonymous", "mapped", "resident", "error"], *map(resident_row, results)],
        "Models": [["model", "options"], *map(case_row, results)],
    }
    show(found)
    within = sum(abs(result.error) <= BOUND for result in results)
    sentence = f"{within} of {len(results)} are within {BOUND:.0%} of the resident memory"
    print(f"\n{sentence}")
    if options.write:
        write("estimates.md", found, (sentence, server_version(), machine()))
    return 0 if within >= min(LEAST_WITHIN, len(results)) else 1


def measured(number: int) -> Result:
    # Not in /tmp, which may be a tmpfs: its pages do not count as file-backed.
    with tempfile.TemporaryDirectory(dir=REPOSITORY / ".cache") as folder:
        print(f"{number + 1}/{len(CASES)} {CASES[number].name}", file=sys.stderr)
        return compare(CASES[number], Path(folder))


def case_row(result: Result) -> list[str]:
    shape = result.case.shape
    heads = f", {shape.heads} heads, {shape.kv_heads} cached" if shape.heads else ""
    made = f"{shape.arch}, {shape.layers} layers of {shape.dim}{heads}, {shape.vocab} tokens, {shape.quant}"
    return [f"{result.case.name}: {made}", f"`{result.case.options}`"]


def buffer_row(result: Result) -> list[str]:
    guessed, real = result.estimated, result.measured
    pairs = ((guessed.copied, real.copied), (guessed.cache, real.cache), (guessed.compute, real.compute))
    return [result.case.name, mib(result.file), *(beside(*pair) for pair in pairs)]


def resident_row(result: Result) -> list[str]:
    guessed, real = result.estimated, result.measured
    pairs = ((guessed.anonymous, real.anonymous), (guessed.mapped, real.mapped), (guessed.resident, real.resident))
    return [result.case.name, *(beside(*pair) for pair in pairs), f"{result.error:+.1%}"]


def beside(guessed: int, real: int) -> str:
    return f"{mib(guessed)} / {mib(real)}"


def mib(size: int) -> str:
    return f"{size / MIB:.1f}"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-estimates", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="update docs/reference/estimates.md")
    parser.add_argument("--only", default="", metavar="PART", help="only cases whose names contain this")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
