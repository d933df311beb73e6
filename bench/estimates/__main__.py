"""Compare estimated with measured memory: estimates from model files, and the memory of real servers of these files.

Needs `just llama`. The models are sparse files, so they need little disk. `just bench-estimates`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.estimates.cases import CASES
from bench.estimates.measure import Result, compare
from bench.estimates.page import BOUND, print_report, write_page
from tests.support.llama import REPOSITORY, SERVER

LEAST_WITHIN = 6


def main() -> int:
    options = parse_options()
    results = [measured(number) for number, case in enumerate(CASES) if options.only in case.name]
    print_report(results)
    within = sum(abs(result.error) <= BOUND for result in results)
    print(f"\n{within} of {len(results)} within {BOUND:.0%}")
    if options.write:
        write_page(results, version())
    return 0 if within >= min(LEAST_WITHIN, len(results)) else 1


def measured(number: int) -> Result:
    # Not in /tmp, which may be a tmpfs: its pages do not count as file-backed.
    with tempfile.TemporaryDirectory(dir=REPOSITORY / ".cache") as folder:
        print(f"{number + 1}/{len(CASES)} {CASES[number].name}", file=sys.stderr)
        return compare(CASES[number], Path(folder))


def version() -> str:
    said = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=True)
    return (said.stdout + said.stderr).splitlines()[0].removeprefix("version: ")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-estimates", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write docs/reference/estimates.md")
    parser.add_argument("--only", default="", metavar="PART", help="only cases whose names contain this")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
