"""The `hotseat` command with longer limits: a save or a restore of conversations may take as long as on a busy machine.

The usual ones are a quarter of a second where a request waits; then the conversations are not kept.
"""

from __future__ import annotations

from tests.support.waiting import PATIENCE_S

from hotseat.cli import main
from hotseat.scheduling import conversations

LIMITS = ("LEAST_S", "MOST_S", "MOST_RESTORE_S")

if __name__ == "__main__":
    vars(conversations).update(dict.fromkeys(LIMITS, PATIENCE_S))
    main()
