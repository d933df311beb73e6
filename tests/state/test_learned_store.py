"""What was learned survives a restart."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.hotseat import Hotseat

from hotseat.dispatch.journal import Entry
from hotseat.identifiers import Address, ClientId, LaunchId, ModelName, Upstream
from hotseat.scheduling.events import ClockReached, UpstreamReady
from hotseat.scheduling.model_stats import StatsOfModels
from hotseat.state import state_file
from hotseat.state.learned_store import BETWEEN_SAVES_S, MOST, LearnedStore, ModelStatsStore
from hotseat.state.state_file import state_directory

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "learned.json"


def test_sections_share_a_file_and_not_their_facts(file: Path) -> None:
    """Each section has its own keys; another process sees them at once."""
    LearnedStore(file).section("memory").keep("qwen", {"gpu0": 5})
    LearnedStore(file).section("loads").keep("qwen", 12.5)
    LearnedStore(file).section("memory").keep("gemma", None)

    assert LearnedStore(file).section("memory").recall() == {"qwen": {"gpu0": 5}, "gemma": None}
    assert LearnedStore(file).section("loads").recall() == {"qwen": 12.5}
    assert LearnedStore(file).section("nothing").recall() == {}


def test_nobody_else_may_read_it(file: Path) -> None:
    """The folder and the file are ours alone, and nothing else is left there."""
    LearnedStore(file).section("memory").keep("qwen", 1)

    assert [stat.S_IMODE(each.stat().st_mode) for each in (file.parent, file)] == [0o700, 0o600]
    assert [each.name for each in file.parent.iterdir()] == ["learned.json"]


def test_what_was_not_renewed_is_forgotten_first(file: Path) -> None:
    """A section does not grow for ever."""
    section = LearnedStore(file).section("memory")
    for number in range(MOST):
        section.keep(str(number), number)
    section.keep("0", "renewed")
    section.keep("new", "new")
    facts = section.recall()

    assert len(facts) == MOST
    assert "1" not in facts
    assert (facts["0"], facts["new"]) == ("renewed", "new")


NESTED = "[" * 200_000


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "7", "{}", '{"format": 0, "memory": {"qwen": 1}}', NESTED, f'{{"format": 1, "memory": {NESTED}',
        '{"format": 1, "memory": {"qwen": ' + "9" * 5000 + "}}",
    ],
    ids=["nothing", "half", "list", "number", "empty", "never used", "nested", "nested in it", "long number"],
)  # fmt: skip
def test_a_file_we_do_not_understand_is_an_empty_one(
    file: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, the next entry starts a new file, and the old one is set aside."""
    file.parent.mkdir()
    file.write_text(content)
    section = LearnedStore(file).section("memory")
    recalled = section.recall()
    section.keep("gemma", 2)

    assert recalled == {}
    assert "cannot be read and is discarded" in caplog.text
    assert json.loads(file.read_text()) == {"format": 1, "memory": {"gemma": 2}}
    assert file.with_name("learned.json.unreadable").read_text() == content


def test_nobody_waits_for_a_pipe(file: Path) -> None:
    """What is no regular file is not read, or a start would stand still."""
    file.parent.mkdir()
    os.mkfifo(file)
    section = LearnedStore(file).section("memory")

    assert section.recall() == {}
    section.keep("gemma", 2)
    assert section.recall() == {"gemma": 2}


@pytest.mark.parametrize(
    "content",
    [
        NESTED,
        json.dumps({
            "format": 1,
            "memory": {"k": {"lives": [{"gpu0": {"anonymous": "x"}}, {"gpu0": {"anonymous": 10**400}}]}},
            "model_stats": {
                "a": {"load_s": 10**400, "gaps": ["x", None, -1, 10**400], "sleep_stats": {"1": {"memory": []}}},
            },
        }),
    ],
    ids=["nested", "no numbers"],
)  # fmt: skip
def test_a_start_goes_on_with_a_file_it_does_not_understand(tmp_path: Path, content: str) -> None:
    """The program serves, and reports a file that it cannot read at all."""
    (tmp_path / "learned.json").write_text(content)
    config = {"models": {"a": {"cmd": "server --port ${PORT}"}}, "devices": {"cpu": {"memory": "1GiB"}}}
    with Hotseat(config, tmp_path, environ={"STATE_DIRECTORY": str(tmp_path)}) as rig:
        assert rig.call("GET", "/hotseat/models").status == 200
        assert ("cannot be read and is discarded" in rig.log()) is (content == NESTED)


def test_a_section_that_is_none_is_empty(file: Path) -> None:
    """The other sections are kept."""
    file.parent.mkdir()
    file.write_text('{"format": 1, "memory": [1], "loads": {"qwen": 3}}')
    LearnedStore(file).section("memory").keep("gemma", 2)

    assert LearnedStore(file).read() == {"format": 1, "memory": {"gemma": 2}, "loads": {"qwen": 3}}


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A full or forbidden disk costs what was learned, not the program, and leaves nothing half done."""
    (tmp_path / "learned.json").mkdir()
    section = LearnedStore(tmp_path / "learned.json").section("memory")
    section.keep("qwen", 1)

    assert section.recall() == {}
    assert "stored state cannot be saved" in caplog.text
    assert [each.name for each in tmp_path.iterdir()] == ["learned.json"]


def test_a_file_that_cannot_be_read_for_a_moment_is_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example because all descriptors are in use: it is neither set aside nor overwritten with less."""
    section = LearnedStore(file).section("memory")
    section.keep("qwen", 1)
    with monkeypatch.context() as patched:
        patched.setattr(state_file, "read_versioned", no_descriptor)
        section.keep("llama", 2)

    assert section.recall() == {"qwen": 1}
    section.keep("llama", 2)
    assert section.recall() == {"qwen": 1, "llama": 2}
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def no_descriptor(_: Path) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"STATE_DIRECTORY": "/var/lib/hotseat:/var/lib/more", "HOME": "/root"}, "/var/lib/hotseat"),
        ({"XDG_STATE_HOME": "/data/state", "HOME": "/home/ada"}, "/data/state/hotseat"),
        ({"XDG_STATE_HOME": "", "HOME": "/home/ada"}, "/home/ada/.local/state/hotseat"),
    ],
)
def test_the_place_is_the_usual_one(environ: dict[str, str], folder: str) -> None:
    """Under systemd its state directory, else the user's."""
    assert state_directory(environ) == Path(folder)


QWEN = ModelName("qwen")
READY = Entry(1, 0.0, UpstreamReady(QWEN, LaunchId(1), Upstream(Address("localhost", 1))), ())


def learned(seconds: float) -> StatsOfModels:
    stats = StatsOfModels()
    stats.loaded(QWEN, seconds)
    return stats


def store_of(file: Path, stats: StatsOfModels, clock: Callable[[], float] = lambda: 0.0) -> ModelStatsStore:
    return ModelStatsStore(LearnedStore(file).section("model_stats"), stats, clock)


def written(file: Path) -> dict[str, Any]:
    stats: dict[str, Any] = json.loads(file.read_text())["model_stats"]
    return stats


def test_a_restart(tmp_path: Path) -> None:
    """The next run begins with what this one learned; other models in the file stay."""
    file = tmp_path / "deep" / "learned.json"
    store_of(file, learned(12)).save()
    LearnedStore(file).section("model_stats").keep("other", {"load_s": 3})
    again = StatsOfModels()
    learned_store = store_of(file, again)
    learned_store.recall()
    learned_store.save()

    assert again.load_s(QWEN) == 12
    assert written(file)["other"]["load_s"] == 3
    assert [each.name for each in file.parent.iterdir()] == ["learned.json"]


def test_of_many_models_the_last_used_are_remembered(tmp_path: Path) -> None:
    """Wherever they stand in the configuration, and across restarts; models that were not used make no difference."""
    file, names = tmp_path / "learned.json", [ModelName(f"m{n}") for n in range(MOST + 100)]
    first = StatsOfModels()
    for name in [*names, names[0]]:
        first.loaded(name, 1)
    store_of(file, first).save()
    again = StatsOfModels()
    for name in names:  # as the scheduler does, in configured order
        again.of(name)
    second = store_of(file, again)
    second.recall()
    again.went(names[1], again.of(names[1]), ClientId("somebody"), 0.0, 1.0)
    second.save()

    assert list(written(file))[-2:] == ["m0", "m1"]
    assert len(written(file)) == MOST


def test_loads_are_written_down_now_and_then(tmp_path: Path) -> None:
    """Frequent loads do not cause a write each."""
    now = 0.0
    stats, file = learned(1), tmp_path / "learned.json"
    learned_store = store_of(file, stats, lambda: now)
    learned_store.watch(Entry(1, 0.0, ClockReached(), ()))
    assert not file.exists()
    learned_store.watch(READY)
    stats.loaded(QWEN, 11)
    learned_store.watch(READY)
    assert written(file)["qwen"]["load_s"] == 1
    now = BETWEEN_SAVES_S
    learned_store.watch(READY)

    assert written(file)["qwen"]["load_s"] == 4


@pytest.mark.parametrize("content", ["{", "[1, 2]"])
def test_a_file_that_is_none_of_ours(tmp_path: Path, content: str) -> None:
    """It is passed over, and replaced at the next occasion."""
    file = tmp_path / "learned.json"
    file.write_text(content)
    learned_store = store_of(file, learned(5))
    learned_store.recall()
    learned_store.save()

    assert written(file)["qwen"]["load_s"] == 5


def test_a_place_where_nothing_can_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Said once; everything else goes on."""
    (tmp_path / "file").write_text("")
    learned_store = store_of(tmp_path / "file" / "learned.json", learned(5))
    for _ in range(2):
        learned_store.save()

    said = [record.message.partition(" file=")[0] for record in caplog.records]
    assert said == ["stored state cannot be read", "stored state cannot be saved"]
