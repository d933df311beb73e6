"""`hotseat rm` on the command line, after `hotseat pull` from a hub on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.local_hub import Content, LocalHub, local_hub, use
from tests.support.model_folders import model_bytes, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.command_line import Said, Typed

NOBODY = ("--url", "http://127.0.0.1:1")
CONFIG = """\
modelsDir:
  path: weights
  cmd: llama-server -m ${MODEL_PATH} --port ${PORT}
"""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "config.yaml", CONFIG.encode())
    with local_hub({}) as hub:
        use(hub, tmp_path / "hub", monkeypatch)
        yield hub


@pytest.fixture
def pulled(hub: LocalHub, typed: Typed) -> Callable[..., None]:
    """Pull these quantisations of one repository, each file of another content, with one projector."""

    def pull(*quants: str) -> None:
        models = {f"m-{quant}.gguf": Content(model_bytes(rows=64 + n)) for n, quant in enumerate(quants)}
        hub.repositories["test/m"] = {**models, "mmproj-F16.gguf": Content(model_bytes("clip"))}
        for quant in quants:
            assert typed("pull", f"test/m:{quant}", *NOBODY).code == 0
        settle()

    return pull


def settle() -> None:
    """As if the files had been written a while ago."""
    for path in (*Path("hub").glob("*/blobs/*"), *Path("weights").glob("*.gguf")):
        os.utime(path, (0, 0))


def files(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).rglob("*") if path.is_file() or path.is_symlink())


def removed(typed: Typed, name: str) -> Said:
    return typed("rm", name, "--yes", *NOBODY)


def test_a_model_is_deleted_with_its_files_in_the_cache(pulled: Callable[..., None], typed: Typed) -> None:
    """The link, the projector, the file, its name in the cache; empty folders go too."""
    pulled("Q4_K_M")
    said = removed(typed, "m-Q4_K_M")

    assert said.code == 0, said.err
    assert said.out.splitlines()[-1] == "m-Q4_K_M is removed"
    assert said.out.count("deletes ") == 6
    assert list(Path("weights").iterdir()) == []
    assert list(Path("hub").glob("*/blobs/*")) == []
    assert not list(Path("hub").rglob("*.gguf"))


def test_a_projector_that_another_quantisation_uses_stays(pulled: Callable[..., None], typed: Typed) -> None:
    """Only the last model beside it takes it along."""
    pulled("Q4_K_M", "Q8_0")
    removed(typed, "m-Q4_K_M")

    assert files("weights") == ["m-Q8_0.gguf", "mmproj-F16.gguf"]
    assert all(path.exists() for path in Path("weights").rglob("*.gguf"))


def test_a_file_that_a_written_model_uses_stays(pulled: Callable[..., None], typed: Typed) -> None:
    """It is named with the model that uses it; only the link to it goes."""
    pulled("Q4_K_M")
    blob = Path("weights/test/m/m-Q4_K_M.gguf").resolve()
    put(Path("config.yaml"), f"{CONFIG}models:\n  other:\n    cmd: llama-server -m {blob} --port ${{PORT}}\n".encode())
    said = removed(typed, "m-Q4_K_M")

    assert f"keeps {blob}: other uses it\n" in said.out
    assert blob.exists()
    assert files("weights") == []


def test_a_model_whose_file_is_named_by_another_is_refused(hub: LocalHub, typed: Typed) -> None:
    """Deleting it would break the other."""
    put(Path("weights/own.gguf"))
    settle()
    other = "models: {other: {cmd: 'llama-server -m weights/own.gguf --port ${PORT}'}}"
    put(Path("config.yaml"), f"{CONFIG}{other}".encode())
    said = removed(typed, "own")

    assert said.err == f"hotseat: other uses {Path.cwd()}/weights/own.gguf; remove other from config.yaml first\n"
    assert files("weights") == ["own.gguf"]


def test_a_file_that_is_no_link_is_deleted(hub: LocalHub, typed: Typed) -> None:
    """As it is after a pull from a URL."""
    put(Path("weights/own.gguf"))
    settle()
    said = removed(typed, "own")

    assert said.code == 0, said.err
    assert files("weights") == []


def test_a_model_that_is_written_in_the_configuration_is_refused(hub: LocalHub, typed: Typed) -> None:
    """Its file may be anyone's."""
    put(Path("own.gguf"))
    put(Path("config.yaml"), f"{CONFIG}models: {{own: {{cmd: 'llama-server -m own.gguf --port ${{PORT}}'}}}}".encode())
    said = removed(typed, "own")

    assert said.code == 1
    assert said.err == "hotseat: own is not a file of modelsDir; remove it from config.yaml\n"
    assert Path("own.gguf").exists()


@pytest.mark.parametrize("file", ["weights/own.gguf", "elsewhere.gguf"])
def test_a_written_model_with_the_name_of_a_file_is_refused(hub: LocalHub, typed: Typed, file: str) -> None:
    """The entry under `models` has precedence over the file, which stays."""
    put(Path("weights/own.gguf"))
    settle()
    put(Path("config.yaml"), f"{CONFIG}models: {{own: {{cmd: 'llama-server -m {file} --port ${{PORT}}'}}}}".encode())
    said = removed(typed, "own")

    assert said.err == "hotseat: own is not a file of modelsDir; remove it from config.yaml\n"
    assert files("weights") == ["own.gguf"]


@pytest.mark.parametrize(
    "command",
    [
        "llama-server -m other.gguf -mv weights/own.gguf --port ${PORT}",
        "vllm serve {folder}/own.gguf --port ${PORT}",
        "/opt/run.sh ./weights/own.gguf ${PORT}",
        "sd-server --diffusion-model=weights/own.gguf --port ${PORT}",
        "sh -c 'M=weights/own.gguf; llama-server -m $M --port ${PORT}'",
        "sh -c 'llama-server -m ~/weights/own.gguf --port ${PORT}'",
        "env FILE={folder}/own.gguf serve ${PORT}",
    ],
)
def test_a_file_that_any_other_command_contains_stays(
    hub: LocalHub, typed: Typed, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Also if hotseat does not know the program or the option."""
    monkeypatch.setenv("HOME", str(Path.cwd()))
    put(Path("weights/own.gguf"))
    settle()
    entry = f"models:\n  other:\n    cmd: {command.replace('{folder}', str(Path.cwd() / 'weights'))}\n"
    put(Path("config.yaml"), f"{CONFIG}{entry}".encode())
    said = removed(typed, "own")

    assert said.err == f"hotseat: other uses {Path.cwd()}/weights/own.gguf; remove other from config.yaml first\n"
    assert files("weights") == ["own.gguf"]


def test_a_file_with_a_similar_name_is_no_other_user(hub: LocalHub, typed: Typed) -> None:
    """Only the whole path counts."""
    put(Path("weights/own.gguf"))
    settle()
    entry = "models: {other: {cmd: 'serve x/weights/own.gguf my-weights/own.gguf weights/own.gguf2 ${PORT}'}}"
    put(Path("config.yaml"), f"{CONFIG}{entry}".encode())

    assert removed(typed, "own").code == 0


def test_a_model_of_a_program_that_is_not_known(hub: LocalHub, typed: Typed) -> None:
    """Its file is the one that its command contains."""
    put(Path("config.yaml"), CONFIG.replace("llama-server -m", "serve").encode())
    for name in ("own", "own-2"):
        put(Path(f"weights/{name}.gguf"))
    settle()

    assert removed(typed, "own").code == 0
    assert files("weights") == ["own-2.gguf"]


def test_a_file_in_a_linked_folder_is_refused(hub: LocalHub, typed: Typed) -> None:
    """The folder behind the link is not hotseat's."""
    os.utime(put(Path("shared/own.gguf")), (0, 0))
    Path("weights").mkdir()
    Path("weights/more").symlink_to(Path("shared").absolute())
    said = removed(typed, "own")

    here = Path.cwd()
    assert said.err == (
        f"hotseat: {here}/weights/more/own.gguf is outside {here}/weights, in {here}/shared; delete it there\n"
    )
    assert files("shared") == ["own.gguf"]


def test_a_projector_beside_a_model_that_is_still_copied_stays(pulled: Callable[..., None], typed: Typed) -> None:
    """It may belong to that model."""
    pulled("Q4_K_M")
    put(Path("weights/test/m/m-Q8_0.gguf"), model_bytes()[:-100])
    removed(typed, "m-Q4_K_M")

    assert files("weights") == ["m-Q8_0.gguf", "mmproj-F16.gguf"]


def test_a_file_that_another_file_of_the_folder_needs(hub: LocalHub, typed: Typed) -> None:
    """Every model of the folder has it as its draft; the advice is the command that removes such a model."""
    put(Path("config.yaml"), CONFIG.replace("--port", "-md weights/small.gguf --port").encode())
    for name in ("big", "small"):
        put(Path(f"weights/{name}.gguf"))
    settle()
    said = removed(typed, "small")

    assert said.err == f"hotseat: big uses {Path.cwd()}/weights/small.gguf; run `hotseat rm big` first\n"


def test_a_server_on_another_machine_is_refused(hub: LocalHub, typed: Typed) -> None:
    """The files of this machine are not that server's."""
    put(Path("weights/own.gguf"))
    settle()
    said = typed("rm", "own", "--yes", "--url", "http://gpu-box.invalid:8080")

    assert said.err.startswith("hotseat: http://gpu-box.invalid:8080 is another machine; run the command there, or ")
    assert files("weights") == ["own.gguf"]


def test_without_a_terminal_nothing_is_deleted_unasked(pulled: Callable[..., None], typed: Typed) -> None:
    """A script says --yes."""
    pulled("Q4_K_M")
    said = typed("rm", "m-Q4_K_M", *NOBODY)

    assert said.code == 1
    assert "--yes answers yes" in said.err
    assert files("weights") == ["m-Q4_K_M.gguf", "mmproj-F16.gguf"]


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 1), ("n", 1)])
def test_at_a_terminal_the_answer_decides(
    pulled: Callable[..., None], typed: Typed, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    """No answer is no."""
    pulled("Q4_K_M")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    said = typed("rm", "m-Q4_K_M", *NOBODY)

    assert said.code == code
    assert bool(files("weights")) is bool(code)
