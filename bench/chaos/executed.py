"""Which requests were executed on which host during a time: none may pass to or from a host that is alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.chaos.checker import read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.chaos.client import RequestResult
    from bench.chaos.hotseat_process import HotseatProcess


@dataclass(frozen=True, slots=True)
class Alone:
    """A host with another secret, and the requests that were executed meanwhile."""

    rig: str
    here: frozenset[str]
    elsewhere: frozenset[str]


class Executed:
    """What model servers record from now on."""

    def __init__(self, rigs: Sequence[HotseatProcess]) -> None:
        self._rigs = rigs
        self._before = {rig.name: len(record_of(rig)) for rig in rigs}

    def alone(self, rig: HotseatProcess) -> Alone:
        others = (name for other in self._rigs if other is not rig for name in self._since(other))
        return Alone(rig.name, frozenset(self._since(rig)), frozenset(others))

    def _since(self, rig: HotseatProcess) -> Iterator[str]:
        return (line["id"] for line in record_of(rig)[self._before[rig.name] :] if line["what"] == "ran")


def record_of(rig: HotseatProcess) -> list[dict[str, Any]]:
    return read_record(rig.folder / "stubs" / "record")


def crossings(alone: Iterable[Alone], results: Iterable[RequestResult]) -> Iterator[str]:
    """Requests that passed between a host that had to be alone and another one."""
    asked = {result.planned.id: result.rig for result in results}
    for each in alone:
        for name in sorted(each.here):
            if asked.get(name, each.rig) != each.rig:
                yield f"{name} was executed on {each.rig}, which had another secret than {asked[name]}"
        for name in sorted(each.elsewhere):
            if asked.get(name) == each.rig:
                yield f"{name} was executed elsewhere for {each.rig}, which had another secret"
