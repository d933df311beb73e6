"""The report: on the terminal, and as the page docs/reference/estimates.md."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from hotseat.cli.tables import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.estimates.measure import Memory, Result

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/estimates.md"
BOUND = 0.10
MIB = 1 << 20

BUFFERS = ("model", "file", "reordered", "cache", "working")
RESIDENT = ("model", "anonymous", "mapped", "resident", "error")


def print_report(results: Sequence[Result]) -> None:
    print(table(BUFFERS, [buffer_row(result) for result in results]))
    print()
    print(table(RESIDENT, [resident_row(result) for result in results]))


def write_page(results: Sequence[Result], version: str) -> None:
    template = Template((HERE / "page.md").read_text())
    text = template.substitute(
        version=version,
        processor=processor(),
        within=sum(abs(result.error) <= BOUND for result in results),
        cases=len(results),
        models=markdown(("model", "options"), [case_row(result) for result in results]),
        buffers=markdown(BUFFERS, [buffer_row(result) for result in results]),
        resident=markdown(RESIDENT, [resident_row(result) for result in results]),
    )
    PAGE.write_text(text)


def case_row(result: Result) -> tuple[str, ...]:
    shape = result.case.shape
    heads = f", {shape.heads} heads, {shape.kv_heads} cached" if shape.heads else ""
    made = f"{shape.arch}, {shape.layers} layers of {shape.dim}{heads}, {shape.vocab} tokens, {shape.quant}"
    return f"{result.case.name}: {made}", f"`{result.case.options}`"


def buffer_row(result: Result) -> tuple[str, ...]:
    guessed, real = result.estimated, result.measured
    pairs = ((guessed.copied, real.copied), (guessed.cache, real.cache), (guessed.compute, real.compute))
    return result.case.name, mib(result.file), *(beside(*pair) for pair in pairs)


def resident_row(result: Result) -> tuple[str, ...]:
    guessed, real = result.estimated, result.measured
    sides = [beside(side(guessed), side(real)) for side in (anonymous, mapped, resident)]
    return result.case.name, *sides, f"{result.error:+.1%}"


def anonymous(memory: Memory) -> int:
    return memory.anonymous


def mapped(memory: Memory) -> int:
    return memory.mapped


def resident(memory: Memory) -> int:
    return memory.resident


def beside(guessed: int, real: int) -> str:
    return f"{mib(guessed)} / {mib(real)}"


def mib(size: int) -> str:
    return f"{size / MIB:.1f}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def processor() -> str:
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else "unknown processor"
