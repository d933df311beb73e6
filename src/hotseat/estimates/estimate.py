"""The entry point: estimates the memory of a command line, given a way to read files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from hotseat.catalog.spec import NOTHING
from hotseat.estimates.command import Engine, server_in
from hotseat.estimates.llama import llama_estimate
from hotseat.estimates.machine import Gpu
from hotseat.estimates.vllm import vllm_estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.estimates.machine import Files
    from hotseat.estimates.report import Estimate


def estimate(
    argv: tuple[str, ...],
    files: Files,
    *,
    env: Mapping[str, str] = NOTHING,
    gpu: Gpu = Gpu.UNSAID,
    more: tuple[str, ...] = (),
) -> Estimate:
    """The memory of the server that `argv` starts, with `more` options appended; CannotEstimate says why not."""
    server = server_in(argv, env)
    server = replace(server, options=(*server.options, *more))
    if server.engine is Engine.VLLM:
        return vllm_estimate(server, files)
    return llama_estimate(server, files, gpu)
