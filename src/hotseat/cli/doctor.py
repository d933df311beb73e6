"""`hotseat doctor`: one line for each check, and what to do if it fails.

The checks are read-only: nothing is started, stopped or changed.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import socket
import tempfile
from dataclasses import dataclass
from enum import Enum
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.cli.client import Refused, Server, message_of
from hotseat.cli.problems import MISREAD, Problem
from hotseat.cli.queries import failures_in_words, is_failing, show_json
from hotseat.cli.tables import without_escapes
from hotseat.config.crosscheck import refuse_addresses
from hotseat.config.load import Loaded, read
from hotseat.config.problems import ConfigError, Severity
from hotseat.config.reload import with_created_keys
from hotseat.config.specs import SHELLS
from hotseat.config.units import is_loopback, size_text
from hotseat.estimates.command import container_run
from hotseat.estimates.llama_flags import VALUES
from hotseat.memory import nvidia
from hotseat.memory.manager import devices_for_models
from hotseat.model_servers.launch_processes import environment, find_program
from hotseat.model_servers.orphans import is_abandoned
from hotseat.model_servers.os_processes import PROC, marker_of, processes
from hotseat.model_servers.ports import ancestry, describe_process, owner_of
from hotseat.settings import Settings
from hotseat.startup.announcement import url_of
from hotseat.state.key_file import UnreadableKeys, created_keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hotseat.catalog.spec import ModelSpec
    from hotseat.settings import ApiKey

FINE, FAILED = 0, 1
PATIENCE_S = 5.0
"""Whatever listens at our address may not be an HTTP server at all."""
ENOUGH_DESCRIPTORS = 4096
SERVING = re.compile(rb"hotseat\0serve\b")
UNAUTHORIZED = 401
FIX_CMD = "correct cmd"
FIX_RELATIVE = "correct cmd, or run this where you run `hotseat serve`"
PCI = Path("/sys/bus/pci/devices")
DISPLAYS = ("0x0300", "0x0302", "0x0380")
"""PCI device classes that may compute: VGA, 3D, other displays."""
NVIDIA, AMD = "0x10de", "0x1002"
DRIVERS = {NVIDIA: Path("/proc/driver/nvidia/version"), AMD: Path("/dev/kfd")}
"""Files that exist when the compute driver is loaded."""
NAMES = {NVIDIA: "NVIDIA", AMD: "AMD"}
DXG = Path("/dev/dxg")
"""The GPUs of Windows under WSL2, where the PCI bus has none."""
MODEL_FILE = ".gguf"
FILE_OPTIONS = frozenset(VALUES["model"] + VALUES["projector"] + VALUES["adapters"] + VALUES["draft"])
"""A relative name anywhere else may be an alias, or a file of a hub."""


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
            problems(loaded),
            programs(loaded, os.environ),
            model_files(loaded),
            exposure(settings),
            address(settings, server_of(settings, api_key)),
        )
    yield from chain(
        failing_models(server_of(settings, api_key, url)),
        graphics(),
        descriptors(),
        disk(settings),
        orphans(),
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


class State(Enum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    state: State
    message: str
    fix: str = ""
    """What to do about it."""


# The configuration


def problems(loaded: Loaded) -> Iterator[Finding]:
    files, count = ", ".join(map(str, loaded.files)), len(loaded.catalog.models)
    yield Finding("configuration", State.OK, f"{count} {'model' if count == 1 else 'models'} in {files}")
    for problem in loaded.problems:
        if problem.severity is Severity.WARNING:
            yield Finding("configuration", State.WARN, str(problem), "see `hotseat check`")


def programs(loaded: Loaded, env: Mapping[str, str]) -> Iterator[Finding]:
    """Each program once, however commands name it; a missing one with the models that need it."""
    seen = set()
    needed: dict[str, list[ModelSpec]] = {}
    for spec in loaded.catalog.models.values():
        needed.setdefault(spec.recipe.argv[0], []).append(spec)
    for program, specs in needed.items():
        try:
            found = find_program(program, environment(env, specs[0].recipe.env))
        except OSError as problem:
            models = ", ".join(spec.name for spec in specs[:5])
            yield Finding("programs", State.FAIL, f"{problem}; needed by {models}", "install it or correct cmd")
        else:
            if found not in seen:
                yield Finding("programs", State.OK, found)
            seen.add(found)


def model_files(loaded: Loaded) -> Iterator[Finding]:
    missing = list(missing_files(loaded))
    for model, path in missing:
        place, fix = (path, FIX_CMD) if os.path.isabs(path) else (f"{path} in {Path.cwd()}", FIX_RELATIVE)
        yield Finding("model files", State.FAIL, f"{place} does not exist; needed by {model}", fix)
    if not missing:
        yield Finding("model files", State.OK, "every file named in a command exists")


# The address


def exposure(settings: Settings) -> Iterator[Finding]:
    host, port = settings.listen
    if sentence := refuse_addresses(settings):
        yield Finding("exposure", State.FAIL, f"`hotseat serve` will refuse this address: {sentence}")
    elif is_loopback(host):
        yield Finding("exposure", State.OK, f"{host}:{port} is reachable from this machine only")
    elif settings.access.is_restricted:
        yield Finding(
            "exposure", State.OK, f"{host}:{port} is open to other machines and requires API keys or a sign-in"
        )
    else:
        said = f"anyone who can reach {host}:{port} can use and stop your models"
        yield Finding("exposure", State.WARN, said, "create one with `hotseat keys create`")


def address(settings: Settings, server: Server) -> Iterator[Finding]:
    """Whether the address is free or in use by a hotseat."""
    host, port = settings.listen
    if not _is_answered(host, port):
        yield Finding("address", State.OK, f"{host}:{port} is free")
        return
    owner = owner_of(host, port)
    if (owner and SERVING.search(_command_line(owner))) or _is_hotseat(server):
        yield Finding("address", State.OK, f"hotseat is running on {host}:{port}")
        return
    who = describe_process(owner) if owner else "another program"
    yield Finding(
        "address", State.FAIL, f"{host}:{port} is in use by {who}", "stop it, or choose another address with listen"
    )


def _is_answered(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False


def _is_hotseat(server: Server) -> bool:
    """Ask over HTTP, since another user's process does not show what it is; hotseat may answer that it needs a key."""
    try:
        message_of(server.ask("GET", "/hotseat/ready"))
    except Refused as refused:
        return refused.status == UNAUTHORIZED
    except Problem:
        return False
    return True


def failing_models(server: Server) -> Iterator[Finding]:
    """What a running hotseat knows; nothing if none answers, or if it wants another key."""
    try:
        models = server.ask("GET", "/hotseat/models")["models"]
        failing = [model for model in models if is_failing(model)]
    except (Problem, *MISREAD):  # it may be another program
        return
    for model in failing:
        says_what_to_do = " is not ready: " in model["why"]  # a failed start; a crash names its exit status only
        said = f"{model['model']} {failures_in_words(model)}. {model['why']}"
        yield Finding("models", State.FAIL, said, "" if says_what_to_do else f"see `hotseat logs {model['model']}`")
    if not failing:
        yield Finding("models", State.OK, "no model is failing")


# The machine


def graphics(
    pci: Path = PCI,
    drivers: Mapping[str, Path] = DRIVERS,
    dxg: Path = DXG,
    nvml: Callable[[], object] = nvidia.library,
) -> Iterator[Finding]:
    """Report a card whose driver is missing, or present but not accessible."""
    vendors = {vendor for card in _cards(pci) if (vendor := _first_line(card / "vendor")) in drivers}
    for vendor in sorted(vendors):
        name, sign = NAMES[vendor], drivers[vendor]
        if not sign.exists():
            said = f"an {name} GPU is present, but its driver is not loaded"
            yield Finding("GPU", State.WARN, said, "install the driver; until then models run on the CPU")
        elif not os.access(sign, os.R_OK):
            yield Finding(
                "GPU", State.WARN, f"{sign} is not accessible to this user", "join the groups render and video"
            )
        else:
            yield Finding("GPU", State.OK, f"{name}: {_first_line(sign) or sign}")
    if not vendors and dxg.exists():
        yield _shared_by_windows(nvml() is not None)
    elif not vendors:
        yield Finding("GPU", State.OK, "no NVIDIA or AMD GPU found: models run on the CPU")


def _shared_by_windows(has_nvml: bool) -> Finding:
    if has_nvml:
        return Finding("GPU", State.OK, "NVIDIA, shared by Windows (WSL2)")
    said = "Windows shares a GPU with this machine (WSL2), but hotseat cannot read its memory"
    advice = "NVIDIA: set LD_LIBRARY_PATH=/usr/lib/wsl/lib; other GPUs: declare devices, and the memory of each model"
    return Finding("GPU", State.WARN, said, advice)


def _cards(pci: Path) -> Iterator[Path]:
    if pci.is_dir():
        yield from (card for card in sorted(pci.iterdir()) if _first_line(card / "class").startswith(DISPLAYS))


def _first_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").partition("\n")[0].strip() if path.is_file() else ""
    except OSError:
        return ""


def descriptors() -> Iterator[Finding]:
    """hotseat raises its own limit as far as the hard limit allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= ENOUGH_DESCRIPTORS:
        yield Finding("open files", State.OK, f"up to {hard}" if hard > 0 else "unlimited")
    else:
        said = f"at most {hard}, and every stream needs two"
        yield Finding("open files", State.WARN, said, f"raise it: ulimit -n {ENOUGH_DESCRIPTORS * 4}, or LimitNOFILE=")


def disk(settings: Settings) -> Iterator[Finding]:
    """Large uploads stay in an unlinked file until their model is ready."""
    folder, largest = tempfile.gettempdir(), settings.limits.body
    free = shutil.disk_usage(folder).free
    said = f"{size_text(free)} free in {folder}, which stores uploads of up to {size_text(largest)}"
    if free >= largest:
        yield Finding("disk", State.OK, said)
    else:
        yield Finding("disk", State.WARN, said, "free disk space, set TMPDIR to another folder, or lower limits.body")


def orphans() -> Iterator[Finding]:
    """Find model servers of a hotseat that is gone: they carry its environment mark and have no guard as ancestor."""
    ours = ancestry(os.getpid())
    left = [pid for pid in processes() if pid not in ours and marker_of(pid) and is_abandoned(pid)]
    for pid in left:
        said = f"{describe_process(pid)} was started by a hotseat process that no longer runs"
        yield Finding("orphans", State.WARN, said, f"stop it: kill {pid}")
    if not left:
        yield Finding("orphans", State.OK, "no orphaned model servers")


def _command_line(pid: int) -> bytes:
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as words:
            return words.read()
    except OSError:
        return b""


def missing_files(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """Each model and path, as `hotseat serve` in this folder would start it."""
    for spec in loaded.catalog.models.values():
        for path in files_named_in(spec.recipe.argv):
            if not os.path.exists(path):
                yield spec.name, path


def files_named_in(argv: Sequence[str]) -> list[str]:
    """Of files within containers, those in mounted folders; none if a shell or another host looks for them."""
    if os.path.basename(argv[0]) in SHELLS:
        return []
    is_fetched = not set(VALUES["fetched"]).isdisjoint(argv)
    words = [
        path
        for option, word in pairwise(argv)
        if not (is_fetched and option in VALUES["model"])
        for path in (word.split(",") if option in VALUES["adapters"] else [word])
        if path.endswith(MODEL_FILE) and (os.path.isabs(path) or (option in FILE_OPTIONS and is_direct(argv)))
    ]
    run = container_run(tuple(argv))
    return [path for word in words if (path := run.outside(word)) != word and os.path.isabs(path)] if run else words


def is_direct(argv: Sequence[str]) -> bool:
    """Does the program start in this folder? `docker exec` and `env --chdir` start another one elsewhere."""
    return argv[1].startswith("-") and os.path.basename(argv[0]) != "env"
