"""`modelsDir`: one model for each file of a folder."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from tests.support.config_files import ConfigFiles
from tests.support.model_folders import model_bytes, put
from tests.support.waiting import eventually

from hotseat import threads
from hotseat.catalog.sleeping import Ask, Run
from hotseat.config import models_dir
from hotseat.config.effective import resolved
from hotseat.config.load import read
from hotseat.identifiers import ModelName
from hotseat.model_files.folder import ModelFolders

CONFIG = """
macros:
  context: 4096
modelsDir:
  path: weights
  cmd: llama-server -m ${MODEL_PATH} --port ${PORT} -c ${context} --alias ${MODEL_ID}
  env: ["FILE=${MODEL_PATH}"]
  ttl: 10m
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("qwen", "my gemma"):
        path = put(tmp_path / f"weights/{name}.gguf")
        os.utime(path, (0, 0))
    return tmp_path


@pytest.fixture
def files(folder: Path) -> ConfigFiles:
    return ConfigFiles(folder)


def test_each_file_is_a_model(files: ConfigFiles) -> None:
    """Macros are expanded, and a path with spaces is one word."""
    loaded = files.load(CONFIG)

    gemma, qwen = (loaded.catalog.resolve(name) for name in ("my-gemma", "qwen"))
    assert list(loaded.catalog.models) == ["my-gemma", "qwen"]
    assert gemma.recipe.argv == (
        "llama-server", "-m", "weights/my gemma.gguf", "--port", "${PORT}", "-c", "4096", "--alias", "my-gemma",
    )  # fmt: skip
    assert gemma.recipe.env == (("FILE", "weights/my gemma.gguf"),)
    assert qwen.ttl_s == 600
    assert loaded.problems == ()


def test_a_model_that_is_written_wins_over_a_file(files: ConfigFiles) -> None:
    """A model under `models` with the same name can have other options."""
    loaded = files.load(CONFIG + "models: {qwen: {cmd: 'other --port ${PORT}'}}\n")

    assert loaded.catalog.resolve("qwen").recipe.argv[0] == "other"
    assert len(loaded.catalog.models) == 2


def test_a_mistake_in_the_template_is_an_error_at_its_place(files: ConfigFiles) -> None:
    """The template is checked even while the folder is empty, and its error is reported once."""
    text = CONFIG.replace("ttl: 10m", "ttl: soon")

    assert 'config.yaml:8:3: error: modelsDir.ttl: must be a duration such as 90, 90s, 5m or 1h30m, not "soon"' in (
        files.mistakes(text)
    )
    assert len(files.mistakes(text.replace("weights", "empty"))) == 2


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (
            "-m ${MODEL_PATH} ",
            "",
            "6:3: error: modelsDir.cmd: must contain ${MODEL_PATH}, otherwise all models would be the same",
        ),
        ("path: weights", "path: [weights]", "5:3: error: modelsDir.path: must be a string, not a list"),
        ("  path: weights\n", "", "4:1: error: modelsDir.path: is missing"),
        (
            "macros:",
            "startPort: 5800\nmacros:",
            "2:1: error: startPort: depends on the number of models, which modelsDir changes",
        ),
        ("${context}", "${contxt}", 'error: modelsDir.cmd: unknown macro ${contxt}. Did you mean "context"?'),
    ],
)
def test_what_cannot_be_meant_is_refused(files: ConfigFiles, before: str, after: str, problem: str) -> None:
    """The error has a position and a fix."""
    mistakes = "\n".join(files.mistakes(CONFIG.replace(before, after, 1)))

    assert problem in mistakes


def test_a_folder_may_come_later(files: ConfigFiles) -> None:
    """A missing folder gives a warning, not an error."""
    warnings = files.warnings(CONFIG.replace("weights", "absent"))

    assert warnings == [
        "config.yaml:1:1: warning: models: no model is defined. "
        "Put GGUF files into the `modelsDir` folder, or run `hotseat pull ORG/REPO`",
        "config.yaml:5:3: warning: modelsDir.path: the folder absent does not exist yet",
    ]


def test_a_folder_whose_disk_does_not_answer(files: ConfigFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the configuration is loaded, without the folder's models and without waiting for the disk again."""
    stuck = threading.Event()
    monkeypatch.setattr(models_dir, "LOOK_S", 0.05)
    is_dir = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", lambda path: stuck.wait(10) if path.name == "weights" else is_dir(path))
    loaded = files.load(CONFIG + 'models: {chat: {cmd: "server --port ${PORT}"}}\n')
    stuck.set()
    eventually(lambda: not threads._hanging)

    assert [*loaded.catalog.models] == ["chat"]


def test_a_second_look_sees_new_files_and_the_old_text(files: ConfigFiles, folder: Path) -> None:
    """Changes of the configuration file wait for a reload."""
    file = folder / "config.yaml"
    file.write_text(CONFIG)
    model_folders = ModelFolders()
    loaded = read([file], environ={}, offer=model_folders.look)
    file.write_text("nonsense")
    os.utime(put(folder / "weights/new.gguf"), (0, 0))
    assert loaded.look_again

    assert list(loaded.look_again(model_folders.look).models) == ["my-gemma", "new", "qwen"]


HOSTILE = (
    "a b",
    "it's -- --api-key x",
    "x' --host 0.0.0.0 '",
    'x" --host 0.0.0.0 "',
    "back\\slash \\' --host",
    "$(touch x) `y` #z",
    "tail\\",
)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "quoted", ["${MODEL_PATH}", "'${MODEL_PATH}'", '"${MODEL_PATH}"', "--model='${MODEL_PATH}'", "a${MODEL_PATH}"]
)
def test_the_name_of_a_file_stays_in_its_word(files: ConfigFiles, tmp_path: Path, quoted: str, name: str) -> None:
    """This holds with any quotes around it and in it, and through a macro."""
    path = put(tmp_path / f"weights/{name}.gguf")
    os.utime(path, (0, 0))
    text = f"""
modelsDir:
  path: weights
  macros: {{file: {json.dumps(quoted)}}}
  cmd: |
    server {quoted} --port ${{PORT}}
    ${{file}}
  cmdStop: stop {quoted} ${{PID}}
  sleep: {{suspend: {json.dumps(f"run {quoted} --end")}, resume: 'POST /wake {{"file": "${{MODEL_PATH}}"}}'}}
  env: {{FILE: "${{MODEL_PATH}}"}}
  description: about ${{MODEL_PATH}}
"""
    loaded = files.load(text)
    (spec,) = [spec for spec in loaded.catalog.models.values() if name in spec.description]
    word = quoted.replace("'", "").replace('"', "").replace("${MODEL_PATH}", f"weights/{name}.gguf")

    assert spec.recipe.argv == ("server", word, "--port", "${PORT}", word)
    assert spec.recipe.stop == ("stop", word, "${PID}")
    assert spec.recipe.env == (("FILE", f"weights/{name}.gguf"),)
    (level,) = spec.sleep.levels if spec.sleep else ()
    assert level.suspend == (Run(("run", word, "--end")),)
    (ask,) = level.resume
    assert isinstance(ask, Ask)
    assert json.loads(ask.body) == {"file": f"weights/{name}.gguf"}
    assert "\ue000" not in json.dumps(resolved(loaded), ensure_ascii=False)


def test_the_name_of_a_model_stays_in_its_word(files: ConfigFiles) -> None:
    """This holds for commands that put it to sleep, too."""
    text = """
models: {"a ' b": {cmd: "s '${MODEL_ID}' ${PORT}", sleep: {suspend: "x ${MODEL_ID}", resume: "POST /w/${MODEL_ID}"}}}
"""
    spec = files.load(text).catalog.models[ModelName("a ' b")]

    assert spec.recipe.argv == ("s", "a ' b", "${PORT}")
    assert spec.sleep
    assert [step.words for step in (*spec.sleep.levels[0].suspend, *spec.sleep.levels[0].resume)] == [
        ("x", "a ' b"),
        ("POST", "/w/a%20%27%20b"),
    ]


def test_the_effective_configuration_names_the_folder_and_its_models(files: ConfigFiles, folder: Path) -> None:
    """Commands on the same machine find it there, whatever their own working folder is."""
    shown = resolved(files.load(CONFIG + "models: {qwen: {cmd: 'other --port ${PORT}'}}\n"))

    assert shown["modelsDir"] == str(folder / "weights")
    assert shown["fromModelsDir"] == ["my-gemma"]
    assert shown["workingDir"] == str(folder)


def test_a_projector_beside_a_model_becomes_an_option(files: ConfigFiles, folder: Path) -> None:
    """Only for a model that it fits, and only where the command says so."""
    for name, data in (("eyes/m.gguf", b""), ("eyes/mmproj-F32.gguf", b"x"), ("eyes/my mmproj-F16.gguf", b"")):
        path = put(folder / "weights" / name, data or model_bytes("clip" if "mmproj" in name else "llama"))
        os.utime(path, (0, 0))
    command = "cmd: llama-server -m ${MODEL_PATH} ${MMPROJ} --port ${PORT} #"
    seeing = files.load(CONFIG.replace("cmd:", command)).catalog
    blind = files.load(CONFIG).catalog

    assert seeing.resolve("m").recipe.argv[3:5] == ("--mmproj", "weights/eyes/my mmproj-F16.gguf")
    assert seeing.resolve("qwen").recipe.argv[3] == "--port"
    assert "--mmproj" not in blind.resolve("m").recipe.argv
