"""`${env.NAME}` in the text of a file, and canaries in every place of the schema: its values are shown nowhere."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.depth import by_depth

from hotseat.config.effective import resolved
from hotseat.config.load import Loaded, read
from hotseat.config.problems import ConfigError
from hotseat.config.schema import Config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.config_files import ConfigFiles

DESCRIBED = "models: {m: {cmd: server, proxy: 'http://h:1', description: %s}}\n"


def described(files: ConfigFiles, text: str, **environ: str) -> str:
    return files.load(DESCRIBED % text, environ).catalog.resolve("m").description


def test_a_variable_is_filled_in_wherever_a_value_stands(files: ConfigFiles) -> None:
    """Plain, quoted, and in the middle of a text."""
    assert described(files, "${env.A}", A="x") == "x"
    assert described(files, '"a ${env.A} ${env.B} b"', A="x", B="y") == "a x y b"
    assert described(files, "'${env.A}'", A="x") == "x"


def test_a_flow_list_takes_several_values_from_one_variable(files: ConfigFiles) -> None:
    """The text is replaced before YAML reads it."""
    loaded = files.load("apiKeys: [${env.KEYS}]\n" + DESCRIBED % "x", {"KEYS": "key-number-one, key-number-two"})

    assert [key.secret for key in loaded.settings.access.api_keys] == ["key-number-one", "key-number-two"]


def test_quotes_and_backslashes_survive_a_quoted_text(files: ConfigFiles) -> None:
    """What the variable holds is what the setting holds."""
    assert described(files, '"${env.A}"', A='a"b\\c') == 'a"b\\c'


def test_quotes_in_a_variable_do_not_break_a_command(files: ConfigFiles) -> None:
    """Splitting the command undoes the escapes."""
    text = "models: {m: {cmd: 'server --key ${env.K}', proxy: 'http://h:1'}}"

    assert files.load(text, {"K": 'a"b'}).catalog.resolve("m").recipe.argv == ("server", "--key", 'a"b')


def test_a_variable_that_is_not_set_is_a_mistake_with_its_place(files: ConfigFiles) -> None:
    """The column is that of the occurrence."""
    said = "environment variable MISSING is not set. Set MISSING before starting hotseat"

    assert files.mistakes("defaultModel: m\n" + DESCRIBED % "ab ${env.MISSING}") == [f"config.yaml:2:64: error: {said}"]


def test_a_missing_variable_is_the_only_problem_of_its_value(files: ConfigFiles) -> None:
    """One mistake gives one error: a missing value is not validated."""
    text = "startPort: ${env.P}\nmodels:\n  m: {cmd: '${env.C}'}\n"

    assert files.mistakes(text) == [
        "config.yaml:1:12: error: environment variable P is not set. Set P before starting hotseat",
        "config.yaml:3:13: error: environment variable C is not set. Set C before starting hotseat",
    ]


def test_a_variable_of_several_lines_is_refused(files: ConfigFiles) -> None:
    """It would change what the next lines mean."""
    said = "environment variable A contains a line break or a NUL. It must be a single line"

    assert files.mistakes(DESCRIBED % "${env.A}", {"A": "x\ny: z"}) == [f"config.yaml:1:61: error: {said}"]
    assert files.mistakes(DESCRIBED % "${env.A}", {"A": "x\rz"}) == [f"config.yaml:1:61: error: {said}"]
    assert files.mistakes(DESCRIBED % "${env.A}", {"A": "x\0"}) == [f"config.yaml:1:61: error: {said}"]


def test_comments_may_speak_of_variables(files: ConfigFiles) -> None:
    """Whole lines, ends of lines, and comment lines of commands."""
    text = """
# ${env.NOBODY}
defaultModel: m # or ${env.NOBODY}
models:
  m:
    proxy: http://h:1
    cmd: |
      # --key ${env.NOBODY}
      server '# ${env.A}'
"""
    loaded = files.load(text, {"A": "a"})

    assert loaded.catalog.resolve("m").recipe.argv == ("server", "# a")


def test_columns_are_those_of_the_authors_text(files: ConfigFiles) -> None:
    """A long or short value before a mistake on the same line does not change its column."""
    text = "models: {m: {cmd: '${env.A}', proxy: 'http://h:1', tll: 1}, ${env.B}: {cmd: x, proxy: 'http://h:1', b: 1}}"

    assert files.mistakes(text, {"A": "x" * 50, "B": "y"}) == [
        'config.yaml:1:52: error: models.m.tll: unknown key. Did you mean "ttl"?',
        "config.yaml:1:101: error: models.y.b: unknown key",
    ]


def test_a_syntax_mistake_after_a_variable_keeps_its_column(files: ConfigFiles) -> None:
    """Errors of the parser refer to the original text too."""
    [problem] = files.mistakes("a: [${env.A}, b: c: d]", {"A": "x" * 30})

    assert problem.startswith("config.yaml:1:19: error: not valid YAML")


def test_variables_behind_our_keys_are_withheld_from_servers(files: ConfigFiles) -> None:
    """Directly, in a mapping, for a peer, and through macros; other variables are passed on."""
    text = """
macros:
  inner: ${env.INNER}
  outer: "${inner}-${inner}-${env.OUTER}"
  plain: ${env.PLAIN}
apiKeys:
  - ${env.DIRECT}
  - key: ${env.MAPPED}
  - ${outer}
models:
  m: {cmd: 'server ${plain} ${env.USED}', proxy: 'http://h:1'}
peers:
  far: {proxy: 'http://far', apiKey: "${env.PEER}", models: [a]}
"""
    names = ("INNER", "OUTER", "PLAIN", "DIRECT", "MAPPED", "USED", "PEER")
    loaded = files.load(text, {name: f"value-of-{name.lower()}" for name in names})

    assert loaded.withheld_env == {"INNER", "OUTER", "DIRECT", "MAPPED", "PEER"}


def test_a_macro_without_its_variable_is_one_error(files: ConfigFiles) -> None:
    """The uses of the macro give no further errors."""
    text = "macros: {m: '${env.NOBODY}'}\nmodels: {m: {macros: {n: '${env.NOBODY}'}, cmd: 's ${PORT} ${m} ${n}'}}"
    said = "error: environment variable NOBODY is not set. Set NOBODY before starting hotseat"

    assert files.mistakes(text) == [f"config.yaml:1:14: {said}", f"config.yaml:2:27: {said}"]


def test_problems_never_repeat_a_secret(files: ConfigFiles) -> None:
    """Neither values of variables nor text in place of a key are quoted."""
    text = """
apiKeys: ${env.K}
logLevel: ${env.K}
globalTTL: ${env.K}
models:
  m: {cmd: 'KEY=sk-1 s ${PORT}', env: ["${env.K}"], proxy: 'http://me:sk-1@host'}
peers:
  p: {proxy: 'http://p', models: [a], apiKey: [sk-1]}
"""
    problems = files.mistakes(text, {"K": "sk-1"})

    assert sum(": error: " in problem for problem in problems) == 6
    assert not any("sk-1" in problem for problem in problems)


def test_a_control_character_in_a_variable_is_an_error_where_it_is_used(files: ConfigFiles) -> None:
    """The parser refuses it; the position is that in the original text."""
    [problem] = files.mistakes("a: b\nc: 'xx${env.A}'", {"A": "long\x01"})

    assert problem == "config.yaml:2:7: error: not valid YAML: special characters are not allowed (#x0001)"


CANARY = "Canary-7f3a91c0"
SCHEMA = Config.model_json_schema()

MODEL: dict[str, Any] = {
    "cmd": "server --port ${PORT}",
    "proxy": "http://localhost:${PORT}",
    "sleep": {"suspend": "POST /sleep", "resume": "POST /wake"},
}
BASE: dict[str, Any] = {
    "macros": {"unused": "x"},
    "models": {"some": MODEL, "other": {"cmd": "server --port ${PORT}"}},
    "apiKeys": [{"key": "0123456789abcdef", "name": "holder"}],
    "devices": {"some": {"memory": "8GiB"}},
    "peers": {"some": {"proxy": "http://127.0.0.1:1", "models": ["x"]}},
    "selectors": {"some-selector": {"strategy": "warm", "targets": ["some"]}},
    "profiles": {"some": {"pins": {"other": "some"}}},
    "fleet": {"nats": "nats://127.0.0.1:4222", "name": "host", "secret": "fedcba9876543210"},
}
FORMS = ("{}", "words before {} and after", "https://user:{}@host/path", "http://{}:80", "NAME={}", "/in/a/path/{}/x")
EVERY = by_depth(3, deep=1)
"""Each form is tried at every third place, and each place with a third of the forms; in `just deep` with all."""
NAMES_OF_MODELS = {("peers", "some", "models", 0)}
"""/v1/models shows these to every client."""


def places(node: dict[str, Any], path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place of the schema that can hold a value; `some` stands for any name."""
    if "$ref" in node:
        node = SCHEMA["$defs"][node["$ref"].rpartition("/")[2]]
    branches = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    for branch in branches:
        yield from places(branch, path)
    if "properties" in node:
        for key, described in node["properties"].items():
            yield from places(described, (*path, key))
    elif node.get("type") == "object":
        members = node.get("additionalProperties")
        yield from places(members if isinstance(members, dict) else {}, (*path, "some"))
    elif node.get("type") == "array":
        yield from places(node.get("items", {}), (*path, 0))
    elif not branches:
        yield path


PLACES = sorted(set(places(SCHEMA)) - NAMES_OF_MODELS, key=str)
SOME_PLACES = {form: PLACES[n % EVERY :: EVERY] for n, form in enumerate(FORMS)}


def with_value(path: tuple[str | int, ...], value: str) -> dict[str, Any]:
    config = deepcopy(BASE)
    if path[0] == "modelsDir":
        config["modelsDir"] = {"path": "models", "cmd": "server -m ${MODEL_PATH} --port ${PORT}"}
    here: Any = config
    for step, following in pairwise(path):
        wanted: type = list if isinstance(following, int) else dict
        if isinstance(here, list):
            here[:] = [here[0] if here and isinstance(here[0], wanted) else wanted()]
        elif not isinstance(here.get(step), wanted):
            here[step] = wanted()
        here = here[step]
    if isinstance(here, list):
        here[:] = [value]
    else:
        here[path[-1]] = value
    return config


def shown_by(files: ConfigFiles, config: dict[str, Any]) -> tuple[Loaded | None, str]:
    """Everything that is shown of a configuration or of its errors."""
    file = files.write("config.yaml", json.dumps(config))
    try:
        loaded = read([file], environ={"SECRET": CANARY})
    except ConfigError as error:
        return None, "\n".join(map(repr, error.problems))
    problems = (*loaded.problems, *loaded.differences)
    return loaded, json.dumps(resolved(loaded)) + "\n".join(map(repr, problems))


@pytest.fixture
def gguf(files: ConfigFiles) -> None:
    files.write("models/tiny.gguf", "GGUF")


@pytest.mark.longer
@pytest.mark.parametrize("form", FORMS)
def test_a_value_of_the_environment_is_shown_at_no_place_of_the_schema(
    files: ConfigFiles, gguf: None, form: str
) -> None:
    """Neither the effective configuration nor its errors show it, in upper or lower case."""
    leaks, accepted = [], 0
    for path in SOME_PLACES[form]:
        loaded, shown = shown_by(files, with_value(path, form.format("${env.SECRET}")))
        accepted += loaded is not None
        if CANARY.lower() in shown.lower():
            leaks.append((path, shown[max(0, shown.lower().find(CANARY.lower()) - 80) :][:200]))

    assert leaks == []
    assert accepted > 10


@pytest.mark.longer
def test_a_value_of_the_environment_stays_hidden_behind_macros(files: ConfigFiles, gguf: None) -> None:
    """Nested macros do not reveal a variable's value."""
    leaks = []
    for path in PLACES[::EVERY]:
        config = with_value(path, "${outer}")
        config["macros"] = {"inner": "${env.SECRET}", "outer": "a-${inner}", **config["macros"]}
        _, shown = shown_by(files, config)
        if CANARY.lower() in shown.lower():
            leaks.append((path, shown[max(0, shown.find(CANARY) - 80) :][:200]))

    assert leaks == []


def test_the_schema_has_the_places_that_people_use() -> None:
    """A walk that misses places would prove nothing."""
    wanted = {
        ("models", "some", "cmd"),
        ("models", "some", "env", 0),
        ("models", "some", "env", "some"),
        ("models", "some", "filters", "setParams", "some"),
        ("apiKeys", 0),
        ("apiKeys", 0, "key"),
        ("peers", "some", "proxy"),
        ("fleet", "nats", 0),
        ("modelsDir", "cmdStop"),
    }

    assert wanted <= set(PLACES)
    assert len(PLACES) > 200


def test_a_short_value_is_hidden_at_its_place_and_left_alone_elsewhere(files: ConfigFiles) -> None:
    """`1` is hidden where a variable put it, and shown everywhere else."""
    text = """
models:
  a:
    cmd: server --port ${PORT} --parallel ${env.N} --ctx 4096 --level=${env.N} --more 11
    env: ["PIN=${env.N}", "OTHER=2"]
    filters: {setParams: {seed: "${env.N}", top_k: "1 of ${env.N}"}}
  b:
    cmd: server --port ${PORT} --parallel 1
"""
    shown = resolved(files.load(text, {"N": "1"}))["models"]

    assert shown["a"]["cmd"] == [
        "server", "--port", "${PORT}", "--parallel", "${env.N}", "--ctx", "4096", "--level=${env.N}", "--more", "11",
    ]  # fmt: skip
    assert shown["a"]["env"] == {"PIN": "${env.N}", "OTHER": "2"}
    assert shown["a"]["filters"]["setParams"]["seed"] == "${env.N}"
    assert shown["b"]["cmd"][-1] == "1"


def test_a_number_of_the_environment_is_hidden_where_anything_may_stand(files: ConfigFiles) -> None:
    """Free-form members may be secrets; numbers with a meaning for hotseat are not."""
    text = "models: {a: {cmd: 's ${PORT}', ttl: ${env.TTL}, filters: {setParams: {pin: ${env.PIN}}}}}"
    shown = resolved(files.load(text, {"TTL": "300", "PIN": "48151623"}))["models"]["a"]

    assert shown["filters"]["setParams"] == {"pin": "${env.PIN}"}
    assert shown["ttl"] == 300


@pytest.mark.parametrize("secret", ["two words-of-it", 'quoted "inside" it', "back\\slash-word", "it's-one-quote x"])
def test_a_value_is_hidden_however_it_is_split_and_escaped(files: ConfigFiles, secret: str) -> None:
    """Its words are separate in a command line, and its escapes stay in a plain text."""
    text = """
models:
  a: {cmd: "s ${PORT} ${env.S}", description: "${env.S}", name: '${env.S}', metadata: {x: "${env.S}"}}
"""
    try:
        shown = json.dumps(resolved(files.load(text, {"S": secret})), ensure_ascii=False)
    except ConfigError as error:
        shown = str(error)
    for word in secret.replace('"', " ").replace("\\", " ").replace("'", " ").split():
        assert len(word) < 4 or word not in shown


def test_a_path_or_a_program_that_is_there_is_no_secret(files: ConfigFiles, tmp_path: Path) -> None:
    """Whoever reads a log needs to see where `${env.HOME}/models` is."""
    text = "models: {a: {cmd: 's ${PORT} -m ${env.HOME}/m.gguf'}}"

    assert resolved(files.load(text, {"HOME": str(tmp_path)}))["models"]["a"]["cmd"][-1] == f"{tmp_path}/m.gguf"
    assert resolved(files.load(text, {"HOME": "python3"}))["models"]["a"]["cmd"][-1] == "python3/m.gguf"
    assert resolved(files.load(text, {"HOME": "/not/there"}))["models"]["a"]["cmd"][-1] == "${env.HOME}/m.gguf"


@pytest.mark.parametrize(
    "text",
    [
        "models: {a: {cmd: ${env.SECRET}}}",
        "models: {a: {cmd: 's', proxy: ${env.SECRET}, ttl: ${env.SECRET}}}",
        "${env.SECRET}: 1",
        "models: {a: ${env.SECRET}}",
    ],
)
@pytest.mark.parametrize(
    "secret", ["*secretword", "&secretword", "!secretword", "%secretword", "{secretword", "s: x: y"]
)
def test_yaml_in_a_value_is_rejected_without_repeating_the_value(files: ConfigFiles, text: str, secret: str) -> None:
    """The error names the variable instead of the text that the parser fails on."""
    with pytest.raises(ConfigError) as refused:
        files.load(text, {"SECRET": secret})

    assert "secretword" not in "".join(map(repr, refused.value.problems))


def test_what_is_named_like_a_secret_is_hidden_wherever_it_comes_from(files: ConfigFiles) -> None:
    """Options, variables, header arguments and passwords in URLs, written out in the file."""
    text = """
models:
  a:
    cmd: >-
      server --port ${PORT} -hft canary01 --api_key canary02 --auth canary03 --passphrase=canary04
      -H "Authorization: Bearer canary05" --header=x-api-key:canary06 --url https://me:canary07@host/x
      --credentials canary08 --secret canary09 -c 'curl -H "Authorization: Basic canary10" u'
    cmdStop: stop --auth=canary11 --hf_token canary12
    proxy: http://localhost:${PORT}
    env: {MY_PASSPHRASE: canary13, AWS_CREDENTIALS: canary14, URL: "redis://:canary15@host", HTTP_AUTH: canary16}
    sleep: {suspend: "prog --token canary17", resume: "prog --auth canary18"}
"""
    shown = json.dumps(resolved(files.load(text)))

    assert [n for n in range(1, 19) if f"canary{n:02}" in shown] == []
    assert "--port" in shown
