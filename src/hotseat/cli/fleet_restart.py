"""`hotseat fleet restart`: restarts hosts one after the other, each only when the one before is back."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from hotseat.cli.client import Refused, in_path, message_of
from hotseat.cli.problems import Problem
from hotseat.cli.restart import restart as restart_server
from hotseat.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.cli.client import Server

LOOK_S = 0.2
BACK_S = 60.0
"""For the host that was asked to be in the fleet again."""
NOT_YET = 409


def restart(server: Server, hosts: Sequence[str], *, keep_going: bool = False) -> None:
    """With `keep_going`, the next host follows a failure too, and the names of all that failed are in the problem."""
    fleet = server.ask("GET", "/hotseat/fleet")
    order, failed = in_order(fleet, hosts), []
    for n, host in enumerate(order):
        print(f"restarting {host} ({n + 1} of {len(order)})", file=sys.stderr, flush=True)
        try:
            restart_one(server, host, is_asked=host == fleet["host"])
        except Problem as problem:
            if not keep_going:
                left = ", ".join(order[n + 1 :])
                raise Problem(f"{host}: {problem}" + (f"\nnot restarted: {left}" if left else "")) from None
            print(f"{host}: {problem}", file=sys.stderr, flush=True)
            failed.append(host)
    if failed:
        raise Problem(f"{len(failed)} of {len(order)} hosts failed: {', '.join(failed)}")


def in_order(fleet: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    """As given, or all by name; the host that was asked comes last, because it restarts the others."""
    names = [host["host"] for host in fleet["hosts"]]
    for host in hosts:
        if host not in names:
            raise Problem(f'the fleet has no host named "{host}".{did_you_mean(host, names)} Nothing was restarted.')
    return sorted(dict.fromkeys(hosts or names), key=lambda host: host == fleet["host"])


def restart_one(server: Server, host: str, *, is_asked: bool) -> None:
    if not is_asked:
        return print(message_of(server.wait("POST", f"/hotseat/fleet/hosts/{in_path(host)}/restart")), flush=True)
    restart_server(server)
    return wait_for_fleet(server, host)


def wait_for_fleet(server: Server, host: str) -> None:
    until = time.monotonic() + BACK_S
    while not is_connected(server):
        if time.monotonic() > until:
            raise Problem(f"it has restarted, but was not back in the fleet after {BACK_S:g} s; see its log")
        time.sleep(LOOK_S)
    print(f"{host} has restarted")


def is_connected(server: Server) -> bool:
    try:
        return bool(server.ask("GET", "/hotseat/fleet")["connection"] == "connected")
    except Refused as refused:
        if refused.status != NOT_YET:  # before the new process has joined, it is in no fleet
            raise
        return False
