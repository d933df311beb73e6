"""A model whose files are missing fails before anything is unloaded for it.

The rule: every path that hotseat knows in a command line is looked at before the scheduler hears of a request that
would start the command, whoever asks.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.waiting import come_true

from hotseat.catalog.spec import LaunchRecipe
from hotseat.dispatch.default_model import Preload
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import LoadFailed
from hotseat.identifiers import ClientId, ModelName
from hotseat.model_files import of_command
from hotseat.model_files.of_command import FileLooks
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hotseat.catalog.spec import ModelSpec
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Upstream

GOOD, LOST = ModelName("good"), ModelName("lost")
CLIENT = ClientId("someone")
DOCKER = ("docker", "run", "-v", "{}:/m", "ghcr.io/ggml-org/llama.cpp:server")
KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "model": (("llama-server", "-m", "{}/x.gguf"), "x.gguf"),
    "long option": (("llama-server", "--model", "{}/x.gguf"), "x.gguf"),
    "projector": (("llama-server", "-m", "{}/a.gguf", "--mmproj", "{}/x.gguf"), "x.gguf"),
    "draft": (("llama-server", "-m", "{}/a.gguf", "-md", "{}/x.gguf"), "x.gguf"),
    "adapter": (("llama-server", "-m", "{}/a.gguf", "--lora", "{}/x.gguf"), "x.gguf"),
    "second adapter": (("llama-server", "-m", "{}/a.gguf", "--lora", "{}/a.gguf,{}/x.gguf"), "x.gguf"),
    "part": (("llama-server", "-m", "{}/p-00001-of-00002.gguf"), "p-00002-of-00002.gguf"),
    "wrapper": (("nice", "-n", "5", "llama-server", "-m", "{}/x.gguf"), "x.gguf"),
    "variable": (("env", "LLAMA_ARG_MODEL={}/x.gguf", "llama-server"), "x.gguf"),
    "environment": (("llama-server",), "x.gguf"),
    "mounted": ((*DOCKER, "-m", "/m/x.gguf"), "x.gguf"),
    "folder": (("llama-server", "-m", "{}/unmounted/a.gguf"), "unmounted/a.gguf"),
    "whisper-server": (("whisper-server", "-m", "{}/x.bin"), "x.bin"),
    "whisper-server, long option": (("whisper-server", "--model", "{}/x.bin"), "x.bin"),
    "vLLM": (("vllm", "serve", "{}/x"), "x"),
    "vLLM as a module": (("python3", "-m", "vllm.entrypoints.openai.api_server", "--model={}/x"), "x"),
    "MLX": (("python", "-m", "mlx_lm", "server", "--model", "{}/x"), "x"),
    "any program": (("{}/x-server", "--model", "some/name"), "x-server"),
    "program": (("{}/llama-server", "-m", "{}/a.gguf"), "llama-server"),
    "program on PATH": (("no-such-server", "--model", "some/name"), "bin/no-such-server"),
    "program on the PATH of its environment": (("no-such-server", "some/name"), "own/no-such-server"),
    "program that is not executable": (("{}/plain", "--model", "some/name"), "plain"),
}
NOT_ON_PATH = 'no program named "no-such-server" on PATH. Install it, or correct `cmd`.'
REASONS = {
    "program on PATH": NOT_ON_PATH,
    "program on the PATH of its environment": NOT_ON_PATH,
    "program that is not executable": '"{}/plain" is not executable: run chmod +x.',
}


class Client:
    """Waits for a lease and gives it back at once."""

    def __init__(self) -> None:
        self.done: asyncio.Future[Upstream] = asyncio.get_running_loop().create_future()

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        self.done.set_result(upstream)

    def confirmed(self) -> None: ...

    def refused(self, error: HotseatError) -> None:
        self.done.set_exception(error)

    def cut(self, error: HotseatError) -> None: ...


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All programs of the commands are on PATH."""
    (tmp_path / "bin").mkdir()
    for name in {"serve", *(argv[0] for argv, _ in KINDS.values() if "/" not in argv[0])} - {"no-such-server"}:
        (tmp_path / "bin" / name).touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def of_kind(kind: str, folder: Path) -> ModelSpec:
    (folder / "a.gguf").touch()
    (folder / "p-00001-of-00002.gguf").touch()
    argv = tuple(word.replace("{}", str(folder)) for word in KINDS[kind][0])
    (folder / "plain").touch()
    env = (("LLAMA_ARG_MODEL", f"{folder}/x.gguf"),) if kind == "environment" else ()
    env = (("PATH", f"{folder}/own"),) if kind == "program on the PATH of its environment" else env
    return replace(spec("lost"), recipe=LaunchRecipe(argv, "http://127.0.0.1:${PORT}", env=env))


class Rig:
    def __init__(self, *specs: ModelSpec) -> None:
        self.launcher = FakeLauncher()
        scheduler = Scheduler(catalog(spec("good"), *specs))
        self.dispatcher = Dispatcher(scheduler, self.launcher, Journal(), look=FileLooks().look)

    async def ask(self, model: ModelName = LOST) -> None:
        client = Client()
        ticket = self.dispatcher.ask(model, CLIENT, client)
        await client.done
        self.dispatcher.leave(ticket)

    async def refusal(self, asking: Any) -> LoadFailed:
        with pytest.raises(LoadFailed) as refused:
            await asking
        assert self.launcher.alive == ["good"]
        assert self.dispatcher.questions.phase_of(LOST) is Phase.COLD
        return refused.value


@pytest.mark.parametrize("kind", KINDS)
async def test_a_path_or_program_in_a_command_that_does_not_exist(kind: str, tmp_path: Path) -> None:
    """Nothing is unloaded, whoever asks; the error names it; the next request finds a file that was copied."""
    rig = Rig(of_kind(kind, tmp_path))
    await rig.ask(GOOD)
    operator, file = rig.dispatcher.operator, tmp_path / KINDS[kind][1]
    missing = f'the file "{file}" does not exist. Copy it there, or correct `cmd`.'
    reason = REASONS.get(kind, missing).replace("{}", str(tmp_path))
    for asking in (rig.ask(), operator.load(LOST), operator.load_for_client(LOST, CLIENT)):
        error = await rig.refusal(asking)
        assert error.message == f"lost is not ready: {reason}"
        assert (error.status, error.retry_after, error.retry_helps) == (503, None, False)
    file.parent.mkdir(exist_ok=True)
    file.touch()
    file.chmod(0o700)
    await rig.ask()
    loaded = rig.launcher.alive
    await rig.dispatcher.shut_down(within=0)

    assert loaded == ["lost"]


async def test_preloading_goes_on_after_a_missing_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the file."""
    rig = Rig(of_kind("model", tmp_path))
    await Preload(rig.dispatcher, [LOST, GOOD]).run()
    loaded = rig.launcher.alive
    await rig.dispatcher.shut_down(within=0)

    assert loaded == ["good"]
    assert f"{tmp_path}/x.gguf" in caplog.text


async def test_a_path_with_a_secret_is_left_to_the_server(tmp_path: Path) -> None:
    """It is in no error, so the start fails as it would."""
    lost = of_kind("model", tmp_path)
    rig = Rig(replace(lost, recipe=replace(lost.recipe, secrets=(tmp_path.name,))))
    await rig.ask()
    loaded = rig.launcher.alive
    await rig.dispatcher.shut_down(within=0)

    assert loaded == ["lost"]


async def test_a_disk_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go on after the deadline, and only so many threads hang."""
    stuck = threading.Event()
    monkeypatch.setattr(of_command, "LOOK_S", 0.01)
    monkeypatch.setattr(of_command, "is_missing", lambda _: stuck.wait())
    looks, recipe = FileLooks(), of_kind("model", tmp_path).recipe
    first, second = looks.look(recipe), looks.look(recipe)
    assert first is not None
    assert second is not None
    found, hanging = [await first, await second], len(looks.looking)
    others = [looks.look(replace(recipe, proxy=f"http://127.0.0.1:{n}")) for n in range(20)]
    stuck.set()
    await come_true(lambda: not looks.looking)

    assert (found, hanging) == (["", ""], 1)
    assert sum(each is not None for each in others) == of_command.MOST_LOOKS - 1


def raising(error: type[Exception]) -> Callable[..., NoReturn]:
    def call(*_: object) -> NoReturn:
        raise error

    return call


async def test_a_look_that_fails_leaves_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is gone, or no thread can be started: the start says what is missing."""
    looks, recipe = FileLooks(), of_kind("model", tmp_path).recipe
    monkeypatch.setattr(of_command, "what_is_missing", raising(FileNotFoundError))
    failed = looks.look(recipe)
    assert failed is not None
    found = await failed
    monkeypatch.setattr(of_command, "start_thread", raising(RuntimeError))
    none = looks.look(recipe)

    assert (found, none, len(looks.looking)) == ("", None, 0)


async def test_who_hangs_up_during_the_look_starts_nothing(tmp_path: Path) -> None:
    """Its ticket is gone."""
    rig = Rig(of_kind("model", tmp_path))
    (tmp_path / "x.gguf").touch()
    rig.dispatcher.leave(rig.dispatcher.ask(LOST, CLIENT, Client()))
    await rig.ask(GOOD)
    loaded = rig.launcher.alive
    await rig.dispatcher.shut_down(within=0)

    assert loaded == ["good"]


async def test_a_model_that_has_a_server_is_not_looked_at(tmp_path: Path) -> None:
    """Its files may be gone: the server has read them."""
    rig = Rig(of_kind("model", tmp_path))
    (tmp_path / "x.gguf").touch()
    await rig.ask()
    (tmp_path / "x.gguf").unlink()
    await rig.ask()
    loaded = rig.launcher.alive
    await rig.dispatcher.shut_down(within=0)

    assert loaded == ["lost"]
