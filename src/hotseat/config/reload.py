"""The configuration in effect, and how a reload replaces it. Other parts read it each time they need it.

A new configuration is read and validated completely before anything changes; if it has errors, the old one stays
active. A certificate that cannot be read prevents no other change, such as the removal of a key. Files are read in a
thread, one reload at a time; the target applies the result to the running parts.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field, structs

from hotseat.catalog.catalog import CatalogChange
from hotseat.config.crosscheck import refuse_to_serve
from hotseat.config.effective import resolved
from hotseat.config.problems import ConfigError
from hotseat.config.watch import Watch
from hotseat.tasks import forever
from hotseat.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hotseat.config.load import Loaded, LookAgain
    from hotseat.identifiers import ModelName, Seconds
    from hotseat.model_files.folder import ModelFolders
    from hotseat.settings import ApiKey, Settings

log = logging.getLogger(__name__)

FOLDER_LOOK_S: Seconds = 2.0
"""How often a folder of models is scanned."""
AT_STARTUP = {"listen": "listen", "ollama.listen": "ollama_listen", "tls": "tls", "fleet": "fleet"}
"""Keys that cannot change while hotseat runs, and their settings."""
LOOK_S: Seconds = 0.5
"""How often the configuration files are checked, with `--watch-config`."""
MOST_NAMED = 10
NOT_KEYS = ("files", "fromModelsDir", "workingDir", "keepConversations", "withheldEnv", "concurrency")
"""Parts of the effective configuration that follow from others."""


class ActiveConfig:
    def __init__(self, loaded: Loaded, created_keys: Sequence[ApiKey] = ()) -> None:
        self.loaded = loaded
        self.created_keys = tuple(created_keys)
        """Of the commands `hotseat keys`. They change without a reload, and a reload does not change them."""

    @property
    def settings(self) -> Settings:
        """Of the configuration and the commands together."""
        return with_created_keys(self.loaded.settings, self.created_keys)


def with_created_keys(settings: Settings, keys: Sequence[ApiKey]) -> Settings:
    return structs.replace(settings, access=structs.replace(settings.access, created_keys=tuple(keys)))


class ReloadResult(Struct, frozen=True):
    """What a reload changed."""

    change: CatalogChange = field(default_factory=CatalogChange)
    keys: tuple[str, ...] = ()
    """The keys whose values changed."""
    problems: tuple[str, ...] = ()
    is_applied: bool = False
    """With problems: only the certificate stays as it was."""
    pending: tuple[str, ...] = ()
    """The keys whose new values take effect after a restart."""


class ConfigReport(Struct, frozen=True):
    """The active configuration and the warnings and notes about it."""

    resolved: dict[str, Any] = field(default_factory=dict)
    """Macros expanded, defaults filled in, secrets removed."""
    problems: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """The errors of the last reload."""


class ReloadTarget(Protocol):
    """Applies a configuration to the running parts."""

    def load(self) -> Loaded:
        """Read the files and the command line, with memory figures. Raises ConfigError."""
        ...

    def fill(self, loaded: Loaded) -> Loaded:
        """Add each model's memory figures."""
        ...

    def in_use(self) -> frozenset[ModelName]: ...
    def renew_certificate(self) -> None:
        """Raises OSError or SSLError, and keeps the old certificate then."""
        ...

    def apply(self, loaded: Loaded) -> None:
        """Apply to every part except the models."""
        ...

    def change_catalog(self, loaded: Loaded) -> CatalogChange:
        """Apply to the models."""
        ...

    def reloaded(self, *, success: bool) -> None: ...


class Reloader:
    def __init__(self, active: ActiveConfig, model_folders: ModelFolders, target: ReloadTarget) -> None:
        self._active = active
        self._model_folders = model_folders
        self._target = target
        self._refused: tuple[str, ...] = ()
        self._reading = asyncio.Lock()
        self.attempts = 0
        """How often a reload was requested."""

    @property
    def has_failed(self) -> bool:
        """Did the last reload have errors?"""
        return bool(self._refused)

    def report(self) -> ConfigReport:
        loaded = self._active.loaded
        return ConfigReport(resolved(loaded), tuple(map(str, loaded.problems)), self._refused)

    # The files

    async def reload(self) -> ReloadResult:
        """Validate first and keep the old configuration if it is wrong; apply only the difference."""
        self.attempts += 1
        async with self._reading:
            return await self._reload()

    async def watch_files(self, files: Sequence[Path]) -> None:
        """Never returns."""
        await Watch(files).follow(self.reload, "watch the configuration", LOOK_S)

    async def _reload(self) -> ReloadResult:
        try:
            self._model_folders.in_use = self._target.in_use()
            loaded = await in_thread("read the configuration", self._target.load)
        except ConfigError as error:
            return self._kept_old(*map(str, error.problems))
        # Check the settings that will be active, not those in the file: some stay as they were at startup.
        pending = self._pending(loaded.settings)
        settings = self._as_begun(loaded.settings)
        if problem := refuse_to_serve(with_created_keys(settings, self._active.created_keys)):
            return self._kept_old(problem)
        problems = () if "tls" in pending else self._renew_certificate()
        return self._apply(replace(loaded, settings=settings, withheld_env=self._withheld(loaded)), pending, problems)

    def _kept_old(self, *problems: str) -> ReloadResult:
        self._refused = problems
        self._target.reloaded(success=False)
        for problem in problems:
            log.error("reload failed, previous configuration still active error=%r", problem)
        return ReloadResult(problems=problems)

    def _renew_certificate(self) -> tuple[str, ...]:
        try:
            self._target.renew_certificate()
        except (OSError, ssl.SSLError) as problem:
            named = " and ".join(str(file) for file in self._active.settings.tls or () if file)
            log.error("the certificate was not renewed, the old one stays in use file=%r error=%r", named, str(problem))
            return (f"cannot use the certificate: {problem}. Check {named}. The old one stays in use.",)
        return ()

    def _as_begun(self, settings: Settings) -> Settings:
        """Keep the settings that cannot change while hotseat runs."""
        now = self._active.settings
        if settings.listen != now.listen:
            log.warning("a change of listen takes effect after a restart listen=%r", settings.listen)
        if settings.ollama_listen != now.ollama_listen:
            log.warning("a change of ollama.listen takes effect after a restart listen=%r", settings.ollama_listen)
        if settings.tls != now.tls:
            log.warning("a change of tls takes effect after a restart")
        if settings.fleet != now.fleet:  # it has a secret, so it is not shown
            log.warning("a change of fleet takes effect after a restart")
        return structs.replace(
            settings, listen=now.listen, ollama_listen=now.ollama_listen, tls=now.tls, fleet=now.fleet
        )

    def _pending(self, settings: Settings) -> tuple[str, ...]:
        now = self._active.settings
        return tuple(key for key, name in AT_STARTUP.items() if getattr(settings, name) != getattr(now, name))

    def _withheld(self, loaded: Loaded) -> frozenset[str]:
        """A fleet keeps the secrets it had at startup, whatever the file names now."""
        stays = loaded.settings.fleet != self._active.settings.fleet
        return loaded.withheld_env | self._active.loaded.withheld_env if stays else loaded.withheld_env

    def _apply(self, loaded: Loaded, pending: tuple[str, ...], problems: tuple[str, ...]) -> ReloadResult:
        before = replace(self._active.loaded, measured=loaded.measured)  # a measurement is no change of a key
        keys = changed_keys(resolved(before), resolved(loaded))
        self._active.loaded, self._refused = loaded, problems
        self._target.apply(loaded)
        change = self._target.change_catalog(loaded)
        self._target.reloaded(success=not problems)
        log.info(
            "configuration reloaded added=%d restarted=%d removed=%d keys=%r",
            len(change.added),
            len(change.changed),
            len(change.removed),
            shortened(keys),
        )
        return ReloadResult(change, keys, problems, is_applied=True, pending=pending)

    # The folder of models

    async def watch_folder(self) -> None:
        """Polling works where file events do not, as on network file systems, and costs one stat per file."""
        await forever(self._look_at_folder, "watch the folder of models", FOLDER_LOOK_S)

    async def _look_at_folder(self) -> None:
        async with self._reading:
            loaded = self._active.loaded
            if loaded.models_dir and loaded.look_again:
                await self._look_into(loaded, loaded.models_dir, loaded.look_again)

    async def _look_into(self, loaded: Loaded, folder: Path, look_again: LookAgain) -> None:
        before = self._model_folders.offered
        self._model_folders.in_use = self._target.in_use()
        offered = await in_thread("look for models", self._model_folders.look, folder)
        if offered == before:
            return None
        try:
            found = await in_thread(
                "estimate", lambda: self._target.fill(replace(loaded, catalog=look_again(lambda _: offered)))
            )
        except ConfigError as error:
            return log.error("models of a folder were not added error=%r", str(error))
        self._active.loaded = found
        change = self._target.change_catalog(found)
        return log.info("models of a folder changed added=%d removed=%d", len(change.added), len(change.removed))


def changed_keys(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    """Dotted, as in `models.qwen.ttl`; both are effective configurations. A new or removed part is one key."""
    return tuple(_differing(_keys_of(before), _keys_of(after)))


def _keys_of(effective: dict[str, Any]) -> dict[str, Any]:
    """By the names that a file has for them."""
    keys = {**effective, **effective["settings"], "devices": effective["budgets"]}
    return {key: value for key, value in keys.items() if key not in (*NOT_KEYS, "settings", "budgets")}


def _differing(before: dict[str, Any], after: dict[str, Any], path: str = "") -> Iterator[str]:
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differing(old, new, f"{path}{key}.")
        elif old != new:
            yield f"{path}{key}"


def shortened(keys: tuple[str, ...]) -> str:
    """For one log line: the first keys, and how many more."""
    more = f", and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
    return ", ".join(keys[:MOST_NAMED]) + more
