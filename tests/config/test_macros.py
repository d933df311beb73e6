"""`${name}`: scopes, types, order and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

    from hotseat.catalog.spec import ModelSpec

BASE = "    cmd: server --port ${PORT}\n"


def model(files: ConfigFiles, text: str, name: str = "m") -> ModelSpec:
    return files.load(text).catalog.resolve(name)


def test_a_macro_keeps_its_type_where_it_stands_alone(files: ConfigFiles) -> None:
    """Numbers and booleans keep their types in JSON bodies."""
    spec = model(
        files,
        "macros: {n: 5, f: 0.5, b: true, s: '7'}\nmodels:\n  m:\n"
        + BASE
        + "    filters: {setParams: {n: '${n}', f: '${f}', b: '${b}', s: '${s}', t: 'x${n}${b}', l: ['${n}']}}\n",
    )

    assert dict(spec.changes.set) == {"n": 5, "f": 0.5, "b": True, "s": "7", "t": "x5true", "l": [5]}


def test_a_models_macro_wins_also_inside_global_ones(files: ConfigFiles) -> None:
    """A global macro that uses an overridden one sees the model's value."""
    text = """
macros: {dir: /srv, file: "${dir}/x.gguf"}
models:
  m: {macros: {dir: /home}, cmd: "server --port ${PORT} -m ${file}"}
  n: {cmd: "server --port ${PORT} -m ${file}"}
"""

    assert model(files, text).recipe.argv[-1] == "/home/x.gguf"
    assert model(files, text, "n").recipe.argv[-1] == "/srv/x.gguf"


def test_a_models_name_is_one_word_of_its_command(files: ConfigFiles) -> None:
    """Names may hold spaces; everywhere else the name is plain text."""
    command = "server --port ${PORT} --alias ${MODEL_ID} -m x/${MODEL_ID}.gguf"
    text = f"models:\n  a b:\n    cmd: {command}\n    aliases: ['${{MODEL_ID}}:x']\n"
    spec = model(files, text, "a b")

    assert spec.recipe.argv[3:] == ("--alias", "a b", "-m", "x/a b.gguf")
    assert spec.aliases == ("a b:x",)


def test_a_macro_of_several_words_becomes_several_words(files: ConfigFiles) -> None:
    """Commands are expanded before they are split."""
    text = "macros: {gpu: '-ngl 99 --flash-attn'}\nmodels: {m: {cmd: 'server ${gpu} ${PORT}'}}"

    assert model(files, text).recipe.argv == ("server", "-ngl", "99", "--flash-attn", "${PORT}")


def test_macros_work_in_global_values_too(files: ConfigFiles) -> None:
    """Every value may use them, not only those of models."""
    loaded = files.load("macros: {level: debug, m: q}\nlogLevel: ${level}\ndefaultModel: ${m}\nmodels:\n  q:\n" + BASE)

    assert loaded.settings.logging.level == "debug"
    assert loaded.catalog.default_model == "q"


def test_mapping_keys_are_taken_as_they_are_except_names_by_id(files: ConfigFiles) -> None:
    """A key of setParamsByID becomes a name, so it may be built from macros."""
    text = (
        "macros: {x: y}\nmodels:\n  m:\n"
        + BASE
        + "    filters: {setParams: {'${x}': 1}, setParamsByID: {'${MODEL_ID}:${x}': {a: 1}}}\n"
    )
    loaded = files.load(text)

    assert dict(loaded.catalog.resolve("m").changes.set) == {"${x}": 1}
    assert dict(loaded.catalog.resolve("m:y").changes.set) == {"${x}": 1, "a": 1}


def test_the_port_and_the_pid_stay_open(files: ConfigFiles) -> None:
    """They are known only when a process is started or stopped."""
    text = (
        "models:\n  m:\n"
        + BASE
        + "    cmdStop: stop ${PID} ${PORT}\n    checkEndpoint: /h/${PORT}\n    env: ['P=${PORT}']\n"
    )
    recipe = model(files, text).recipe

    assert recipe.stop == ("stop", "${PID}", "${PORT}")
    assert recipe.check_endpoint == "/h/${PORT}"
    assert recipe.env == (("P", "${PORT}"),)


@pytest.mark.parametrize(
    ("macros", "problem"),
    [
        ("PORT: 1", "2:3: error: macros.PORT: PORT is reserved; choose another name"),
        ("MODEL_ID: x", "2:3: error: macros.MODEL_ID: MODEL_ID is reserved; choose another name"),
        ("a.b: x", '2:3: error: macros["a.b"]: a macro\'s name has at most 63 letters, digits, _ and -'),
        ("a" * 64 + ": x", f"2:3: error: macros.{'a' * 64}: a macro's name has at most 63 letters, digits, _ and -"),
        ("a: [1]", "2:3: error: macros.a: a macro must be a string, a number or a boolean"),
        ("a: ~", "2:3: error: macros.a: a macro must be a string, a number or a boolean"),
        ("a: x${a}", "2:3: error: macros.a: the macro refers to itself"),
        ("a: ${b}\n  b: 1", "2:3: error: macros.a: ${b} is declared later, in line 3. Move it before this line"),
        ("server: 1\n  a: ${sever}", '3:3: error: macros.a: unknown macro ${sever}. Did you mean "server"?'),
    ],
)
def test_a_macro_that_cannot_be_used_is_an_error_with_its_place(files: ConfigFiles, macros: str, problem: str) -> None:
    """Each kind of error in a definition has its message."""
    assert files.mistakes(f"macros:\n  {macros}\nmodels:\n  m:\n{BASE}") == [f"config.yaml:{problem}"]


def test_a_macro_that_explodes_is_refused(files: ConfigFiles) -> None:
    """Doubling seventeen times is a mistake or an attack."""
    lines = ["macros:", "  m0: xx"] + [f"  m{n}: ${{m{n - 1}}}${{m{n - 1}}}" for n in range(1, 17)]

    assert files.mistakes("\n".join([*lines, "models:", "  m:", BASE])) == [
        "config.yaml:18:3: error: macros.m16: the macro expands to more than 100,000 characters"
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("name: ${nobody}", "error: models.m.name: unknown macro ${nobody}. Define it under macros"),
        ("name: ${CTXX}", 'error: models.m.name: unknown macro ${CTXX}. Did you mean "CTX"?'),
        ("name: ${PID}", "error: models.m.name: ${PID} can only be used in cmdStop and sleep"),
        ("name: ${env.not-a-name}", "error: models.m.name: unknown macro ${env.not-a-name}"),
    ],
)
def test_an_unknown_macro_is_an_error_with_its_place(files: ConfigFiles, line: str, problem: str) -> None:
    """A macro without a definition is an error."""
    assert files.mistakes(f"macros: {{CTX: 1}}\nmodels:\n  m:\n{BASE}    {line}\n") == [f"config.yaml:5:5: {problem}"]


def test_what_is_known_of_a_model_is_unknown_outside(files: ConfigFiles) -> None:
    """`${MODEL_ID}` has no meaning at the top level."""
    assert files.mistakes(f"defaultModel: ${{MODEL_ID}}\nmodels:\n  m:\n{BASE}")[0] == (
        "config.yaml:1:1: error: defaultModel: ${MODEL_ID} can only be used inside a model"
    )


def test_the_port_in_a_title_is_left_alone_with_a_warning(files: ConfigFiles) -> None:
    """The port is unknown before the launch."""
    assert files.warnings(f"models:\n  m:\n{BASE}    name: at ${{PORT}}\n") == [
        "config.yaml:4:5: warning: models.m.name: ${PORT} is not expanded here: the port is only known at launch"
    ]


def test_notes_in_a_command_may_speak_of_unknown_macros(files: ConfigFiles) -> None:
    """Comment lines are removed before macros are expanded."""
    text = 'models:\n  m:\n    cmd: |\n      # ${nobody} "\n      server ${PORT}\n'

    assert model(files, text).recipe.argv == ("server", "${PORT}")
