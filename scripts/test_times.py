#!/usr/bin/env python3
"""Prints where the time of a test run went, by folder and by file: `just test-times [REPORT]`.

A report is what `pytest --junit-xml` writes. The seconds of all workers are added; those in which a test waits count.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from xml.etree import ElementTree as Xml

FILES = 40


def main(report: str) -> None:
    cases = list(Xml.parse(report).iter("testcase"))
    folders, files = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for case in cases:
        parts = case.attrib["classname"].split(".")
        seconds = float(case.attrib["time"])
        folders["/".join(parts[:2])].append(seconds)
        files["/".join(parts)].append(seconds)
    print_table("folder", folders, len(folders))
    print_table("file", files, FILES)


def print_table(name: str, times: dict[str, list[float]], most: int) -> None:
    total = sum(map(sum, times.values()))
    print(f"\n| {name} | tests | seconds | share | longest |\n|---|---|---|---|---|")
    for key in sorted(times, key=lambda each: -sum(times[each]))[:most]:
        spent = sum(times[key])
        print(f"| `{key}` | {len(times[key]):,} | {spent:.0f} | {spent / total:.1%} | {max(times[key]):.1f} |")
    print(f"| all | {sum(map(len, times.values())):,} | {total:.0f} | | |")


if __name__ == "__main__":
    main(*sys.argv[1:])
