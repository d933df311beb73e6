"""The models of different quantisation in a repository, each with all its parts, and which of them to download.

The usual one if it fits the memory, else the best other that does, with the reason. Four bits with K-quants is where
most people settle: below it answers suffer noticeably, above it each token takes more memory and time for a difference
that is hard to notice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.downloads.problems import DownloadProblem
from hotseat.downloads.reference import GGUF, is_safe
from hotseat.errors import did_you_mean
from hotseat.estimates.files import PART
from hotseat.model_files.file_kind import QUANT
from hotseat.model_files.search import PREFERRED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hotseat.identifiers import Bytes

PROJECTOR = re.compile(r"(?i)(^|[-._/])mmproj([-._]|$)")
NO_MODEL = re.compile(r"(?i)(^|[-._/])imatrix([-._]|$)")
SHA256 = re.compile(r"[0-9a-f]{64}")
USUAL = "Q4_K_M"
BITS = re.compile(r"Q(\d)|(?:BF|FP|F)(16|32)|(?:MX|NV)FP(4)")
MOST_BITS = 8
UNKNOWN_BITS = 16


@dataclass(frozen=True, slots=True)
class RemoteFile:
    name: str
    """Its path in the repository."""
    size: Bytes
    sha256: str = ""
    """Empty: the hub does not say."""

    @property
    def base_name(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def quant(self) -> str:
        """As the file's name says it, or the folder's."""
        folder, _, name = self.name.rpartition("/")
        part = PART.fullmatch(name)
        stem = part[1] if part else name.removesuffix(GGUF)
        found = QUANT.search(stem) or QUANT.search(folder.rpartition("/")[2])
        return found[1].upper() if found else ""


@dataclass(frozen=True, slots=True)
class Variant:
    """One model: a file, or all parts of a split one."""

    files: tuple[RemoteFile, ...]

    @property
    def first(self) -> RemoteFile:
        return self.files[0]

    @property
    def size(self) -> Bytes:
        return sum(file.size for file in self.files)

    @property
    def quant(self) -> str:
        return self.first.quant

    @property
    def label(self) -> str:
        return self.quant or self.first.name


def variants(files: Iterable[RemoteFile]) -> list[Variant]:
    """The complete models among these files; files with unsafe names are left out."""
    models = [file for file in files if _is_gguf(file) and not PROJECTOR.search(file.name)]
    by_name = {file.name: file for file in models if not NO_MODEL.search(file.name)}
    found = [_whole(file, by_name) for file in by_name.values()]
    return [variant for variant in found if variant]


def projectors(files: Iterable[RemoteFile]) -> list[RemoteFile]:
    """The best format first."""
    found = [file for file in files if _is_gguf(file) and PROJECTOR.search(file.name)]
    return sorted(found, key=lambda file: (_format_rank(file.quant), file.size))


def named(found: Sequence[Variant], wanted: str, repository: str) -> Variant:
    """The variant with this quantisation or file name; DownloadProblem says what there is instead."""
    matching = [each for each in found if wanted in (file.name for file in each.files)]
    matching = matching or [each for each in found if wanted == each.first.base_name]
    matching = matching or [each for each in found if wanted.upper() == each.quant]
    if len(matching) > 1:
        names = ", ".join(each.first.name for each in matching)
        raise DownloadProblem(f"{wanted} of {repository} is ambiguous; name one file: {names}")
    if not matching:
        known = [name for each in found for name in (each.quant, each.first.name) if name]
        hint = did_you_mean(wanted.upper(), known) or did_you_mean(wanted, known)
        raise DownloadProblem(f"{repository} has no {wanted!r}.{hint} It has {', '.join(e.label for e in found)}")
    return matching[0]


def _is_gguf(file: RemoteFile) -> bool:
    return file.name.endswith(GGUF) and is_safe(file.name) and file.size > 0


def _whole(file: RemoteFile, by_name: dict[str, RemoteFile]) -> Variant | None:
    """The variant that begins with this file; None for a later part, or if a part is missing."""
    part = PART.fullmatch(file.name)
    if part is None:
        return Variant((file,))
    if int(part[2]) != 1 or not 1 <= int(part[3]) <= len(by_name):
        return None
    names = [f"{part[1]}-{number:05}-of-{part[3]}{GGUF}" for number in range(1, int(part[3]) + 1)]
    return Variant(tuple(by_name[name] for name in names)) if all(name in by_name for name in names) else None


def _format_rank(quant: str) -> int:
    return PREFERRED.index(quant) if quant in PREFERRED else len(PREFERRED)


@dataclass(frozen=True, slots=True)
class Choice:
    variant: Variant
    reason: str


def choose(found: Sequence[Variant], fits: Callable[[Variant], bool], repository: str) -> Choice:
    """`fits` may read the header of the file; it is asked for one variant after the other until one fits."""
    ordered = sorted(found, key=_preference)
    too_large: list[Variant] = []
    for variant in ordered:
        if any(variant.size >= each.size for each in too_large):
            continue
        if fits(variant):
            return Choice(variant, _reason(variant, too_large, len(found)))
        too_large.append(variant)
    smallest = min(found, key=lambda variant: variant.size)
    raise DownloadProblem(
        f"no file of {repository} fits the memory of this machine; "
        f"to download the smallest anyway: hotseat pull {repository}:{smallest.label}"
    )


def _preference(variant: Variant) -> tuple[bool, bool, int]:
    """The usual one, then the largest of at most eight bits, then the smallest of the rest."""
    is_large = bits(variant.quant) > MOST_BITS
    return variant.quant != USUAL, is_large, variant.size if is_large else -variant.size


def bits(quant: str) -> int:
    found = BITS.search(quant)
    return int(next(filter(None, found.groups()))) if found else UNKNOWN_BITS


def _reason(variant: Variant, too_large: Sequence[Variant], count: int) -> str:
    if count == 1:
        return "it is the only model of the repository"
    if not too_large:
        return "it is the usual choice, and it fits" if variant.quant == USUAL else f"there is no {USUAL}, and it fits"
    return f"it is the best that fits; {', '.join(each.label for each in too_large)} would not"
