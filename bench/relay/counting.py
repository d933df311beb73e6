"""Runs hotseat and counts its function calls between two signals; works with any installed revision.

SIGRTMIN begins, SIGRTMIN + 1 writes the counts to the file named first on the command line: hotseat uses neither. Needs
only the standard library.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def main(file: Path) -> None:
    counts: Counter[str] = Counter()

    def count(_frame: Any, event: str, _argument: Any) -> None:
        counts[event] += 1

    def finish(*_: object) -> None:
        sys.setprofile(None)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps({"python": counts["call"], "c": counts["c_call"]}))
        unfinished.rename(file)

    def begin(*_: object) -> None:
        counts.clear()
        sys.setprofile(count)

    signal.signal(signal.SIGRTMIN, begin)
    signal.signal(signal.SIGRTMIN + 1, finish)


if __name__ == "__main__":
    main(Path(sys.argv.pop(1)))
    from hotseat.cli import main as hotseat

    hotseat()
