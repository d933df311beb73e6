"""Errors and warnings that involve several keys."""

from __future__ import annotations

from socket import gethostname
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.depth import by_depth
from tests.support.fake_launcher import catalog, spec

from hotseat.config.crosscheck import NOT_IN_URLS
from hotseat.config.effective import concurrency
from hotseat.config.load import read
from hotseat.relay.routing.model_name import PathKind, find_destination

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

TWO = "models:\n  a: {cmd: 's ${PORT}'}\n  b: {cmd: 's ${PORT}', aliases: [bee]}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1:1: error: models: is missing"),
        ("models: []", "1:1: error: models: must be a mapping, not a list"),
        ("models: {m: text}", '1:10: error: models.m: must be a mapping, not "text"'),
        ("models: {m: }", "1:10: error: models.m.cmd: is missing"),
        (TWO + "lisen: x", '4:1: error: lisen: unknown key. Did you mean "listen"?'),
        (TWO + "lisen:", '4:1: error: lisen: unknown key. Did you mean "listen"?'),
        (
            TWO + "listen: ':11434'\nollama: {listen: ':11434'}",
            "5:10: error: ollama.listen: is also the address of listen, 0.0.0.0:11434."
            " Choose another port, such as Ollama's 11434",
        ),
        (TWO + "listen: here", '4:1: error: listen: must be host:port such as 127.0.0.1:8080, not "here"'),
        (
            TWO + "devices: auto",
            "4:1: error: devices: auto finds no device whose memory is known here."
            " List the devices: gpu0: {memory: 24GiB}",
        ),
        (TWO + "devices: all", '4:1: error: devices: must be auto, not "all"'),
        (TWO + "defaultModel: bea", '4:1: error: defaultModel: no model is called "bea". Did you mean "bee"?'),
        (TWO + "scheduler: {maxQueue: 0}", "4:13: error: scheduler.maxQueue: must be at least 1, not 0"),
        (TWO + "performance: {every: 0.5}", "4:15: error: performance.every: must be at least 1, not 0.5"),
        (TWO + "startPort: 65535", "4:1: error: startPort: 2 models need more ports than there are below 65536"),
        (
            TWO + "groups: {g: {members: [a, a]}}",
            '4:27: error: groups.g.members[1]: "a" is already in group g, line 4',
        ),
        (
            TWO + "groups: {g: {members: [bee]}}",
            '4:24: error: groups.g.members[0]: no model is called "bee". It is an alias: write "b"',
        ),
        (
            TWO + "  c: {cmd: 's ${PORT}', filters: {setParamsByID: {bee: {x: 1}}}}",
            '4:51: error: models.c.filters.setParamsByID.bee: "bee" is already used by models.b.aliases[0], line 3',
        ),
        (TWO + "  c: {cmd: 's ${PORT}', aliases: ['']}", "4:35: error: models.c.aliases[0]: a name must not be empty"),
        (TWO + "  c: {cmd: 's ${PORT}', urgency: 0}", "4:25: error: models.c.urgency: must be more than 0, not 0"),
        (
            TWO + "  c: {cmd: s, proxy: 'http://h:1', env: ['P=${PORT}']}",
            "4:36: error: models.c.env: env uses ${PORT}, but cmd does not",
        ),
        (TWO + "peers: {p: {proxy: 'http://p'}}", "4:9: error: peers.p.models: is missing"),
        (
            TWO + "allowedOrigins: ['*.example']",
            "4:18: error: allowedOrigins[0]: must be one origin, such as https://chat.example, or *",
        ),
        *(
            (
                TWO + f"allowedHosts: [{entry!r}]",
                "4:16: error: allowedHosts[0]: must be a host name such as models.example, .example for all names "
                "under it, or *",
            )
            for entry in ("https://models.example", "models.example/v1", "models.*", "*models.example", "", "a b")
        ),
        (TWO + "apiKeys: [{key: k, rol: admin}]", '4:20: error: apiKeys[0].rol: unknown key. Did you mean "role"?'),
        (
            TWO + "devices: {g: {memory: 1GiB, reserv: 0}}",
            '4:29: error: devices.g.reserv: unknown key. Did you mean "reserve"?',
        ),
        (TWO + "x: {y: 1}", "4:1: error: x: unknown key"),
        (
            TWO + "  c:\n    cmd: sh -c 'serve # ${PORT}'",
            "5:5: error: models.c.cmd: cannot be split into words: no closing quotation. Check the quotes; a # after a "
            'space begins a comment, unless the value stands below "cmd: |"',
        ),
        (
            TWO + "  c: {cmd: 's ${PORT}', timeouts: {keepalive: 32768}}",
            "4:36: error: models.c.timeouts.keepalive: must be at most 32767, not 32768",
        ),
        (
            TWO + "peers: {p: {proxy: 'http://p', models: [m], timeouts: {keepalive: 10h}}}",
            "4:56: error: peers.p.timeouts.keepalive: must be at most 32767, not 36000",
        ),
        (TWO + "globalTTL: 9999999h", '4:1: error: globalTTL: must be at most 100 years, not "9999999h"'),
        (
            TWO + "limits: {body: 99999999TiB}",
            '4:10: error: limits.body: must be at most 1048576 TiB, not "99999999TiB"',
        ),
        (TWO + "scheduler: {patience: inf}", '4:13: error: scheduler.patience: must be a number, not "inf"'),
        (TWO + "  c: {cmd: ' ', proxy: 'http://localhost:1'}", "4:7: error: models.c.cmd: contains no command"),
        (TWO + "  c: {cmd: 's ${PORT}', name: \"a\\0b\"}", "4:31: error: models.c.name: must not contain a NUL"),
        (
            TWO + "  c: {cmd: 's ${PORT}', env: {'A=': x}}",
            '4:25: error: models.c.env: "A=" cannot be the name of a variable',
        ),
        (
            TWO + "routing: {scheduler: {settings: {fifo: {priority: {c: 1}}}}}",
            '4:52: error: routing.scheduler.settings.fifo.priority.c: no model is called "c"',
        ),
        (TWO + "profiles: {p: {pins: [a]}}", "4:16: error: profiles.p.pins: must be a mapping, not a list"),
        (
            TWO + "sendLoadingState: maybe",
            '4:1: error: sendLoadingState: must be off, reasoning or comments, not "maybe"',
        ),
    ],
)
def test_a_mistake_is_the_only_problem(files: ConfigFiles, text: str, problem: str) -> None:
    """One mistake gives one error, at its position."""
    errors = [said for said in files.mistakes(text) if ": warning: " not in said]

    assert errors == [f"config.yaml:{problem}"]


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("models: {}", "1:1: warning: models: no model is defined"),
        (TWO + "captureBuffer: 5", "4:1: warning: captureBuffer: not used yet. Nothing is captured"),
        (
            TWO + "clientHeader: X-User",
            "4:1: warning: clientHeader: has no effect without trustedProxies. Add the proxy that sets it, "
            "such as `trustedProxies: [127.0.0.1]` for one on this machine",
        ),
        (TWO + "returnToDefault: yes", "4:1: warning: returnToDefault: has no effect without defaultModel"),
        (TWO + "logRequests: true", "4:1: warning: logRequests: ignored. It has no effect in llama-swap either"),
        (
            TWO + "routing: {router: {use: memory}}",
            "4:20: warning: routing.router.use: memory has no effect without devices. One model runs at a time",
        ),
        (
            TWO + "  c: {cmd: 's ${PORT}', memory: 1GiB}",
            "4:25: warning: models.c.memory: has no effect without devices",
        ),
        (
            TWO + "hooks: {on_startup: {preload: [a, b]}}",
            '4:22: warning: hooks.on_startup.preload: loading "b" unloads "a". Preload models that may run together',
        ),
        (
            TWO + "allowedHosts: [models.example, '*']",
            '4:32: warning: allowedHosts[1]: "*" accepts every Host header, so a malicious web page can use everything '
            "that needs no key (DNS rebinding); list the names that clients use instead",
        ),
        (
            TWO + "allowedOrigins: ['*']",
            '4:18: warning: allowedOrigins[0]: "*" lets any web page use your models; list the allowed origins instead',
        ),
        (
            TWO + "allowedOrigins: ['null']",
            '4:18: warning: allowedOrigins[0]: "null" is the origin of every sandboxed page, including those of '
            "model servers, so it may only use models",
        ),
        (
            TWO + "apiKeys: [the-key-of-somebody]",
            "4:11: note: apiKeys[0]: this key has full access. Use {key: …, role: inference} to restrict it",
        ),
    ],
)
def test_what_is_only_worth_a_word_does_not_keep_anybody_from_starting(
    files: ConfigFiles, text: str, warning: str
) -> None:
    """The file loads, and the warning says what happens instead."""
    assert files.warnings(text) == [f"config.yaml:{warning}"]


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("s ${PORT} && x", "&&"),
        ("s ${PORT} | x", "|"),
        ("s ${PORT} > log", ">"),
        ("s ${PORT} 2>&1", "2>&1"),
        ("s ${PORT} >>log", ">>log"),
        ("s ${PORT} $(pwd)", "$(pwd)"),
        ("s ${PORT} `pwd`", "`pwd`"),
        ("s ${PORT} # note", "#"),
    ],
)
def test_shell_operators_are_pointed_out(files: ConfigFiles, command: str, word: str) -> None:
    """No shell would interpret them."""
    assert files.warnings(f'models:\n  m:\n    cmd: "{command}"\n') == [
        f'config.yaml:3:5: warning: models.m.cmd: "{word}" is passed on unchanged: no shell is used.'
        " Use sh -c '…' if you need one"
    ]


def test_a_home_directory_that_only_a_shell_would_expand(files: ConfigFiles) -> None:
    """The server would look for a folder named `~`."""
    assert files.warnings("models:\n  m:\n    cmd: s -m ~/models/m.gguf ${PORT}\n") == [
        'config.yaml:3:5: warning: models.m.cmd: "~/models/m.gguf" is passed on unchanged: no shell is used.'
        " Write the full path, or ${env.HOME} instead of ~"
    ]


def test_a_key_that_stands_for_a_missing_one(files: ConfigFiles) -> None:
    """Of two similar keys, the one that the model lacks is suggested, and no other advice is given about its value."""
    assert files.mistakes("models:\n  m:\n    command: s ${PORT}\n") == [
        "config.yaml:2:3: error: models.m.cmd: is missing",
        'config.yaml:3:5: error: models.m.command: unknown key. Did you mean "cmd"?',
    ]


def test_a_shell_that_is_asked_for_is_nobodys_mistake(files: ConfigFiles) -> None:
    """`sh -c` interprets operators itself, and ssh has a shell on the other host."""
    assert files.warnings("models:\n  m:\n    cmd: /bin/bash -c 'exec s ${PORT} > /tmp/log' && echo\n") == []
    assert files.warnings("models:\n  m:\n    cmd: ssh gpu2 s -m ~/m.gguf ${PORT}\n") == []


def test_router_by_memory_is_what_devices_do_anyway(files: ConfigFiles) -> None:
    """With devices, `use: memory` gives no warning."""
    assert files.warnings(TWO + "devices: {gpu0: {memory: 1GiB}}\nrouting: {router: {use: memory}}") == []


def test_extension_keys_and_keys_of_anchors_are_not_checked(files: ConfigFiles) -> None:
    """`x-…`, `.…` and keys that only hold an anchor are not checked."""
    text = "x-mine: {any: thing}\n.hidden: 1\nshelf: &s {cmd: 's ${PORT}'}\nmodels: {m: *s}\n"

    assert files.warnings(text) == []


def test_an_unused_anchor_makes_no_key_valid(files: ConfigFiles) -> None:
    """An unused anchor does not make a misspelled key valid."""
    assert files.mistakes("modles: &m {a: 1}\n" + TWO) == [
        'config.yaml:1:1: error: modles: unknown key. Did you mean "models"?'
    ]


def test_lenient_reading_turns_unknown_keys_into_warnings(files: ConfigFiles) -> None:
    """Unknown keys are warnings at every level; other mistakes stay errors."""
    text = "lisen: x\nmodels:\n  m: {cmd: 's ${PORT}', tll: 5}\n"

    assert files.warnings(text, lenient=True) == [
        'config.yaml:1:1: warning: lisen: unknown key, ignored. Did you mean "listen"?',
        'config.yaml:3:25: warning: models.m.tll: unknown key, ignored. Did you mean "ttl"?',
    ]


STOP = "cmdStop: podman stop m"


@pytest.mark.parametrize(
    ("command", "stop", "said"),
    [
        ("docker run --rm -itd --name m", "cmdStop: docker stop m", "with --detach the command ends at once"),
        ("docker run --rm --detach=true --name m", "cmdStop: docker stop m", "Remove -d and --detach"),
        ("docker run --rm --name m", "", "Add cmdStop: docker stop m"),
        ("/usr/bin/podman run --rm", "", "and cmdStop: podman stop ${MODEL_ID}"),
        ("podman run --name=m", STOP, "the next start finds its name taken. Add --rm"),
        ("podman run --name=m --rm", STOP, ""),
        ("podman run --name=m --replace", STOP, ""),
        ("podman run --name=m --detach=false --rm", STOP, ""),
        ("podman run", STOP, ""),
        ("podman run --name m", "cmdStop: sh -c 'podman stop m; podman rm m'", ""),
        ("podman start --attach", "", ""),
    ],
)
def test_a_container_that_cannot_be_stopped_or_started_again(
    files: ConfigFiles, command: str, stop: str, said: str
) -> None:
    """A warning says which option is missing or too much, and a complete command gets none."""
    problems = "".join(files.warnings(f"models:\n  m:\n    cmd: {command} -p ${{PORT}}:80 image\n    {stop}\n"))

    assert said in problems
    assert bool(said) == bool(problems)


FREE = "devices: {gpu0: {memory: 24GiB}}\nmodels:\n"


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ("cmd: s, proxy: 'http://localhost:9'", "cmd: t, proxy: 'https://127.0.0.1:9/v2'", "address localhost:9"),
        ("cmd: s, proxy: 'http://[::1]:9000'", "cmd: t, proxy: 'http://localhost:9000'", "address localhost:9000"),
        ("cmd: s, proxy: 'http://0.0.0.0:9'", f"cmd: t, proxy: 'http://{gethostname()}:9'", "address localhost:9"),
        ("cmd: s, proxy: 'http://[::]:9'", "cmd: t, proxy: 'http://b.localhost:9'", "address localhost:9"),
        ("cmd: s, proxy: 'unix:/run/s'", "cmd: t, proxy: 'unix:/run/./a/..//s'", "address unix:/run/s"),
        (
            "cmd: 'docker run --rm --name one i ${PORT}', cmdStop: docker stop one",
            "cmd: 'podman run --rm --name=one j ${PORT}', cmdStop: podman stop one",
            "container name one",
        ),
    ],
)
def test_what_only_one_process_can_use(files: ConfigFiles, one: str, other: str, what: str) -> None:
    """Two models that use the same run one at a time, as if in a group, and one note says so."""
    loaded = files.load(f"{FREE}  a: {{{one}}}\n  b: {{{other}}}\n")
    hint = "Give each model its own to run them together"

    [note] = [problem for problem in loaded.problems if "one at a time" in problem.message]
    assert str(note) == f'config.yaml:4:3: note: models.b: uses the {what}, like "a", so they run one at a time. {hint}'
    assert loaded.catalog.groups.exclusive == {f"the {what}": ("a", "b")}
    assert concurrency(loaded.catalog)[1:] == [f"Of a, b one runs at a time, because all use the {what}."]


def test_what_each_process_has_for_itself(files: ConfigFiles) -> None:
    """A port or a name that is filled in at the start is another one each time; a server elsewhere may have many."""
    ours = "cmd: 'docker run --rm --name s-${PORT} i ${PORT}', cmdStop: docker stop s"
    elsewhere = "cmd: s, proxy: 'http://box:80'"
    loaded = files.load(f"{FREE}  a: {{{ours}}}\n  b: {{{ours}}}\n  c: {{{elsewhere}}}\n  d: {{{elsewhere}}}\n")

    assert not loaded.catalog.groups.exclusive


def test_models_on_one_address_that_run_one_at_a_time_anyway(files: ConfigFiles) -> None:
    """Nothing is noted where no group, set or memory would let them run together."""
    loaded = files.load("models:\n" + "".join(f"  {name}: {{cmd: s, proxy: 'http://localhost:1'}}\n" for name in "abc"))

    assert not loaded.problems
    assert loaded.catalog.groups.exclusive == {"the address localhost:1": ("a", "b", "c")}


@pytest.mark.parametrize(
    ("listen", "proxy", "meets"),
    [
        ("listen: 9000", "http://localhost:9000", "127.0.0.1:9000"),
        ("listen: ':9000'", "http://127.0.0.1:9000/v2", "0.0.0.0:9000"),
        ("listen: 9000", "http://0.0.0.0:9000", "127.0.0.1:9000"),
        ("ollama: {listen: 9000}", "http://[::1]:9000", "127.0.0.1:9000"),
        ("listen: '198.51.100.7:9000'", "http://198.51.100.7:9000", "198.51.100.7:9000"),
        ("listen: '198.51.100.7:9000'", "http://localhost:9000", ""),
        ("listen: ':9000'", "http://box:9000", ""),
        ("listen: 9000", "http://localhost:9001", ""),
        ("listen: 9000", "unix:/run/9000", ""),
    ],
)
def test_a_server_that_would_have_to_listen_where_hotseat_does(
    files: ConfigFiles, listen: str, proxy: str, meets: str
) -> None:
    """A warning, because the model can never start; at another address of this machine or elsewhere it can."""
    said = f"models.m.proxy: is an address of hotseat itself, which listens on {meets}"
    hint = "Use another port in cmd and proxy, or in listen"

    found = files.warnings(f"{listen}\nmodels:\n  m: {{cmd: s, proxy: '{proxy}'}}\n")
    assert found == ([f"config.yaml:3:15: warning: {said}. {hint}"] if meets else [])


@pytest.mark.parametrize(("proxy", "is_warned"), [("http://localhost:9000/v1", True), ("http://localhost:9001", False)])
def test_a_peer_that_is_hotseat_itself(files: ConfigFiles, proxy: str, is_warned: bool) -> None:
    """A warning, given once: its requests come back."""
    said = "peers.me.proxy: is an address of hotseat itself, which listens on 127.0.0.1:9000"
    hint = "Its requests would come back: remove the peer, or correct its address"

    found = files.warnings(f"{TWO}listen: 9000\npeers:\n  me: {{proxy: '{proxy}', models: [c, d]}}\n")
    assert found == ([f"config.yaml:6:8: warning: {said}. {hint}"] if is_warned else [])


def test_the_address_of_the_command_line_counts_instead_of_that_of_the_file(files: ConfigFiles) -> None:
    """The usual port of hotseat is free for a server if hotseat is started with another one."""
    file = files.write("config.yaml", "models: {m: {cmd: s, proxy: 'http://localhost:8080'}}")
    as_written, elsewhere = (read([file], environ={}, listen=listen) for listen in (None, ("127.0.0.1", 9292)))

    assert [problem.path for problem in as_written.problems] == ["models.m.proxy"]
    assert not elsewhere.problems
    assert elsewhere.settings.listen == ("127.0.0.1", 9292)


@pytest.mark.parametrize("name", ["''", r"'a\b'", '"a\\tb"', "'..'", "'a/../b'", "'./a'", "a/..", "'..;x/a'"])
def test_a_name_that_no_url_can_have(files: ConfigFiles, name: str) -> None:
    """Such a model could be used, but neither loaded nor unloaded; as an alias or an id it is refused, too."""
    [model] = files.mistakes(f"models:\n  {name}: {{cmd: 's ${{PORT}}'}}")
    [alias] = files.mistakes(f"models: {{a: {{cmd: 's ${{PORT}}', aliases: [{name}]}}}}")

    assert model.startswith("config.yaml:2:3: error: models")
    assert ": a name must not " in model
    assert alias.startswith("config.yaml:1:")
    assert ": a name must not " in alias


NAMES = st.text(st.sampled_from("a.;/\\\t %#?é\x7f"), max_size=6)


@settings(max_examples=by_depth(60, 2000))
@given(NAMES)
def test_a_model_whose_name_is_accepted_can_be_loaded_and_unloaded(name: str) -> None:
    """The path with its encoded name reaches the management API."""
    if not name or NOT_IN_URLS.search(name):
        return
    models = catalog(spec(name))
    for method, target in ((b"GET", f"/upstream/{quote(name)}/load"), (b"DELETE", f"/upstream/{quote(name)}")):
        found = find_destination(method, target.encode(), models)

        assert found.kind is PathKind.MANAGEMENT
        assert found.named_model == models.find(name)
