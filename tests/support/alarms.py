"""Timers that fire when the test advances the clock, in the order of their deadlines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(eq=False)
class Alarm:
    at: float
    ring: Callable[[], None]
    alarms: Alarms

    def cancel(self) -> None:
        if self in self.alarms.set:
            self.alarms.set.remove(self)


class Alarms:
    """Replaces `call_later`."""

    def __init__(self) -> None:
        self.set: list[Alarm] = []
        self._now = 0.0

    def later(self, delay: float, ring: Callable[..., None], *args: object) -> Alarm:
        alarm = Alarm(self._now + delay, partial(ring, *args), self)
        self.set.append(alarm)
        return alarm

    def wait(self, seconds: float) -> None:
        """Advance the clock and fire every timer that is due."""
        until = self._now + seconds
        while due := [alarm for alarm in self.set if alarm.at <= until]:
            alarm = min(due, key=lambda alarm: alarm.at)
            alarm.cancel()
            self._now = alarm.at
            alarm.ring()
        self._now = until
