"""Runs one client through every situation, with its own hotseat."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from clients.caller import calling
from clients.rig import open_rig
from clients.situations import SITUATIONS, ClientFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clients.client_list import Client


@dataclass(frozen=True, slots=True)
class Row:
    client: Client
    version: str
    limit_s: float | None
    """After how long without a byte it gives up by default; None: never."""
    failures: Mapping[str, str]
    """By the name of a situation: what the client did instead of what its user needs."""

    def surprises(self) -> Iterator[str]:
        return surprises(self.client, self.failures)


class Listed(Protocol):
    """What a list says about a client or an application."""

    @property
    def name(self) -> str: ...
    @property
    def limits(self) -> Mapping[str, str]: ...


def surprises(listed: Listed, failures: Mapping[str, str]) -> Iterator[str]:
    """Where it is worse, or better, than its list says."""
    for name, failure in failures.items():
        if name not in listed.limits:
            yield f"{listed.name} in {name}: {failure}"
    for name in listed.limits:
        if name not in failures:
            yield f"{listed.name} in {name}: does what its user needs; strike its limit from the list"


def row(client: Client) -> Row:
    client.install()
    with (
        tempfile.TemporaryDirectory() as folder,
        open_rig(Path(folder)) as rig,
        calling(client.argv, rig.url) as caller,
    ):
        failures = {}
        for situation in SITUATIONS:
            try:
                situation(rig, caller)
            except ClientFailure as failure:
                failures[situation.__name__] = str(failure)
        return Row(client, caller.version, caller.limit_s, failures)
