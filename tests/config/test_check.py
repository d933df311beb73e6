"""`hotseat check` and `hotseat schema`: what they print and how they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hotseat.catalog.redaction import HIDDEN, redacted
from hotseat.cli.check import check
from hotseat.cli.setup_commands import schema
from hotseat.config.effective import concurrency, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.config_files import ConfigFiles

GOOD = "models: {a: {cmd: 's ${PORT}'}, b: {cmd: 's ${PORT}'}}\n"


def test_a_good_file_is_summed_up(files: ConfigFiles, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary has the number of models and warnings, and which models may run together."""
    file = files.write("config.yaml", GOOD + "captureBuffer: 1\n")

    assert check([file], as_json=False, lenient=False) == 0

    out, err = capsys.readouterr()
    assert out == "ok: 2 models, 1 warning.\nAll models run one at a time: loading one stops the others.\n"
    assert err == "config.yaml:2:1: warning: captureBuffer: not used yet. Nothing is captured\n"


OPEN_FLEET = "fleet: {nats: ['nats://hub:4222'], name: gpu1, secret: a-secret-of-twenty-signs}\n"
REFUSED = {
    "open": ("listen: ':80'", "0.0.0.0:80 can be reached from other machines and no apiKeys are configured"),
    "plain text beside HTTPS": (
        "tls: {cert: c.pem}\nollama: {listen: ':11434'}\napiKeys: [a-key-of-twenty-signs]",
        "ollama.listen 0.0.0.0:11434 is plain HTTP",
    ),
    "a certificate that is missing": ("tls: {cert: no.pem}", "cannot use the certificate: [Errno 2]"),
    "a loopback address in a fleet": (OPEN_FLEET, "other hosts cannot reach this one at 127.0.0.1:8080"),
    "one address twice": ("ollama: {listen: 8080}", "is also the address of listen, 127.0.0.1:8080"),
    "also everywhere": ("allowOpen: true\nollama: {listen: ':8080'}", "0.0.0.0:8080 and listen 127.0.0.1:8080"),
    "by its name": ("ollama: {listen: 'localhost:8080'}", "localhost:8080 and listen 127.0.0.1:8080"),
    "everywhere and by its name": (
        "allowOpen: true\nlisten: ':99'\nollama: {listen: 'localhost:99'}",
        "ollama.listen localhost:99 and listen 0.0.0.0:99 have the same port",
    ),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED)
def test_what_serve_refuses_is_an_error(
    files: ConfigFiles, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    """`check` reports what `serve` will refuse, so that a script that checks a file does not install it."""
    file = files.write("config.yaml", GOOD + text)
    assert check([file], as_json=False, lenient=False) == 3
    said = capsys.readouterr()
    assert check([file], as_json=True, lenient=False) == 3
    told = json.loads(capsys.readouterr().out)

    assert f"{file}:" in said.err
    assert ": error: " in said.err
    assert says in said.err
    assert said.out == "1 error: hotseat does not start with this configuration.\n"
    assert (told["ok"], told["config"]) == (False, None)
    assert says in told["problems"][-1]["message"]
    assert told["problems"][-1]["severity"] == "error"


@pytest.mark.parametrize(
    "text",
    [
        "ollama: {listen: 8081}",
        "ollama: {listen: '[::1]:8080'}",
        "listen: '[::]:99'\nollama: {listen: 99}\nallowOpen: true",
        "listen: 0\nollama: {listen: 0}",
    ],
)
def test_two_addresses_that_differ(files: ConfigFiles, text: str) -> None:
    """IPv4 and IPv6 have ports of their own, and for port 0 each gets a free one."""
    assert check([files.write("config.yaml", GOOD + text)], as_json=False, lenient=False) == 0


@pytest.mark.parametrize(
    ("pinned", "effect"),
    [("", "runs only while no other model does"), (", pinned: true", "never runs, because a is pinned")],
)
def test_a_model_of_unknown_size_is_warned_of(
    files: ConfigFiles, capsys: pytest.CaptureFixture[str], pinned: str, effect: str
) -> None:
    """Only where memory decides what runs, and where there are other models."""
    models = f"models:\n  a: {{cmd: 's ${{PORT}}', memory: 1GiB{pinned}}}\n  b: {{cmd: 's ${{PORT}}'}}\n"
    check([files.write("config.yaml", models)], as_json=False, lenient=False)
    without_devices = capsys.readouterr()
    check([files.write("config.yaml", f"{models}devices: {{gpu0: {{memory: 8GiB}}}}\n")], as_json=False, lenient=False)
    out, err = capsys.readouterr()

    assert "memory is unknown" not in without_devices.err
    assert f"config.yaml:3:3: warning: models.b: its memory is unknown, so it {effect}. Declare `memory`\n" in err
    assert "ok: 2 models, 1 warning." in out


def test_a_bad_file_ends_with_three(files: ConfigFiles, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors go to stderr, one per line."""
    assert check([files.write("config.yaml", GOOD + "lisen: 1")], as_json=False, lenient=False) == 3

    out, err = capsys.readouterr()
    assert err == 'config.yaml:2:1: error: lisen: unknown key. Did you mean "listen"?\n'
    assert out == "1 error: hotseat does not start with this configuration.\n"


def test_lenient_checking_lets_unknown_keys_pass(files: ConfigFiles, capsys: pytest.CaptureFixture[str]) -> None:
    """They become warnings."""
    assert check([files.write("config.yaml", GOOD + "lisen: 1")], as_json=False, lenient=True) == 0

    assert "warning: lisen: unknown key, ignored" in capsys.readouterr().err


def test_mistakes_as_json(files: ConfigFiles, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON has each error with its parts, and no configuration."""
    assert check([files.write("config.yaml", GOOD + "lisen: 1")], as_json=True, lenient=False) == 3

    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "config": None,
        "differences": [],
        "problems": [
            {
                "severity": "error", "file": "config.yaml", "line": 2, "column": 1, "path": "lisen",
                "message": "unknown key", "hint": 'Did you mean "listen"?',
            }
        ],
    }  # fmt: skip


def test_secrets_are_not_printed(files: ConfigFiles) -> None:
    """The output hides keys, options that carry keys, variables named like secrets, and hotseat's keys everywhere."""
    text = """
apiKeys: [sk-ours-and-ours-alone]
models:
  a:
    cmd: s ${PORT} --api-key alpha1 --hf-token=beta2 sk-ours-and-ours-alone --ctx 5
    cmdStop: sh -c 'stop --api-key gamma3 now'
    env: [HF_TOKEN=delta4, my_secret_x=epsilon5, MODE=fast, COPY=sk-ours-and-ours-alone]
"""
    shown = resolved(files.load(text))

    assert [(key["key"], key["role"]) for key in shown["settings"]["apiKeys"]] == [(HIDDEN, "admin")]
    model = shown["models"]["a"]
    assert model["cmd"] == ["s", "${PORT}", "--api-key", HIDDEN, f"--hf-token={HIDDEN}", HIDDEN, "--ctx", "5"]
    assert model["cmdStop"] == ["sh", "-c", f"stop --api-key {HIDDEN} now"]
    assert model["env"] == {"HF_TOKEN": HIDDEN, "my_secret_x": HIDDEN, "MODE": "fast", "COPY": HIDDEN}
    assert not any(
        secret in json.dumps(shown)
        for secret in ("sk-ours-and-ours-alone", "alpha1", "beta2", "gamma3", "delta4", "epsilon5")
    )


def test_ordinary_options_are_left_alone() -> None:
    """Only options that are named like a secret are hidden."""
    argv = [
        "s",
        "--api-key-file",
        "/k",
        "--max-tokens",
        "5",
        "--keys",
        "x",
        "--no-auth",
        "on",
        "--url",
        "http://h:1/a@b",
    ]

    assert redacted(argv) == argv


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (GOOD, ["All models run one at a time: loading one stops the others."]),
        (
            GOOD + "devices: {gpu0: {memory: 8GiB}, cpu: {memory: 64GiB}}",
            ["All models run together as long as they fit into gpu0 8 GiB, cpu 64 GiB."],
        ),
        (
            GOOD + "groups: {g: {members: [a]}, h: {persistent: yes, exclusive: no, swap: no}}",
            [
                "Models in no group (b) run one at a time:"
                " loading one stops every other model outside a persistent group.",
                'Group "g" (a): one member at a time;'
                " loading a member stops the members of other groups that are not persistent.",
                'Group "h" (nobody): all members may run together; loading a member stops nothing outside the group;'
                " no other group stops its members.",
            ],
        ),
        (
            GOOD + "groups: {g: {members: [a, b], exclusive: no}}",
            [
                'Group "g" (a, b): one member at a time; loading a member stops nothing outside the group;'
                " an exclusive group loaded later stops them."
            ],
        ),
    ],
)
def test_who_may_run_together_is_said_in_words(files: ConfigFiles, text: str, sentences: list[str]) -> None:
    """The sentence includes the one-way effect of groups."""
    assert concurrency(files.load(text).catalog) == sentences


def test_a_long_list_of_names_is_cut(files: ConfigFiles) -> None:
    """Nobody reads a hundred names in a sentence."""
    models = ", ".join(f"m{n}: {{cmd: 's ${{PORT}}'}}" for n in range(12))
    text = f"models: {{{models}}}\ngroups: {{g: {{members: [m0]}}}}"

    assert "(m1, m2, m3, m4, m5, m6, m7, m8 and 3 more)" in concurrency(files.load(text).catalog)[0]


def test_the_schema_explains_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    """Editors can show a title and a description for each key."""
    schema()
    published = json.loads(capsys.readouterr().out)
    assert published["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert published["anyOf"] == [{"required": ["models"]}, {"required": ["modelsDir"]}]
    assert published["additionalProperties"] is False
    unexplained = [path for path, key in keys_of(published) if not (key.get("title") and key.get("description"))]
    assert unexplained == []


def test_the_schema_allows_what_the_reader_allows(capsys: pytest.CaptureFixture[str]) -> None:
    """Durations, sizes and switches are unions, and extension keys are allowed."""
    schema()
    published = json.loads(capsys.readouterr().out)
    keys = dict(keys_of(published))

    assert {option["type"] for option in keys["Config.globalTTL"]["anyOf"]} == {"number", "string"}
    assert {option["type"] for option in keys["LimitsForm.body"]["anyOf"]} == {"integer", "string"}
    assert "yes" in keys["Config.metrics"]["anyOf"][1]["enum"]
    assert r"^(x-|\.)" in published["patternProperties"]


def keys_of(published: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, form in {**published["$defs"], "Config": published}.items():
        for key, described in form.get("properties", {}).items():
            yield f"{name}.{key}", described


def test_what_differs_from_llama_swap_is_listed(files: ConfigFiles, capsys: pytest.CaptureFixture[str]) -> None:
    """Differences follow the summary, each with its position; the JSON has them too."""
    file = files.write("config.yaml", "healthCheckTimeout: 5\nmodels: {a: {cmd: 's ${PORT}', concurrencyLimit: 2}}")
    check([file], as_json=False, lenient=False)
    text = capsys.readouterr().out
    check([file], as_json=True, lenient=False)
    data = json.loads(capsys.readouterr().out)

    assert text.splitlines()[-3:] == [
        "Differences from llama-swap:",
        "config.yaml:1:1: note: healthCheckTimeout: Every value is used; llama-swap waits at least 15 s",
        "config.yaml:2:32: note: models.a.concurrencyLimit: Further requests wait in the queue instead of getting 429;"
        " 0 is no limit, not 10",
    ]
    assert [each["path"] for each in data["differences"]] == ["healthCheckTimeout", "models.a.concurrencyLimit"]
