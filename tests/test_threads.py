"""Threads and signals, with a real process: a signal that a thread received would end it."""

from __future__ import annotations

import subprocess
import sys

HELD = """
import os, signal, threading
from hotseat.handover.stand_in import hold_signals
from hotseat.threads import start_thread

may_end = threading.Event()
thread = start_thread("waiting", may_end.wait)
hold_signals()
os.kill(os.getpid(), signal.SIGTERM)
print(signal.SIGTERM in signal.sigpending(), thread.daemon, thread.name)
may_end.set()
"""


def test_a_signal_that_the_main_thread_holds_while_another_thread_runs() -> None:
    """It stays pending for whoever passes it on, and does not end the process."""
    ended = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, timeout=60)

    assert ended.stdout == "True True waiting\n"
    assert ended.returncode == 0
