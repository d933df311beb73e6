"""`hurried.py SPEED ...`: the `hotseat` command, with what a waiting client sees passing so many times as fast."""

from __future__ import annotations

import sys

from hotseat.cli import main
from hotseat.relay import waiting

if __name__ == "__main__":
    speed = float(sys.argv.pop(1))
    waiting.GRACE_S /= speed
    waiting.EVERY_S /= speed
    main()
