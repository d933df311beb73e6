"""Applies the command line options of `hotseat serve` to what the files say."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hotseat.config.fleet import with_address
from hotseat.config.load import Loaded, read
from hotseat.memory.manager import devices_for_models

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.model_files.folder import ModelFolders
    from hotseat.settings import TlsFiles


class ServeOptions(Struct, frozen=True):
    config: list[Path]
    listen: tuple[str, int] | None = None
    allow_open: bool = False
    lenient: bool = False
    watches: bool = False
    """Reload when a configuration file changes."""
    tls: TlsFiles | None = None
    """None: what the files say."""


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
