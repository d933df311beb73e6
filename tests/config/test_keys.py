"""The meaning of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotseat.catalog.catalog import Policy
from hotseat.catalog.groups import TOGETHER, Group
from hotseat.catalog.spec import LoadingState
from hotseat.config.document import Document
from hotseat.config.load import read
from hotseat.config.problems import Problems
from hotseat.config.specs import preferred_ports
from hotseat.config.validate import validate
from hotseat.identifiers import LOCAL_HOST, DeviceName, Place
from hotseat.settings import ApiKey, ErrorFormat, Limits, LogFormat, Logging, Role, Settings, SignIn

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

    from hotseat.catalog.spec import ModelSpec

MODEL = "models: {m: {cmd: 'server ${PORT}'}}\n"
GIB = 1 << 30


def model(files: ConfigFiles, keys: str, top: str = "") -> ModelSpec:
    return files.load(f"{top}\nmodels: {{m: {{cmd: 'server ${{PORT}}', {keys}}}}}").catalog.resolve("m")


def place(device: str) -> Place:
    return Place(LOCAL_HOST, DeviceName(device))


@pytest.mark.parametrize(
    ("keys", "field", "value"),
    [
        ("aliases: [a, b, a, m]", "aliases", ("a", "b")),
        ("name: A title", "title", "A title"),
        ("name: 4.10", "title", "4.10"),
        ("description: text", "description", "text"),
        ("unlisted: on", "unlisted", True),
        ("unlisted: off", "unlisted", False),
        ("healthCheckTimeout: 3", "health_check_timeout_s", 3.0),
        ("healthCheckTimeout: 500ms", "health_check_timeout_s", 0.5),
        ("healthCheckTimeout: 0", "health_check_timeout_s", None),
        ("unloadTimeout: 1m30s", "unload_timeout_s", 90.0),
        ("unloadTimeout: 0", "unload_timeout_s", 10.0),
        ("drainTimeout: 0", "drain_timeout_s", 0.0),
        ("maxRequestDuration: 5m", "max_request_s", 300.0),
        ("maxRequestDuration: 0", "max_request_s", None),
        ("ttl: 60", "ttl_s", 60.0),
        ("ttl: '60'", "ttl_s", 60.0),
        ("ttl: 0", "ttl_s", None),
        ("ttl: -1", "ttl_s", None),
        ("concurrencyLimit: 0", "concurrency_limit", None),
        ("concurrencyLimit: 3", "concurrency_limit", 3),
        ("urgency: 2", "urgency", 2.0),
        ("pinned: yes", "pinned", True),
    ],
)
def test_a_models_own_settings(files: ConfigFiles, keys: str, field: str, value: object) -> None:
    """Each key reaches its field of the spec."""
    assert getattr(model(files, keys), field) == value


@pytest.mark.parametrize(
    ("top", "keys", "field", "value"),
    [
        ("globalTTL: 5m", "", "ttl_s", 300.0),
        ("globalTTL: 5m", "ttl: -1", "ttl_s", 300.0),
        ("globalTTL: 5m", "ttl: 0", "ttl_s", None),
        ("globalTTL: 5m", "ttl: 7", "ttl_s", 7.0),
        ("healthCheckTimeout: 1", "", "health_check_timeout_s", 1.0),
        ("healthCheckTimeout: 1", "healthCheckTimeout: 2", "health_check_timeout_s", 2.0),
        ("unloadTimeout: 1", "", "unload_timeout_s", 1.0),
        ("unloadTimeout: 1", "unloadTimeout: 2", "unload_timeout_s", 2.0),
    ],
)
def test_a_global_setting_holds_where_a_model_says_nothing(
    files: ConfigFiles, top: str, keys: str, field: str, value: object
) -> None:
    """The model's own value wins."""
    assert getattr(model(files, keys, top), field) == value


@pytest.mark.parametrize(
    ("keys", "field", "value"),
    [
        ("checkEndpoint: /v1/models", "check_endpoint", "/v1/models"),
        ("checkEndpoint: ready", "check_endpoint", "/ready"),
        ("checkEndpoint: none", "check_endpoint", None),
        ("proxy: 'https://h:1/x'", "proxy", "https://h:1/x"),
        ("cmdStop: stop -t 1 'a b'", "stop", ("stop", "-t", "1", "a b")),
        ("cmdStop: ''", "stop", None),
        ("env: [A=1, B=x=y, C=]", "env", (("A", "1"), ("B", "x=y"), ("C", ""))),
        ("env: {A: 1.10, B: true, C: x}", "env", (("A", "1.10"), ("B", "true"), ("C", "x"))),
    ],
)
def test_how_a_server_is_started_and_found(files: ConfigFiles, keys: str, field: str, value: object) -> None:
    """Each key reaches the launch recipe."""
    assert getattr(model(files, keys).recipe, field) == value


@pytest.mark.parametrize(
    ("keys", "strip"),
    [
        ("stripParams: 'a, b ,model,,a'", ("a", "b")),
        ("stripParams: [a, b.c]", ("a", "b.c")),
        ("strip_params: x", ("x",)),
        ("stripParams: a, strip_params: x", ("a",)),
    ],
)
def test_members_to_strip(files: ConfigFiles, keys: str, strip: tuple[str, ...]) -> None:
    """A list or a comma-separated text, in either spelling; `model` is protected."""
    assert model(files, f"filters: {{{keys}}}").changes.strip == strip


def test_members_to_set(files: ConfigFiles) -> None:
    """Any JSON value, null included; `model` is protected."""
    changes = model(files, "useModelName: up, filters: {setParams: {a: null, b: [1], c: {d: x}, model: no}}").changes

    assert dict(changes.set) == {"a": None, "b": [1], "c": {"d": "x"}}
    assert changes.model_name == "up"


def test_keys_that_are_not_about_models(files: ConfigFiles) -> None:
    """Every key that is not about models or groups is in Settings."""
    text = """
listen: "[::1]:9000"
ollama: {listen: 11434}
allowOpen: true
allowedHosts: [models.example]
allowedOrigins: ["https://chat.example"]
trustedProxies: [10.1.2.3, 192.168.0.1/16]
clientHeader: X-User
signIn: {userHeader: X-Auth-User, roleHeader: X-Auth-Role}
apiKeys: [full-rights-key-0, {key: less-rights-key-0, role: operate}, {key: least-rights-key-0}]
errorFormat: text
metrics: off
includeAliasesInList: yes
logLevel: warn
logTimeFormat: kitchen
logToStdout: none
logFormat: json
activity: {keepDays: 0.5}
limits: {body: 1MB, jsonBody: 10, uploads: 5MB, idleTimeout: 3m}
passthrough: strict
upstream: {ignorePaths: ["a$"]}
"""
    settings = files.load(text + MODEL).settings

    assert settings.listen == ("::1", 9000)
    assert settings.ollama_listen == ("127.0.0.1", 11434)
    assert settings.access.allow_open
    assert settings.access.allowed_hosts == ("models.example",)
    assert settings.access.allowed_origins == ("https://chat.example",)
    assert settings.access.trusted_proxies == ("10.1.2.3/32", "192.168.0.0/16")
    assert settings.access.client_header == "X-User"
    assert settings.access.sign_in == SignIn("X-Auth-User", "X-Auth-Role")
    assert settings.access.api_keys == (
        ApiKey("full-rights-key-0", Role.ADMIN),
        ApiKey("less-rights-key-0", Role.OPERATE),
        ApiKey("least-rights-key-0", Role.INFERENCE),
    )  # fmt: skip
    assert settings.error_format is ErrorFormat.TEXT
    assert not settings.metrics
    assert settings.is_strict
    assert settings.include_aliases_in_list
    assert settings.logging == Logging("warn", "kitchen", "none", LogFormat.JSON)
    assert settings.activity_keep_s == 43_200.0
    assert settings.limits == Limits(1_000_000, 10, 5_000_000, 180.0)
    assert settings.ignore_paths == ("a$",)


def test_groups_in_both_places_mean_the_same(files: ConfigFiles) -> None:
    """Both keys have the same meaning."""
    groups = "groups: {g: {swap: no, exclusive: no, persistent: yes, members: [m]}, h: {}}"
    expected = (Group("g", swap=False, exclusive=False, persistent=True, members=("m",)), Group("h"))  # type: ignore[arg-type]

    assert files.load(MODEL + groups).catalog.groups.groups == expected
    assert files.load(f"{MODEL}routing: {{router: {{settings: {{{groups}}}}}}}").catalog.groups.groups == expected


def test_devices_turn_groups_of_one_into_a_budget(files: ConfigFiles) -> None:
    """The budget is memory minus reserve; models that fit stay resident."""
    text = "devices: {gpu0: {memory: 24GiB, reserve: 1GiB}, gpu1: {memory: 8GiB}}\n"
    catalog = files.load(text + MODEL).catalog

    assert catalog.budgets == {place("gpu0"): 23 * GIB, place("gpu1"): 8 * GIB}
    assert catalog.groups.default is TOGETHER


def test_settings_of_the_scheduler(files: ConfigFiles) -> None:
    """They hold for all models."""
    text = "scheduler: {patience: 3, maxQueue: 9}\nreadAhead: false\n"

    assert files.load(text + MODEL).catalog.policy == Policy(3.0, 9, reads_ahead=False)


def test_auto_devices_are_found(files: ConfigFiles) -> None:
    """The budget is what the machine has, and a plain size means its first device."""
    file = files.write("config.yaml", "devices: auto\nmodels: {m: {cmd: 'server ${PORT}', memory: 2GiB}}\n")
    found = {DeviceName("gpu0"): 23 * GIB, DeviceName("ram"): 56 * GIB}
    catalog = read([file], environ={}, find_devices=lambda: found).catalog

    assert catalog.budgets == {place("gpu0"): 23 * GIB, place("ram"): 56 * GIB}
    assert catalog.groups.default is TOGETHER
    assert catalog.resolve("m").memory == {place("gpu0"): 2 * GIB}


def test_programs_that_have_precedence(files: ConfigFiles) -> None:
    """Names match as shell patterns."""
    assert files.load(MODEL + "yieldTo: [game.exe, blender*]").settings.yield_to == ("game.exe", "blender*")


def test_further_paths_for_inference(files: ConfigFiles) -> None:
    """Each is one plain path."""
    assert files.load(MODEL + "inferencePaths: [/my/generate]").settings.inference_paths == ("/my/generate",)
    for wrong in ("generate", "/a b", "/a?b", "/a%2Fb", "/../x y", ""):
        (mistake,) = files.mistakes(MODEL + f'inferencePaths: ["{wrong}"]')

        assert "inferencePaths[0]: must be one path that begins with a slash" in mistake


@pytest.mark.parametrize(
    ("keys", "memory"),
    [
        ("memory: 2GiB", {place("gpu1"): 2 * GIB}),
        ("memory: 1024", {place("gpu1"): 1024}),
        ("memory: {gpu0: 1GiB, gpu1: 512MiB}", {place("gpu0"): GIB, place("gpu1"): GIB // 2}),
        ("ttl: 1", None),
    ],
)
def test_memory_is_on_the_first_device_or_where_it_says(files: ConfigFiles, keys: str, memory: Any) -> None:
    """A plain size means the first device of the file."""
    assert model(files, keys, "devices: {gpu1: {memory: 4GiB}, gpu0: {memory: 4GiB}}").memory == memory


@pytest.mark.parametrize(
    ("everywhere", "here", "meant"),
    [
        ("", "", LoadingState.OFF),
        ("true", "", LoadingState.REASONING),
        ("reasoning", "", LoadingState.REASONING),
        ("comments", "", LoadingState.COMMENTS),
        ("comments", "true", LoadingState.REASONING),
        ("comments", "false", LoadingState.OFF),
        ("comments", "off", LoadingState.OFF),
        ("", "comments", LoadingState.COMMENTS),
    ],
)
def test_what_waiting_clients_are_sent(files: ConfigFiles, everywhere: str, here: str, meant: LoadingState) -> None:
    """A model's own value wins over the global one; true and false mean the same as in llama-swap."""
    spec = model(files, f"sendLoadingState: {here}", f"sendLoadingState: {everywhere}")

    assert spec.loading_state is meant


def test_preload_and_default_may_use_aliases(files: ConfigFiles) -> None:
    """They are stored under the models' own names, each once."""
    text = "models: {m: {cmd: 'server ${PORT}', aliases: [a]}}\ndefaultModel: a\nhooks: {on_startup: {preload: [a, m]}}"
    catalog = files.load(text).catalog

    assert catalog.default_model == "m"
    assert not catalog.returns_to_default
    assert files.load(text + "\nreturnToDefault: yes").catalog.returns_to_default
    assert catalog.preload == ("m",)


def test_ports_are_counted_in_the_order_of_the_names(files: ConfigFiles) -> None:
    """Only models that ask for a port get a number, and only with startPort."""
    asking = "models: {b: {cmd: 's ${PORT}'}, a: {cmd: 's ${PORT}'}, C: {cmd: 's ${PORT}'}, "
    models = asking + "aa: {cmd: s, proxy: 'http://h:1'}}"
    counted = files.load("startPort: 5800\n" + models).catalog.models.values()
    free = files.load(models).catalog.models.values()

    assert {spec.name: spec.recipe.preferred_port for spec in counted} == {"C": 5800, "a": 5801, "aa": None, "b": 5802}
    assert {spec.recipe.preferred_port for spec in free} == {None}


@given(
    start=st.integers(1, 60000),
    asking=st.dictionaries(st.text(min_size=1, max_size=8), st.booleans(), min_size=1, max_size=12),
)
def test_preferred_ports_equal_a_counter_over_sorted_names(start: int, asking: dict[str, bool]) -> None:
    """For any names: sorted, counted from startPort, skipping models that do not ask."""
    models = {name: {"cmd": "s ${PORT}" if asks else "s"} for name, asks in asking.items()}
    config = validate({"startPort": start, "models": models}, Document({}), Problems("f"), lenient=False)
    assert config is not None

    ports = preferred_ports(config)

    assert [ports[name] for name in sorted(asking) if asking[name]] == [*range(start, start + sum(asking.values()))]
    assert set(ports) == {name for name, asks in asking.items() if asks}


def test_a_file_with_every_default_written_out_equals_the_shortest_one(files: ConfigFiles) -> None:
    """The defaults are those of the reference, and writing them out changes nothing and gives no warning."""
    written = """
listen: 127.0.0.1:8080
ollama: {}
allowOpen: false
allowedHosts: []
allowedOrigins: []
trustedProxies: []
clientHeader: ""
apiKeys: []
errorFormat: auto
metrics: true
scheduler: {patience: 2, maxQueue: 512}
devices: {}
limits: {body: 1GiB, jsonBody: 16MiB, uploads: 0, idleTimeout: 60}
healthCheckTimeout: 0
globalTTL: 0
unloadTimeout: 10
logLevel: info
logTimeFormat: ""
logToStdout: proxy
logFormat: auto
activity: {keepDays: 0}
conversations: off
logRequests: false
metricsMaxInMemory: 1000
captureBuffer: 0
store: {path: ""}
ui: {activity: {session_id: [X-Session-ID, X-Litellm-Session-Id]}}
performance: {disabled: false, every: 5}
sendLoadingState: false
includeAliasesInList: false
macros: {}
profiles: {}
selectors: {}
groups: {}
hooks: {on_startup: {preload: []}}
peers: {}
upstream: {ignorePaths: ['\\.(js|json|css|png|gif|jpg|jpeg|ico|txt)$']}
models:
  m:
    cmd: server ${PORT}
    cmdStop: ""
    proxy: http://localhost:${PORT}
    checkEndpoint: /health
    healthCheckTimeout: 0
    ttl: -1
    unloadTimeout: 0
    drainTimeout: 10
    aliases: []
    name: ""
    description: ""
    unlisted: false
    metadata: {}
    capabilities: {in: [], out: [], tools: false, reranker: false, context: 0}
    env: []
    useModelName: ""
    filters: {stripParams: "", strip_params: "", setParams: {}, setParamsByID: {}}
    concurrencyLimit: 0
    sendLoadingState: off
    timeouts: {connect: 30, keepalive: 30, responseHeader: 0, tlsHandshake: 10, expectContinue: 1, idleConn: 90}
    compat: {ignoreWebsockets: false}
    macros: {}
    memory: ~
    urgency: 1
    pinned: false
"""
    long, short = files.load(written), files.load(MODEL)

    assert (long.catalog, long.settings) == (short.catalog, short.settings)
    assert short.settings == Settings()
    assert long.problems == short.problems == ()


def test_a_key_without_a_value_counts_as_absent(files: ConfigFiles) -> None:
    """A key whose lines are commented out has no effect."""
    top = "groups:\nhooks:\n  on_startup:\nlisten:\n"
    text = top + "models:\n  m:\n    cmd: server ${PORT}\n    aliases:\n    env:\n    ttl:\n"

    assert files.load(text).catalog == files.load(MODEL).catalog
