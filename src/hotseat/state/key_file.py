"""The API keys that commands created: keys.json of the state directory, with the hashes of their secrets.

Unlike other state, it decides who may do what. So a damaged file is an error and never counts as empty, and a change
is on the disk before anybody is told of it. The secrets are random and have 256 bits, so that a plain SHA-256 cannot be
reversed by guessing, and needs neither salt nor repetition.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hotseat.errors import NewerFormat
from hotseat.settings import BATCH, PRIORITIES, ApiKey, Budget, Role
from hotseat.state.state_file import FORMAT, locked, read_versioned, state_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hotseat.identifiers import Seconds

KEYS = "keys.json"
"""In the state directory."""
LONGEST_WAIT: Seconds = 5.0
"""For another process that changes the file, which takes it milliseconds."""
SHA256 = "sha256:"
KNOWN = {"name", "hash", "role", "models", "requests", "tokens", "concurrencyLimit", "priority"}
"""As the entries of `apiKeys`, so that an entry can be moved to the configuration."""
NAME = "[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}"
"""Regular expression: what needs no quotes in a command, a path or a log line."""
_is_name = re.compile(NAME).fullmatch
_is_hash = re.compile(rf"{SHA256}[0-9a-f]{{64}}").fullmatch


class UnreadableKeys(Exception):
    """The file exists and cannot be used."""


class KeyFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[ApiKey, ...]:
        """The keys; none if there is no file."""
        try:
            keys = tuple(map(_key, _entries(read_versioned(self.path))))
            _check_unique(keys)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except NewerFormat as problem:
            raise UnreadableKeys(f"{self.path} {problem} Without it, hotseat starts without its keys.") from None
        except (OSError, ValueError) as problem:
            reason = f"the API keys of {self.path} cannot be read: {problem}"
            raise UnreadableKeys(f"{reason}. Restore the file, or delete it to start without its keys.") from None
        return keys

    def change(self, step: Callable[[tuple[ApiKey, ...]], tuple[ApiKey, ...]]) -> tuple[ApiKey, ...]:
        """Apply a step to the keys in the file; returns when the result is on the disk. OSError if it is not."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.path.parent, LONGEST_WAIT):  # another hotseat may use the same directory
            keys = step(self.read())
            _write(self.path, {"format": FORMAT, "keys": [_plain(key) for key in keys]})
        return keys


def created_keys_of(environ: Mapping[str, str]) -> tuple[ApiKey, ...]:
    """Those in the state directory of a process with this environment; raises UnreadableKeys."""
    return KeyFile(state_directory(environ) / KEYS).read()


def _write(path: Path, kept: dict[str, Any]) -> None:
    """Atomic: after a failure or a loss of power the file is the old or the new one."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            json.dump(kept, opened, indent=1)
            opened.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


def _plain(key: ApiKey) -> dict[str, Any]:
    return {"name": key.name, "hash": f"{SHA256}{key.hashed}", **rights_of(key)}


def rights_of(key: ApiKey) -> dict[str, Any]:
    """As in an entry of `apiKeys`."""
    return {
        "role": key.role.value,
        "models": list(key.models),
        "requests": str(key.requests) if key.requests else None,
        "tokens": str(key.tokens) if key.tokens else None,
        "concurrencyLimit": key.concurrency or 0,
        "priority": key.priority,
    }


def _entries(kept: dict[str, Any]) -> list[Any]:
    entries = kept.get("keys")
    if not isinstance(entries, list):
        raise ValueError("it has no list of keys")
    return entries


def _key(plain: object) -> ApiKey:
    """Unknown members are errors: one that a newer version writes may restrict the key."""
    if not isinstance(plain, dict) or plain.keys() != KNOWN:
        raise ValueError(f"each key must have {', '.join(sorted(KNOWN))}")
    name, hashed, models = plain["name"], plain["hash"], plain["models"]
    if not isinstance(name, str) or not _is_name(name) or not isinstance(hashed, str) or not _is_hash(hashed):
        raise ValueError("a key has an invalid name or hash")
    if not isinstance(models, list) or not all(isinstance(model, str) for model in models):
        raise ValueError(f'the models of the key "{name}" are not a list of names')
    if plain["priority"] not in PRIORITIES:
        raise ValueError(f'the priority of the key "{name}" is none of {", ".join(PRIORITIES)}')
    return ApiKey(
        "",
        Role(plain["role"]),
        name,
        hashed.removeprefix(SHA256),
        tuple(models),
        _budget(plain["requests"]),
        _budget(plain["tokens"]),
        _limit(plain["concurrencyLimit"]),
        is_batch=plain["priority"] == BATCH,
    )


def _budget(value: object) -> Budget | None:
    if value is not None and not isinstance(value, str):
        raise ValueError("a budget is not a text")
    return None if value is None else Budget.of(value)


def _limit(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a limit is not a number, or is negative")
    return value or None


def _check_unique(keys: tuple[ApiKey, ...]) -> None:
    if len({key.name for key in keys}) < len(keys) or len({key.hashed for key in keys}) < len(keys):
        raise ValueError("two keys have the same name or the same hash")
