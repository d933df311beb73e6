"""`hotseat doctor`: one line for each check, and what to do if it fails."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

from hotseat.cli import doctor_checks
from hotseat.cli.client import Server
from hotseat.cli.doctor_checks import Finding, State
from hotseat.cli.queries import show_json
from hotseat.cli.tables import without_escapes
from hotseat.config.load import Loaded, read
from hotseat.config.problems import ConfigError
from hotseat.config.reload import with_created_keys
from hotseat.memory.manager import devices_for_models
from hotseat.settings import Settings
from hotseat.startup.announcement import url_of
from hotseat.state.key_file import UnreadableKeys, created_keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from hotseat.settings import ApiKey

FINE, FAILED = 0, 1
PATIENCE_S = 5.0
"""Whatever listens at our address may not be an HTTP server at all."""


def doctor(config: Sequence[Path], url: str | None, api_key: str | None, as_json: bool) -> int:
    """Print every finding; 1 if something keeps hotseat or a model from working."""
    findings = list(examined(config, url, api_key))
    if as_json:
        show_json([finding_json(finding) for finding in findings])
    else:
        for finding in findings:
            print(without_escapes(line(finding)))
    return FAILED if any(finding.state is State.FAIL for finding in findings) else FINE


def examined(config: Sequence[Path], url: str | None, api_key: str | None) -> Iterator[Finding]:
    """`url`: the hotseat whose models are asked about; None: the one that the configuration describes."""
    loaded, broken = understood(config)
    created_keys, damaged = keys_here()
    settings = with_created_keys(loaded.settings if loaded else Settings(), created_keys)
    yield from chain(broken, damaged)
    if loaded:
        yield from chain(
            doctor_checks.problems(loaded),
            doctor_checks.programs(loaded, os.environ),
            doctor_checks.model_files(loaded),
            doctor_checks.exposure(settings),
            doctor_checks.address(settings, server_of(settings, api_key)),
        )
    yield from chain(
        doctor_checks.failing_models(server_of(settings, api_key, url)),
        doctor_checks.graphics(),
        doctor_checks.descriptors(),
        doctor_checks.disk(settings),
        doctor_checks.orphans(),
    )


def server_of(settings: Settings, api_key: str | None, url: str | None = None) -> Server:
    """The one at this address, or the one that this configuration describes, whether it runs or not."""
    described = url_of("https" if settings.tls else "http", *settings.listen)
    return Server(url or described, api_key, PATIENCE_S)


def understood(config: Sequence[Path]) -> tuple[Loaded | None, Iterable[Finding]]:
    """The configuration, or what is wrong with it."""
    if not any(path.exists() for path in config):
        named = ", ".join(map(str, config))
        return None, [Finding("configuration", State.FAIL, f"{named} does not exist", "create one with `hotseat init`")]
    try:
        return read(config, environ=os.environ, find_devices=devices_for_models), ()
    except ConfigError as error:
        return None, [Finding("configuration", State.FAIL, str(problem)) for problem in error.problems]


def keys_here() -> tuple[Sequence[ApiKey], Iterable[Finding]]:
    """The keys that `hotseat keys` created, or what is wrong with them."""
    try:
        return created_keys_of(os.environ), ()
    except UnreadableKeys as problem:
        return (), [Finding("API keys", State.FAIL, f"`hotseat serve` will refuse to start: {problem}")]


def line(finding: Finding) -> str:
    advice = f" → {finding.fix}" if finding.fix else ""
    return f"{finding.state.value:4}  {finding.check:13}  {finding.message}{advice}"


def finding_json(finding: Finding) -> dict[str, str]:
    return {"check": finding.check, "state": finding.state.value, "message": finding.message, "fix": finding.fix}
