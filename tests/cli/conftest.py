"""The command line, run as a user runs it, against a server on a real port."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.support.command_line import CommandLine, Said, Typed
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.management import application, furnished, served
from tests.support.served_fleet import Served, be_patient, served_fleet

from hotseat.cli import client, main

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MODELS = catalog(
    spec("qwen", aliases=("q",), description="Good at code", ttl_s=300.0),
    spec("org/llama", title="Llama"),
    spec("dud"),
)


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    for name in ("HOTSEAT_URL", "HOTSEAT_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["hotseat", *words])
        client.HAS_ANSWERED.clear()  # as in a new process
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Said(ended.value.code, said.out, said.err)

    return run


@pytest.fixture
async def command_line(typed: Typed, tmp_path: Path) -> AsyncIterator[CommandLine]:
    async with httpx2.AsyncClient(verify=False) as client:
        rig = furnished(MODELS, FakeLauncher(broken=("dud",)), client, tmp_path)
        async with served(application(rig), host="127.0.0.1", port=0) as port:
            yield CommandLine(rig, f"http://127.0.0.1:{port}", typed)
        await rig.dispatcher.shut_down(within=0)


@pytest.fixture
async def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    be_patient(monkeypatch)
    async with served_fleet(tmp_path) as hosts:
        yield hosts
