"""Podman's monitors of containers, recognised by their command line."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from tests.support.waiting import eventually

from hotseat.model_servers.monitors import is_contained, is_monitor, is_monitor_of, to_kill
from hotseat.model_servers.os_processes import children

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def monitor(*words: str) -> Iterator[int]:
    """A shell under the monitor's name; it waits for its input to close."""
    command = ["/usr/bin/conmon", "-c", *words, "-n", "qwen"]
    with subprocess.Popen(command, executable="/bin/sh", stdin=subprocess.PIPE) as shell:
        eventually(lambda: is_monitor(shell.pid) and children(shell.pid))
        yield shell.pid


@pytest.mark.parametrize(
    ("client", "is_its"),
    [
        (("podman", "run", "--name", "qwen", "image"), True),
        (("podman", "run", "--name=qwen", "image"), True),
        (("podman", "run", "--name", "gemma", "image", "qwen"), False),
        (("podman", "run", "image"), False),
    ],
)
def test_a_monitor_is_the_clients_that_named_the_container(client: tuple[str, ...], is_its: bool) -> None:
    """The monitor has the name as an argument."""
    with monitor("cat; true") as pid:
        assert is_monitor_of(pid, client) is is_its


def test_another_process_is_no_monitor() -> None:
    """Neither one that runs nor one that is gone."""
    with subprocess.Popen(["cat", "-n"], stdin=subprocess.PIPE) as cat:
        assert not is_monitor(cat.pid)
        assert not is_monitor_of(cat.pid, ("podman", "run", "--name", "qwen"))
    assert not is_monitor(cat.pid)


CONTAINED = "unshare --map-root-user --mount cat; true"
"""A monitor's child in its own mount namespace, as podman's runtime starts one."""


def contained_in(monitor: int) -> int:
    (child,) = children(monitor)
    eventually(lambda: is_contained(child, monitor))
    return child


def test_a_container_is_killed_before_its_monitor() -> None:
    """The monitor removes it then; if that takes too long, it is killed, too."""
    with monitor(CONTAINED) as pid:
        container = contained_in(pid)

        assert to_kill([pid, 1], is_late=False) == [1, container]
        assert to_kill([pid, 1], is_late=True) == [1, *sorted((pid, container))]


def test_the_programs_that_remove_a_container_are_no_part_of_it() -> None:
    """They are below the monitor, as the container was, and the record of another guard may name them."""
    with monitor("sh -c 'cat; true' podman container cleanup --rm 4711; true") as pid:
        (removal,) = children(pid)
        (runtime,) = eventually(lambda: children(removal))

        assert to_kill([pid, removal, runtime], is_late=False) == []
        assert to_kill([pid, removal, runtime], is_late=True) == sorted((pid, removal, runtime))


def test_a_process_of_another_user_is_of_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """A monitor's own programs have its user."""
    with monitor("cat; true") as pid:
        (child,) = children(pid)
        monkeypatch.setattr(os, "readlink", Mock(side_effect=PermissionError))

        assert is_contained(child, pid)


def test_a_process_that_is_gone_is_of_no_container() -> None:
    """Its number may be another's soon."""
    with monitor("cat; true") as pid:
        (gone,) = children(pid)

    assert not is_contained(gone, os.getpid())
