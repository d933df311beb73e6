"""`hotseat run ORG/REPO`: the name of a model that is pulled already, or that is pulled now."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hotseat.cli.confirm import confirm
from hotseat.cli.models_folder import models_folder, models_in
from hotseat.cli.pull import carry_out, in_words, plan, show
from hotseat.downloads import hub
from hotseat.downloads.reference import HubReference, parse
from hotseat.downloads.variants import USUAL
from hotseat.model_files.file_kind import read_gguf

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.cli.known_models import Places
    from hotseat.downloads.reference import Reference


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
