"""`fast_clock.py SPEED ...`: the `hotseat` command with the time of waiting clients passing so many times as fast."""

from __future__ import annotations

import sys

from hotseat.cli import main
from hotseat.relay.exchange import early_stream

if __name__ == "__main__":
    speed = float(sys.argv.pop(1))
    early_stream.GRACE_S /= speed
    early_stream.EVERY_S /= speed
    main()
