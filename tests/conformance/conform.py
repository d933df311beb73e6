"""Check a model-swapping inference proxy from the outside: `python conform.py --help`."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import checks_spec  # noqa: F401  (importing registers the checks, in this order)

# isort: split
import checks_ours  # noqa: F401

# isort: split
import checks_edges  # noqa: F401
from rig import CHECKS, Check, Proxy, Unmet

SURVIVORS = ("ours-no-survivors", "No upstream outlives its proxy.")


@dataclass(frozen=True)
class Outcome:
    id: str
    truth: str
    seen: str | None = None
    survivors: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = "ok  " if self.seen is None else "FAIL"
        seen = "" if self.seen is None else f" | seen: {self.seen}"
        return f"{verdict} {self.id}: {self.truth}{seen}"


def perform(check: Check, command: str, folder: Path, settings: dict[str, str]) -> Outcome:
    seen: str | None = None
    survivors: list[str] = []
    try:
        proxy = Proxy(command, {**settings, **check.config}, folder)
        try:
            check.run(proxy)
        finally:
            survivors = [f"{stub.name} of {check.id}" for stub in proxy.end()]
    except Unmet as unmet:
        seen = str(unmet)
    except Exception as problem:  # an answer no check foresaw is a failure of the proxy, not of the kit
        seen = repr(problem)
    return Outcome(check.id, check.truth, seen and " ".join(seen.split()), survivors)


def conform(checks: list[Check], command: str, jobs: int, folder: Path, settings: dict[str, str]) -> bool:
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda check: perform(check, command, folder / check.id, settings), checks):
            print(outcome, flush=True)
            outcomes.append(outcome)
    left = [stub for outcome in outcomes for stub in outcome.survivors]
    outcomes.append(Outcome(*SURVIVORS, seen=", ".join(left) or None))
    print(outcomes[-1])
    failed = sum(outcome.seen is not None for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    return failed == 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Check a model-swapping inference proxy from the outside.")
    parser.add_argument(
        "--command",
        default="hotseat serve --config {config} --listen {listen}",
        help="how to start the proxy (default: %(default)s)",
    )
    parser.add_argument("--only", metavar="PATTERN", default="", help="only checks whose id matches this regex")
    parser.add_argument("--list", action="store_true", help="print the checks and end")
    parser.add_argument("--jobs", type=int, default=3 * (os.cpu_count() or 1), help="proxies run at once (%(default)s)")
    parser.add_argument(
        "--setting", metavar="KEY=VALUE", action="append", default=[], help="add this to each configuration"
    )
    parser.add_argument("--keep", action="store_true", help="keep each check's config, proxy log and record")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    checks = [check for check in CHECKS if re.search(options.only, check.id)]
    if options.list:
        print("\n".join(f"{check.id}: {check.truth}" for check in checks))
        print(": ".join(SURVIVORS))
        return 0
    if not checks:
        print(f"no check matches {options.only}", file=sys.stderr)
        return 1
    program = shlex.split(options.command)[0]
    if not shutil.which(program):
        print(f"cannot start the proxy: no program named {program}", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="conform-"))
    if options.keep:
        print(f"keeping {folder}", file=sys.stderr)
    try:
        settings = dict(setting.split("=", 1) for setting in options.setting)
        return 0 if conform(checks, options.command, options.jobs, folder, settings) else 1
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
