"""The estimate for llama-server: the model, its draft model, and the program itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.estimates.gguf_architecture import anatomy_of
from hotseat.estimates.llama_flags import LlamaFlags
from hotseat.estimates.llama_part import MIB, Part, Role
from hotseat.estimates.report import Backing, CannotEstimate, Estimate, Kind, Line, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.estimates.command import Server
    from hotseat.estimates.machine import Files, Gpu

LIBRARIES = 17 * MIB
USUAL_PROMPT_CACHE = 8192

FILES = {Role.MODEL: ("model", "fetched"), Role.DRAFT: ("draft", "fetched_draft")}

NOT_FETCHED = "{} names a model that llama-server downloads itself: name its file with -m, or set memory manually"
ON_DEVICE = (
    "The driver's own memory on the device, a few hundred MiB with CUDA, is not included.",
    "Sizes on a device are calculated as on the host; they are not measured.",
)
PROMPT_CACHE = "llama-server also uses {} of host memory as a prompt cache (--cache-ram)."
PROJECTOR = "The working memory of the multimodal projector depends on the images and is not included."
FITTED = "-ngl is not set: without a GPU everything is in host memory, with one llama-server offloads what fits."


def llama_estimate(server: Server, files: Files, gpu: Gpu) -> Estimate:
    flags = LlamaFlags.parse(server.options, server.env)
    main = _part(server, files, flags, gpu, Role.MODEL)
    parts = [main]
    if flags.text("draft") or flags.text("fetched_draft"):
        parts.append(_part(server, files, flags, gpu, Role.DRAFT, main.context))
    lines = [line for part in parts for line in part.lines()]
    lines += _extras(server, files, flags, main)
    lines.append(Line("the program and its libraries", LIBRARIES, Kind.OVERHEAD, backing=Backing.MAPPED))
    return Estimate(tuple(line for line in lines if line.size), tuple(_notes(flags, parts)))


def _part(server: Server, files: Files, flags: LlamaFlags, gpu: Gpu, role: Role, context: int = 0) -> Part:
    """Only older versions let a draft have its own context; otherwise it has its model's."""
    path, fetched = (flags.text(what) for what in FILES[role])
    if path is None:
        raise CannotEstimate(NOT_FETCHED.format(fetched) if fetched else "no model file: -m FILE is missing")
    head = files.gguf(server.outside(path))
    model = anatomy_of(head, path)
    own = flags.number("draft_context", 0) if role is Role.DRAFT else flags.context(model.trained_context)
    return Part(path.rpartition("/")[2], head, model, flags, gpu, role, own or context, files.processor())


def _extras(server: Server, files: Files, flags: LlamaFlags, main: Part) -> Iterator[Line]:
    if path := flags.text("projector"):
        on_device = main.placement.uses_device and flags.is_on("projector_on_device", True)
        size = files.gguf(server.outside(path)).size
        where = Where.DEVICE if on_device else Where.HOST
        yield Line(f"projector {path.rpartition('/')[2]}", size, Kind.MMPROJ, where)
    for path in filter(None, (flags.text("adapters") or "").split(",")):
        where = Where.DEVICE if main.placement.uses_device else Where.HOST
        yield Line(f"adapter {path.rpartition('/')[2]}", files.gguf(server.outside(path)).size, Kind.WEIGHTS, where)


def _notes(flags: LlamaFlags, parts: list[Part]) -> Iterator[str]:
    for part in parts:
        yield from part.model.notes
    if any(part.placement.uses_device for part in parts):
        yield from ON_DEVICE
    elif flags.gpu_layers() is None and parts[0].gpu.is_unsaid:
        yield FITTED
    if flags.text("projector"):
        yield PROJECTOR
    prompt_cache = flags.number("prompt_cache", USUAL_PROMPT_CACHE)
    if prompt_cache:
        yield PROMPT_CACHE.format("any amount" if prompt_cache < 0 else f"up to {prompt_cache} MiB")
