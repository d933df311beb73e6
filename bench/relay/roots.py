"""Runs commands in the root directory of another distribution, for its Python; the network is the machine's.

`just pythons` makes such directories. What a command needs of this machine is mounted there at the same path, in a
mount namespace that ends with the command. Each step replaces its process, so the command keeps the pid.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bench.relay.processes import Failure
from bench.relay.tools import CACHE, REPOSITORY

ENTER = """root=$1; shift
while [ "$1" != -- ]; do
  [ -e "$root$1" ] || if [ -d "$1" ]; then mkdir -p "$root$1"; else touch "$root$1"; fi
  mount --rbind "$1" "$root$1"
  shift
done
shift
exec chroot "$root" "$@"
"""
MACHINE = Path("/")
NEEDED = ("/dev", "/proc", "/etc/resolv.conf", "/etc/ssl/certs")


def inside(root: Path, *argv: str) -> list[str]:
    """A command that runs this one there."""
    if root == MACHINE:
        return [*argv]
    ours = (tempfile.gettempdir(), str(REPOSITORY), str(CACHE.parent.resolve()))
    return ["unshare", "--mount", "sh", "-ec", ENTER, "sh", str(root), *NEEDED, *ours, "--", *argv]


def usable(root: Path) -> Path:
    """The directory, or a failure that says what it lacks."""
    if os.geteuid() != 0:
        raise Failure(f"only root may enter {root}: run as root")
    if not (root / "usr/bin/python3").exists():
        raise Failure(f"{root} has no /usr/bin/python3: `just pythons FOLDER sid` makes such a directory, FOLDER/sid")
    return root.resolve()


def distribution(root: Path) -> str:
    lines = (root / "etc/os-release").read_text().splitlines()
    return next(line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME="))
