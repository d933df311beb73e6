"""`hotseat restart` and `hotseat fleet restart`: each process is replaced by the installed program; models stay loaded.

Hosts are restarted one after the other, each only when the one before is back.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotseat.cli.client import Refused, in_path, message_of
from hotseat.cli.problems import Problem
from hotseat.errors import did_you_mean
from hotseat.model_servers.ports import owner_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.cli.client import Server

LOOK_S = 0.1
RESTART_S = 700.0
"""hotseat gives its new process, and loads and unloads in progress, eleven minutes."""
STATE = "/hotseat/restart"
FLEET_LOOK_S = 0.2
BACK_S = 60.0
"""For the host that was asked to be in the fleet again."""
NOT_YET = 409


def restart(server: Server) -> None:
    before = server.ask("GET", STATE)
    server = replace(server, patience_s=RESTART_S)
    if server.api_key:
        server.wait("POST", STATE)
    else:
        send_signal(server, before["pid"])
    after = wait_for_end(server, before)
    kept = len(server.ask("GET", "/running")["running"])
    print(f"process {after['pid']} has taken over from {before['pid']}; running models: {kept}")


def send_signal(server: Server, pid: int) -> None:
    """Only the user who runs hotseat can send it a signal, so no key is needed."""
    check_is_here(server, pid)
    try:
        os.kill(pid, signal.SIGUSR2)
    except PermissionError:
        raise Problem(f"process {pid} belongs to another user; use sudo, or an API key with the role admin") from None


def check_is_here(server: Server, pid: int) -> None:
    """The process that answered may run elsewhere, with the number of a local one, which a signal would end."""
    if owner_of(*server.peer(), leader=pid) != pid:
        raise Problem(
            f"no process of yours on this machine listens at {server.url}; as another user or from another machine, use"
            " an API key with the role admin"
        )


def wait_for_end(server: Server, before: dict[str, Any]) -> dict[str, Any]:
    """The state of the new process; Problem if the attempt failed, or nobody knows how it went."""
    until = time.monotonic() + RESTART_S
    while time.monotonic() < until:
        state: dict[str, Any] = server.ask("GET", STATE)
        if state["pid"] != before["pid"]:
            return state
        if state["attempts"] > before["attempts"] and not state["is_in_progress"]:
            raise Problem(f"the restart failed, and process {state['pid']} continues: {state['problem']}")
        time.sleep(LOOK_S)
    raise Problem(f"process {before['pid']} has neither restarted nor said why not for {RESTART_S:g} s; see its log")


def restart_hosts(server: Server, hosts: Sequence[str], *, keep_going: bool = False) -> None:
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
    restart(server)
    return wait_for_fleet(server, host)


def wait_for_fleet(server: Server, host: str) -> None:
    until = time.monotonic() + BACK_S
    while not is_connected(server):
        if time.monotonic() > until:
            raise Problem(f"it has restarted, but was not back in the fleet after {BACK_S:g} s; see its log")
        time.sleep(FLEET_LOOK_S)
    print(f"{host} has restarted")


def is_connected(server: Server) -> bool:
    try:
        return bool(server.ask("GET", "/hotseat/fleet")["connection"] == "connected")
    except Refused as refused:
        if refused.status != NOT_YET:  # before the new process has joined, it is in no fleet
            raise
        return False
