"""`hotseat ps`, `top` and `show` call a model adopted whose server an earlier process of hotseat has started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.fake_launcher import spec

from hotseat.identifiers import Address, LaunchId, ModelName, Upstream
from hotseat.scheduling.events import ServerAdopted

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from tests.support.command_line import CommandLine

FOUR_DAYS = 4 * 86400.0 + 5400
"""And one hour and a half: the test takes less than half an hour."""
ADOPTED = ServerAdopted(
    ModelName("dud"),
    LaunchId(7),
    spec("dud"),
    Upstream(Address("127.0.0.1", 40007), 7007),
    phase_s=FOUR_DAYS,
    ready_s=FOUR_DAYS,
)


SHOW = ("show", "dud", "--config", "config.yaml")


async def test_a_server_of_an_earlier_process(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside its phase, and `show` says what it means."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("models: {dud: {cmd: 'llama-server -m dud.gguf --port ${PORT}'}}\n")
    command_line.rig.dispatcher.tell(ADOPTED)
    ps, top, show = [(await command_line.type(*words)).out for words in (("ps",), ("top",), SHOW)]

    for table in (ps, top):
        assert table.splitlines()[1].split()[:4] == ["dud", "ready,", "adopted", "7007"]
    assert show.splitlines()[1:3] == [
        "state         ready, adopted: adopted from the previous process",
        "started       by an earlier process of hotseat; ready for 4d01h",
    ]
