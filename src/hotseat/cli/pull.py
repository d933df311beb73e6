"""`hotseat pull`, and `hotseat run ORG/REPO`: downloads a model to its folder, after a look at disk and memory."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hotseat.cli.fit import UNREADABLE, budget, devices, fitted
from hotseat.cli.local_models import known, models_folder, models_in, name_of, wait_until_listed
from hotseat.cli.problems import Problem, confirm
from hotseat.cli.tables import without_escapes
from hotseat.config.units import size_text
from hotseat.downloads import hub, url_file
from hotseat.downloads.model_download import HubDownload, UrlDownload, remote_file, remote_files
from hotseat.downloads.problems import DownloadProblem
from hotseat.downloads.reference import HubReference, parse
from hotseat.downloads.transfer import Patience
from hotseat.downloads.variants import USUAL, Choice, choose, named, projectors, variants
from hotseat.estimates.report import CannotEstimate
from hotseat.model_files.file_kind import read_gguf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TextIO

    from hotseat.cli.fit import Device, Fitted
    from hotseat.cli.local_models import Places
    from hotseat.downloads.hub import Repository
    from hotseat.downloads.model_download import ModelDownload, RemoteFiles
    from hotseat.downloads.reference import Reference, UrlReference
    from hotseat.downloads.variants import RemoteFile, Variant
    from hotseat.identifiers import Bytes

SPARE: Bytes = 256 << 20
"""Left free on the disk."""


@dataclass(frozen=True, slots=True)
class Plan:
    title: str
    download: ModelDownload
    memory: str
    """What the memory of this machine means for the model, as the end of a sentence."""
    reason: str = ""
    """Why this quantisation; empty: the user named it."""


def pull(text: str, places: Places) -> str:
    """Download the model and return the name under which the running hotseat lists it."""
    with in_words():
        reference, folder = parse(text, hub.address()), models_folder(places)
        found = plan(reference, folder)
        show(found, sys.stdout)
        return carry_out(found, folder, places, sys.stdout)


@contextmanager
def in_words() -> Iterator[None]:
    """What stops a download is an error of the command."""
    try:
        yield
    except DownloadProblem as problem:
        raise Problem(str(problem)) from None
    except BrokenPipeError:  # the reader of the output has closed the pipe
        raise
    except OSError as problem:
        raise Problem(f"{problem.filename or 'the download'}: {problem.strerror or problem}") from None
    except KeyboardInterrupt:
        raise Problem("stopped") from None


def plan(reference: Reference, folder: Path) -> Plan:
    machine, patience = devices(), Patience(say)
    if isinstance(reference, HubReference):
        return _from_hub(reference, hub.repository(reference.repository, patience), folder, machine)
    url_file.refuse_existing(folder / reference.name)
    return _from_url(reference, url_file.look_up(reference, patience), folder, machine)


def _from_hub(reference: HubReference, repository: Repository, folder: Path, machine: Sequence[Device]) -> Plan:
    found = variants(repository.files)
    if not found:
        raise DownloadProblem(f"{repository.name} has no GGUF file; look for a repository whose name ends with -GGUF")
    projector = next(iter(projectors(repository.files)), None)
    memory = _Memory(remote_files(repository, found, projector), projector, machine)
    if reference.wanted:
        choice = Choice(named(found, reference.wanted, repository.name), "")
    else:
        choice = choose(found, memory.fits, repository.name)
    download = HubDownload(repository, choice.variant, projector, folder)
    parts = f" in {len(choice.variant.files)} files" if len(choice.variant.files) > 1 else ""
    title = f"{repository.name}: {choice.variant.label}{parts}" + (f", with {projector.name}" if projector else "")
    return Plan(title, download, memory.said(choice.variant.first.name, choice.variant.size), choice.reason)


def _from_url(reference: UrlReference, file: url_file.UrlFile, folder: Path, machine: Sequence[Device]) -> Plan:
    memory = _Memory(remote_file(file), None, machine)
    return Plan(reference.name, UrlDownload(file, folder), memory.said(file.name, file.size))


@dataclass(frozen=True, slots=True)
class _Memory:
    """Compares files at a server with the memory of this machine, by their headers."""

    files: RemoteFiles
    projector: RemoteFile | None
    machine: Sequence[Device]

    def fits(self, variant: Variant) -> bool:
        if variant.size > budget(self.machine):
            return False  # without a look at its header
        fit = self._fit(variant.first.name)
        return fit is None or fit.memory is not None

    def said(self, name: str, size: Bytes) -> str:
        fit, where = self._fit(name), " and ".join(device.name for device in self.machine)
        most = f"{size_text(budget(self.machine))} of {where} for models"
        if fit is None and size <= budget(self.machine):
            return f"its weights fit {where}; its header could not be read, so the context is not counted"
        if fit is None or fit.memory is None:
            return f"does not fit the {most}: it will be slow"
        return f"fits {where} with a context of {fit.context} tokens ({size_text(fit.memory)})"

    def _fit(self, name: str) -> Fitted | None:
        try:
            model = read_gguf(Path(name), files=self.files)
        except CannotEstimate:
            return None
        seeing = Path(self.projector.name) if self.projector else None
        fit = fitted(replace(model, projector=seeing), self.machine, files=self.files)
        return None if fit.remark == UNREADABLE else fit


# Carrying it out


def show(found: Plan, to: TextIO) -> None:
    """Print what will happen; Problem if the disk has no room for it, or the folder cannot be written."""
    total, missing = sum(size for _, size in found.download.files), found.download.missing
    print(without_escapes(found.title), file=to)
    if found.reason:
        print(without_escapes(f"chosen because {found.reason}"), file=to)
    require_writable(found.download.folder)
    free = free_space(found.download.disk)
    rest = "" if missing == total else f", {size_text(total - missing)} of it is there already"
    print(f"needs {size_text(total)} of disk ({size_text(free)} free{rest}); {found.memory}", flush=True, file=to)
    if missing + SPARE > free:
        raise Problem(f"{found.download.disk} has too little space: free {size_text(missing + SPARE - free)} first")


def has_projector(download: ModelDownload) -> bool:
    return isinstance(download, HubDownload) and download.projector is not None


def require_writable(folder: Path) -> None:
    there = _nearest(folder)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise Problem(
            f"you may not write to {there}, the folder for models: change its owner, or run this as its owner"
        )


def free_space(folder: Path) -> Bytes:
    """Of the disk of a folder that may not exist yet."""
    return shutil.disk_usage(_nearest(folder)).free


def _nearest(folder: Path) -> Path:
    """It, or the nearest folder above it that exists."""
    while not folder.exists():
        folder = folder.parent
    return folder


def carry_out(found: Plan, folder: Path, places: Places, to: TextIO) -> str:
    size, before = sum(size for _, size in found.download.files), models_in(folder)
    with download_bar(found.title, size) as bar, _stopping(found.download):
        file = found.download.run(Patience(bar.say), bar.update)
    name = name_of(file, folder)
    print(*renamed(before, models_in(folder)), sep="", end="", file=to)
    if wait_until_listed(places.server, name):
        print(f"{name} is ready to use: hotseat run {name}", file=to)
        if has_projector(found.download) and "projector" not in known(places).resolve(name).files():
            print("its projector is not used: add ${MMPROJ} to the cmd of modelsDir, then `hotseat reload`", file=to)
    else:
        print(f"{name} is in {folder}; no hotseat runs at {places.server.url}: start it with `hotseat serve`", file=to)
    return name


def renamed(before: Mapping[str, Path], after: Mapping[str, Path]) -> list[str]:
    """A line for each model that has another name now, because the new one has the same file name."""
    names = {path: name for name, path in after.items()}
    changed = {name: names[path] for name, path in before.items() if names.get(path, name) != name}
    return [
        f"{old} is called {new} from now on: the new model has the same file name\n" for old, new in changed.items()
    ]


@contextmanager
def _stopping(download: ModelDownload) -> Iterator[None]:
    """Ctrl-C leaves what has been downloaded."""
    try:
        yield
    except KeyboardInterrupt:
        then = (
            "continues where this one ended"
            if download.can_continue
            else "starts over: the server sends no strong ETag"
        )
        raise Problem(f"stopped; the same command {then}") from None


def model_for(text: str, places: Places, without_asking: bool) -> str:
    """`text` is no name of a configured model."""
    with in_words():
        reference, folder = parse(text, hub.address()), models_folder(places)
        if name := pulled(reference, folder):
            return name
        found = plan(reference, folder)
        show(found, sys.stderr)
        if not without_asking:
            confirm(f"Download {found.title}?", "nothing was downloaded")
        return carry_out(found, folder, places, sys.stderr)  # a pipe gets only the answer


def pulled(reference: Reference, folder: Path) -> str:
    """The name of a model that was pulled by this reference; empty if there is none."""
    if not isinstance(reference, HubReference):
        return next((name for name, path in models_in(folder).items() if path == folder / reference.name), "")
    home = folder / reference.repository
    here = {name: path for name, path in models_in(folder).items() if path.is_relative_to(home)}
    quants = {name: read_gguf(path).quant for name, path in here.items()}
    wanted = [
        name
        for name, path in here.items()
        if reference.wanted in ("", path.name, str(path.relative_to(home))) or reference.wanted.upper() == quants[name]
    ]
    return min(wanted, key=lambda name: (quants[name] != USUAL, name), default="")


@dataclass(frozen=True, slots=True)
class DownloadBar:
    update: Callable[[Bytes], None]
    """Takes the number of bytes that are there."""
    say: Callable[[str], None]


def say(text: str) -> None:
    print(without_escapes(text), file=sys.stderr, flush=True)


@contextmanager
def download_bar(title: str, size: Bytes) -> Iterator[DownloadBar]:
    if not sys.stderr.isatty():
        yield DownloadBar(lambda _: None, say)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(without_escapes(title)), total=size)
        yield DownloadBar(
            lambda there: progress.update(task, completed=there),
            lambda text: progress.console.print(escape(without_escapes(text)), highlight=False),
        )
