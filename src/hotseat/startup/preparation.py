"""What a start needs before anything runs: options, sockets, a configuration that may be served, and a certificate."""

from __future__ import annotations

import errno
import os
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hotseat.config.crosscheck import refuse_to_serve
from hotseat.config.fleet import with_address
from hotseat.config.load import Loaded, read
from hotseat.config.problems import ConfigError
from hotseat.config.reload import with_created_keys
from hotseat.daemon.systemd import Systemd, handed_sockets, most_exposed
from hotseat.handover.predecessor import predecessor_in
from hotseat.memory.manager import devices_for_models
from hotseat.model_files.folder import ModelFolders
from hotseat.net.listeners import bound, tls_context
from hotseat.state.key_file import UnreadableKeys, created_keys_of
from hotseat.telemetry import logs
from hotseat.telemetry.recent_lines import RecentLines

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from pathlib import Path

    from hotseat.handover.predecessor import Predecessor
    from hotseat.settings import ApiKey, Settings, TlsFiles
    from hotseat.telemetry.stdout_writer import StdoutWriter

FAILED, INVALID = 1, 3
TAKEN = "`hotseat doctor` names the program that uses it. "
OLLAMA_RUNS = "Ollama itself probably runs: stop it with `systemctl stop ollama`, or quit its app. "


class ServeOptions(Struct, frozen=True):
    config: list[Path]
    listen: tuple[str, int] | None = None
    allow_open: bool = False
    lenient: bool = False
    watches: bool = False
    """Reload when a configuration file changes."""
    tls: TlsFiles | None = None
    """None: what the files say."""


class CannotStart(Exception):
    def __init__(self, reason: str, exit_code: int = INVALID) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


class Prepared(Struct, frozen=True):
    options: ServeOptions
    loaded: Loaded
    created_keys: Sequence[ApiKey]
    sockets: list[socket.socket]
    ollama_sockets: list[socket.socket]
    """For Ollama's clients."""
    tls: ssl.SSLContext | None
    """None: plain HTTP."""
    model_folders: ModelFolders
    systemd: Systemd
    writer: StdoutWriter
    recent_lines: RecentLines
    by_systemd: bool = False
    """Did systemd open the sockets?"""
    predecessor: Predecessor | None = None
    """The process that this one replaces; None: an ordinary start."""

    @property
    def is_known_by_pid(self) -> bool:
        """Does whoever started it follow this process alone? systemd is told which one serves."""
        return self.predecessor is None and not self.systemd.is_there


def prepare(options: ServeOptions, writer: StdoutWriter) -> Prepared:
    """Raises CannotStart, after it has told the process that this one was to replace."""
    predecessor = find_predecessor()
    try:
        return prepare_with(predecessor, options, writer)
    except CannotStart as refused:
        if predecessor:
            predecessor.cannot_start(str(refused))
        raise


def prepare_with(predecessor: Predecessor | None, options: ServeOptions, writer: StdoutWriter) -> Prepared:
    """Errors of the configuration come first, so that they are shown even if the port is taken."""
    model_folders, systemd = ModelFolders(), Systemd(os.environ)
    handed = predecessor.sockets_of_systemd() if predecessor else sockets_of_systemd()
    if handed:
        options = structs.replace(options, listen=most_exposed(handed))
    loaded = load_config(options, model_folders)
    created_keys, tls = load_access(loaded.settings)
    recent_lines = RecentLines()
    logs.set_up(loaded.settings.logging, writer, recent_lines)
    listening = listen(loaded.settings, handed, predecessor)
    return Prepared(
        options, loaded, created_keys, *listening, tls, model_folders, systemd, writer, recent_lines, bool(handed),
        predecessor,
    )  # fmt: skip


def load(options: ServeOptions, model_folders: ModelFolders) -> Loaded:
    """Read the configuration and apply the command line options."""
    loaded = read(
        options.config,
        environ=os.environ,
        lenient=options.lenient,
        offer=model_folders.look,
        find_devices=devices_for_models,
        listen=options.listen,
    )
    settings = loaded.settings
    if options.tls is not None:
        settings = structs.replace(settings, tls=options.tls)
    if options.allow_open:
        settings = structs.replace(settings, access=structs.replace(settings.access, allow_open=True))
    return replace(loaded, settings=with_address(settings))


def listen(
    settings: Settings, handed: list[socket.socket], predecessor: Predecessor | None
) -> tuple[list[socket.socket], list[socket.socket]]:
    """The sockets for clients, and those for Ollama's clients. Those of the predecessor are used if it has them."""
    sockets = handed or (predecessor.sockets_for(settings.listen) if predecessor else [])
    sockets = sockets or open_sockets(settings.listen, "Choose another address with --listen.", TAKEN)
    try:
        for_ollama = predecessor.sockets_for_ollama(settings.ollama_listen) if predecessor else []
        return sockets, for_ollama or open_sockets_for_ollama(settings.ollama_listen)
    except CannotStart:
        for sock in sockets:
            sock.close()
        raise


def find_predecessor() -> Predecessor | None:
    try:
        return predecessor_in(os.environ)
    except (OSError, ValueError) as problem:
        raise CannotStart(f"cannot take over from the running hotseat: {problem}", FAILED) from None


def sockets_of_systemd() -> list[socket.socket]:
    try:
        return handed_sockets(os.environ)
    except ValueError as problem:
        raise CannotStart(str(problem)) from None


def load_config(options: ServeOptions, model_folders: ModelFolders) -> Loaded:
    try:
        return load(options, model_folders)
    except ConfigError as error:
        raise CannotStart("\n".join(map(str, error.problems))) from None


def load_access(settings: Settings) -> tuple[Sequence[ApiKey], ssl.SSLContext | None]:
    """The created keys and the certificate, if the settings may be served with them; for `hotseat check` too."""
    created_keys = load_created_keys()
    if problem := refuse_to_serve(with_created_keys(settings, created_keys)):
        raise CannotStart(problem)
    return created_keys, load_certificate(settings.tls)


def load_created_keys() -> Sequence[ApiKey]:
    """A start without keys that exist would let everybody in."""
    try:
        return created_keys_of(os.environ)
    except UnreadableKeys as problem:
        raise CannotStart(str(problem)) from None


def load_certificate(files: TlsFiles | None) -> ssl.SSLContext | None:
    try:
        return tls_context(files)
    except (OSError, ssl.SSLError) as problem:
        named = " and ".join(str(file) for file in files or () if file)
        raise CannotStart(f"cannot use the certificate: {problem}. Check {named}.") from None


def open_sockets(listen: tuple[str, int], advice: str, in_use: str = "") -> list[socket.socket]:
    """`in_use`: what to say first if another program has the port."""
    host, port = listen
    try:
        return bound(listen)
    except OSError as problem:
        first = in_use if problem.errno == errno.EADDRINUSE else ""
        raise CannotStart(f"cannot listen on {host}:{port}: {problem.strerror}. {first}{advice}", FAILED) from None


def open_sockets_for_ollama(listen: tuple[str, int] | None) -> list[socket.socket]:
    if listen is None:
        return []
    return open_sockets(listen, "Choose another address with ollama.listen in the configuration.", OLLAMA_RUNS)
