"""Values from the environment are shown nowhere: canaries in every place of the schema."""

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
