"""`hotseat systemd`: units that run hotseat with the fewest rights that model servers can work with."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.cli.problems import Problem
from hotseat.config.load import read
from hotseat.config.problems import ConfigError
from hotseat.memory.manager import devices_for_models

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotseat.settings import Settings

SYSTEM_UNITS = Path("/etc/systemd/system")

SERVICE = """\
[Unit]
Description=hotseat, model-swapping inference proxy
After=network.target

[Service]
Type=notify
{identity}ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
# hotseat notifies systemd twice a minute that its event loop runs.
WatchdogSec=60
# Streams may finish first, then hotseat stops every model server itself.
TimeoutStopSec=90
# After a crash, and after `systemctl restart`, which sends SIGUSR1, the model servers wait for the next hotseat if
# crashGrace is set. hotseat's guard process ends them otherwise.
KillMode=process
RestartKillSignal=SIGUSR1
# The kernel may end one model server for lack of memory; hotseat and the others go on.
OOMPolicy=continue
LimitNOFILE=65536
UMask=0077
{confinement}
[Install]
WantedBy={target}
"""

OF_ANY_UNIT = """\
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
"""

OF_SYSTEM_UNIT = """\
StateDirectory=hotseat
StateDirectoryMode=0700
CacheDirectory=hotseat
Environment=XDG_CACHE_HOME=%C/hotseat
# Models may be below /home; if a server writes there, add ReadWritePaths=.
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths=/tmp /var/tmp
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
CapabilityBoundingSet=
AmbientCapabilities=
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
# Omitted on purpose: PrivateDevices, because model servers need their GPUs, MemoryDenyWriteExecute, because some
# compile code at run time, and PrivateTmp, because systemd deletes that folder at each restart, while the servers that
# were kept, and all that are started later, still have it as /tmp.
"""

SOCKET = """\
[Unit]
Description=hotseat socket

[Socket]
{listens}
NoDelay=yes

[Install]
WantedBy=sockets.target
"""


@dataclass(frozen=True, slots=True)
class UnitOptions:
    config: Path
    for_user: bool
    """A unit of the user's own manager, which needs no root and supports fewer restrictions."""
    with_socket: bool
    """systemd holds the listening socket, so that no connection is refused during a restart."""


def units(options: UnitOptions) -> dict[str, str]:
    """The text of each unit, by file name."""
    config = options.config.absolute()
    command = shlex.join([str(program()), "serve", "--config", str(config)])
    service = SERVICE.format(
        identity="" if options.for_user else f"User={account()}\n",
        command=command.replace("%", "%%"),
        confinement=OF_ANY_UNIT + ("" if options.for_user else OF_SYSTEM_UNIT),
        target="default.target" if options.for_user else "multi-user.target",
    )
    if not options.with_socket:
        return {"hotseat.service": service}
    listens = "\n".join(f"ListenStream={address}" for address in addresses(config))
    return {"hotseat.service": service, "hotseat.socket": SOCKET.format(listens=listens)}


def program() -> Path:
    """The program installed with this interpreter, else the one on PATH."""
    beside = Path(sys.executable).with_name("hotseat")
    return beside if beside.exists() else Path(shutil.which("hotseat") or "hotseat").absolute()


def account() -> str:
    """The calling user, also through sudo: model files are often readable by their owner alone."""
    return os.environ.get("SUDO_USER") or getpass.getuser()


def addresses(config: Path) -> Iterator[str]:
    try:
        host, port = settings_in(config).listen
    except ConfigError as error:
        raise Problem(f"the configuration has errors: {error.problems[0]}") from None
    names = ("127.0.0.1", "::1") if host == "localhost" else (host,)
    yield from (f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names)


def settings_in(config: Path) -> Settings:
    return read([config], environ=os.environ, find_devices=devices_for_models).settings


def show(options: UnitOptions) -> None:
    for name, text in units(options).items():
        print(f"# {name}\n{text}")


def install(options: UnitOptions, force: bool) -> None:
    """Write the units to systemd's folder and print how to load them."""
    if not options.config.exists():
        raise Problem(f"{options.config} does not exist; `hotseat init` writes a configuration")
    folder = user_units() if options.for_user else SYSTEM_UNITS
    fresh = units(options)
    present = [name for name in fresh if (folder / name).exists()]
    if present and not force:
        raise Problem(f"{folder / present[0]} exists; --force overwrites it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in fresh.items():
            (folder / name).write_text(text)
    except OSError as error:
        hint = "" if options.for_user else "; use sudo, or --user for a user unit"
        raise Problem(f"{error.filename} cannot be written: {error.strerror}{hint}") from None
    print(*(f"wrote {folder / name}" for name in fresh), *next_steps(options, list(fresh)), sep="\n")


def next_steps(options: UnitOptions, names: Sequence[str]) -> Iterator[str]:
    systemctl = "systemctl --user" if options.for_user else "systemctl"
    yield f"next: {systemctl} daemon-reload && {systemctl} enable --now {names[-1]}"
    if options.for_user:
        yield "to keep it running after logout: loginctl enable-linger"
    if not keeps_servers(options.config):
        yield f"to keep models loaded when the service restarts or crashes, add `crashGrace: 15s` to {options.config}"


def keeps_servers(config: Path) -> bool:
    """A configuration with errors is reported by the service at its start."""
    try:
        return settings_in(config).crash_grace_s > 0
    except ConfigError:
        return True


def user_units() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"
