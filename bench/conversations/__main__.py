"""Compare conversations that are saved at a swap with those that are computed again, on a real llama-server.

Needs `just llama`; makes the 1.6 GB model if it is missing. Loopback only. `just bench-conversations`.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from copy import deepcopy
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bench.conversations.results import CASES, MANY, OFF, ON, SHORT, STAYED, Record, tables, verdicts
from bench.conversations.sides import OTHER_BIG, both_sides
from bench.report import machine, server_version, show, write
from bench.swap.sides import BIG
from scripts.make_gguf import BIG as BIG_SHAPE
from scripts.make_gguf import make_once
from tests.support.llama import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.conversations.results import Case, Return, Swap

FEWER = 3
"""One round of the big model, which takes a minute, for so many of the small one."""
SHORTEST, LONGEST = 100, 500
"""Tokens of conversations whose answers are compared."""
WORDS = 12


def main() -> int:
    options = parse_options()
    record = measured(options)
    found = tables(record)
    show(found)
    if options.write:
        began = f"{record.date}, load average {record.load:.1f} at the beginning"
        write("conversations-figures.md", found, (began, machine(), server_version()))
    return 1 if options.check and not all(verdict.holds for verdict in verdicts(record)) else 0


def measured(options: argparse.Namespace) -> Record:
    cases = [CASES[name] for name in options.only]
    if any(case.is_big for case in cases):
        for name in (BIG, OTHER_BIG):
            make_once(MODELS / f"{name}.gguf", BIG_SHAPE)
    return Record(
        date=datetime.now(UTC).date().isoformat(),
        load=os.getloadavg()[0],
        returns=tuple(each for case in cases for each in all_rounds(case, options.rounds)),
        swaps=tuple(swaps_with_little(options.swaps)),
        answers=tuple(many_conversations(options.conversations)),
    )


def all_rounds(case: Case, rounds: int) -> Iterator[Return]:
    """The same conversations go on from round to round, on both sides."""
    with both_sides(case) as sides:
        begun = sides[ON].begin([f"talk {n}" for n in range(case.talks)])
        talks = {ON: begun, OFF: deepcopy(begun)}  # without saving, all is computed at the return anyway
        for _ in range(max(1, rounds // FEWER) if case.is_big else rounds):
            for name, side in sides.items():
                found = side.leave_and_return(talks[name])
                print(f"{case.name} {name}: {found.turn_s:.2f} s, {found.share:.1%}", file=sys.stderr, flush=True)
                yield found


def swaps_with_little(pairs: int) -> Iterator[Swap]:
    if pairs:
        with both_sides(SHORT) as sides:
            for pair in range(-1, pairs):  # the first pair warms other caches
                swaps = [side.swap_with_little() for side in sides.values()]
                yield from swaps if pair >= 0 else ()


def many_conversations(count: int) -> Iterator[Return]:
    """Conversations of random lengths, as many at a time as there are slots."""
    rng = random.Random(count)
    if count:
        with both_sides(MANY) as sides:
            for first in range(0, count, MANY.talks):
                names = [f"short {n}" for n in range(first, min(first + MANY.talks, count))]
                tokens = [rng.randint(SHORTEST, LONGEST) for _ in names]
                talks = {name: side.begin(names, tokens, WORDS) for name, side in sides.items()}
                yield sides[OFF].go_on(deepcopy(talks[OFF]), WORDS, STAYED)
                for name, side in sides.items():
                    yield side.leave_and_return(talks[name], WORDS)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="just bench-conversations", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=9, help="rounds of each case; a third of them for the big model (%(default)s)"
    )
    parser.add_argument("--swaps", type=int, default=20, help="pairs of swaps with nothing worth saving (%(default)s)")
    parser.add_argument(
        "--conversations", type=int, default=200, help="conversations whose answers are compared (%(default)s)"
    )
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES), help="only these cases")
    parser.add_argument("--write", action="store_true", help="update docs/reference/conversations-figures.md")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a guaranteed figure is missed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
