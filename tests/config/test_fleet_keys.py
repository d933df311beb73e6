"""The keys of a fleet: their meaning, their errors, and that no secret is ever shown."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from hotseat.catalog.spec import Replicas
from hotseat.config.crosscheck import refuse_to_serve
from hotseat.config.effective import resolved
from hotseat.config.fleet import refuse_fleet, with_address
from hotseat.identifiers import HostName, ModelName
from hotseat.settings import Access, Fleet, NatsLogin, Settings, TlsFiles

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

CMD = 'cmd: "serve ${PORT}"'
MODEL = f"models: {{qwen: {{{CMD}}}}}\n"
LISTEN = "listen: 10.0.0.5:8080\n"
NATS = ("nats://n1:4222",)
SECRET = "0123456789abcdef0123456789abcdef"


def fleet_in(files: ConfigFiles, text: str, environ: dict[str, str] | None = None) -> Fleet:
    fleet = files.load(f"{MODEL}{LISTEN}allowOpen: true\n{text}", environ).settings.fleet
    assert fleet is not None
    return fleet


def test_without_the_key_a_host_is_alone(files: ConfigFiles) -> None:
    """Without `fleet` nothing of a fleet is active."""
    assert files.load(MODEL).settings.fleet is None


def test_one_server_is_enough(files: ConfigFiles) -> None:
    """The host has the machine's name, and its address is where it listens."""
    fleet = fleet_in(files, f"fleet: {{nats: 'nats://n1:4222', secret: {SECRET}}}")

    assert fleet == Fleet(NATS, HostName(socket.gethostname()), secrets=(SECRET,))


def test_everything_that_can_be_said(files: ConfigFiles) -> None:
    """Every key reaches its setting."""
    text = """
fleet:
  nats: [n1, "tls://n2:4223"]
  name: gpu-1.lab
  prefix: staging_2
  address: https://gpu1.lab:8443/
  labels: {gpu: h100, rack: "7"}
  secret: ${env.FLEET}
  user: hotseat
  password: ${env.NATS}
  tls: {ca: ca.pem, cert: me.pem, key: me.key}
"""
    fleet = fleet_in(files, text, {"FLEET": "between-us", "NATS": "for-nats"})

    assert fleet == Fleet(
        ("nats://n1", "tls://n2:4223"),
        HostName("gpu-1.lab"),
        "https://gpu1.lab:8443",
        {"gpu": "h100", "rack": "7"},
        ("between-us",),
        NatsLogin("hotseat", "for-nats", ca="ca.pem", cert="me.pem", key="me.key"),
        "staging_2",
    )


@pytest.mark.parametrize("key", ["secret", "password"])
def test_secrets_may_stand_in_files_of_their_own(files: ConfigFiles, key: str) -> None:
    """The same forms as for clients' keys are valid."""
    files.write("word", "from-the-file\n").chmod(0o600)
    given = {"secret": SECRET, "user": "me", key: "{file: word}"}
    fleet = fleet_in(files, f"fleet: {{nats: n1, {', '.join(f'{name}: {value}' for name, value in given.items())}}}")

    assert "from-the-file" in (*fleet.secrets, fleet.login.password)


def test_a_password_for_nats_may_contain_spaces(files: ConfigFiles) -> None:
    """It is not sent in a header, unlike clients' keys: in quotes or in a file, every character counts."""
    files.write("word", "correct horse\n").chmod(0o600)
    quoted = fleet_in(files, f'fleet: {{nats: n1, secret: {SECRET}, user: me, password: "change me"}}')
    filed = fleet_in(files, f"fleet: {{nats: n1, secret: {SECRET}, user: me, password: {{file: word}}}}")

    assert quoted.login == NatsLogin("me", "change me")
    assert filed.login == NatsLogin("me", "correct horse")


def test_a_secret_may_be_replaced_by_another(files: ConfigFiles) -> None:
    """During a rotation two secrets are valid, each in any form."""
    files.write("word", f"{SECRET}\n").chmod(0o600)
    loaded = files.load(
        f"{MODEL}{LISTEN}allowOpen: true\nfleet: {{nats: n1, secret: ['${{env.NEW}}', {{file: word}}]}}",
        {"NEW": "n" * 32},
    )

    assert loaded.settings.fleet is not None
    assert loaded.settings.fleet.secrets == ("n" * 32, SECRET)
    assert loaded.withheld_env == {"NEW"}
    assert "n" * 32 not in json.dumps(resolved(loaded)) + repr(loaded.settings)


def test_a_short_secret_is_a_warning(files: ConfigFiles) -> None:
    """Anybody who can read NATS can try secrets on signed data without limit."""
    said = files.warnings(f"{MODEL}{LISTEN}allowOpen: true\nfleet: {{nats: n1, secret: [{SECRET}, hush]}}")

    assert [line for line in said if "fleet.secret[1]: is too short: anyone who reads NATS" in line]
    assert not [line for line in said if "fleet.secret[0]" in line]


def test_models_say_on_how_many_and_on_which_hosts(files: ConfigFiles) -> None:
    """The default is one replica at most, on any host; a minimum raises the maximum."""
    text = f"""
models:
  plain: {{{CMD}}}
  kept: {{{CMD}, replicas: {{min: 2}}}}
  spread: {{{CMD}, replicas: {{min: 1, max: 4}}, hosts: {{gpu: h100}}}}
{LISTEN}
allowOpen: true
fleet: {{nats: n1, secret: {SECRET}}}
"""
    models = files.load(text).catalog.models

    assert [spec.replicas for spec in models.values()] == [Replicas(0, 1), Replicas(2, 2), Replicas(1, 4)]
    assert models[ModelName("spread")].host_labels == {"gpu": "h100"}


def test_the_prefix_is_shown(files: ConfigFiles) -> None:
    """The effective configuration has it, also by default."""
    texts = [f"fleet: {{nats: n1, secret: {SECRET}{more}}}" for more in ("", ", prefix: staging")]
    shown = [resolved(files.load(f"{MODEL}{LISTEN}allowOpen: true\n{text}")) for text in texts]

    assert [each["settings"]["fleet"]["prefix"] for each in shown] == ["hotseat", "staging"]


# Mistakes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fleet: {}", "2:1: error: fleet.nats: is missing"),
        ("fleet: {nats: []}", "2:9: error: fleet.nats: must name a server"),
        ("fleet: {nats: 'http://n1'}", "2:9: error: fleet.nats: must be nats://host:port or tls://host:port"),
        (
            "fleet: {nats: n1, name: 'a b'}",
            "2:19: error: fleet.name: must consist of letters, digits, -, _ and inner dots",
        ),
        ("fleet: {nats: n1, address: 'gpu1:8080'}", "2:19: error: fleet.address: must be http://host:port or"),
        (
            "fleet: {nats: n1, address: 'http://gpu1:90004'}",
            "2:19: error: fleet.address: the port must be a number from",
        ),
        ("fleet: {nats: n1, address: 'http://10.0.0.300:80'}", '2:19: error: fleet.address: "10.0.0.300" is neither'),
        ("fleet: {nats: n1, address: 'http://me@gpu1:80'}", "2:19: error: fleet.address: must be scheme, host, port"),
        ("fleet: {nats: 'nats://n1:422200'}", "2:9: error: fleet.nats: the port must be a number from 1 to 65535"),
        ("fleet: {nats: 'n..1:4222'}", '2:9: error: fleet.nats: "n..1" is neither an IP address nor a host name'),
        ("peers: {far: {proxy: 'http://gpu1:90004', models: [m]}}", "2:15: error: peers.far.proxy: the port must be"),
        ("fleet: {nats: n1, secret: 'a b'}", "2:19: error: fleet.secret: a secret must not be empty or contain"),
        ("fleet: {nats: n1, secret: []}", "2:19: error: fleet.secret: must be one secret, or two during a"),
        ("fleet: {nats: n1, secret: [a, b, c]}", "2:19: error: fleet.secret: must be one secret, or two during a"),
        ("fleet: {nats: n1, secret: [a, '']}", "2:31: error: fleet.secret[1]: a secret must not be empty"),
        ("fleet: {nats: n1, secret: {file: nowhere}}", "2:28: error: fleet.secret.file: the file cannot be read"),
        (
            "fleet: {nats: n1, user: u, password: ''}",
            "2:28: error: fleet.password: must not be empty or contain control",
        ),
        (
            "fleet: {nats: n1, prefix: a.b}",
            "2:19: error: fleet.prefix: must consist of letters, digits, - and _, at most",
        ),
        (
            "fleet: {nats: n1, prefix: ''}",
            "2:19: error: fleet.prefix: must consist of letters, digits, - and _, at most",
        ),
        (f"fleet: {{nats: n1, prefix: {'p' * 65}}}", "2:19: error: fleet.prefix: must consist of letters, digits"),
        ("fleet: {nats: n1, password: p}", "2:19: error: fleet.password: a password needs a user"),
        (
            "fleet: {nats: n1, user: u, credentials: f}",
            "2:28: error: fleet.credentials: user and credentials cannot be",
        ),
        ("fleet: {nats: n1, tls: {key: f}}", "2:25: error: fleet.tls.key: a key needs its certificate"),
        ("fleet: {nats: n1, color: red}", "2:19: error: fleet.color: unknown key"),
        ("fleet: {nats: n1}", "2:1: error: fleet: secret is missing"),
        ("fleet: {nats: n1, secret: ''}", "2:19: error: fleet.secret: a secret must not be empty or contain"),
    ],
)
def test_mistakes_are_errors_with_their_place(files: ConfigFiles, text: str, problem: str) -> None:
    """Each error has the key, its position and a fix."""
    assert any(f"config.yaml:{problem}" in said for said in files.mistakes(f"{MODEL}{text}\n{LISTEN}"))


def test_a_password_in_an_address_is_refused_and_not_repeated(files: ConfigFiles) -> None:
    """URLs are shown to operators; secrets have keys of their own."""
    said = "\n".join(files.mistakes(f"{MODEL}fleet: {{nats: 'nats://me:hidden@n1'}}\n{LISTEN}"))

    assert "fleet.password" in said
    assert "hidden" not in said


def test_fewer_at_most_than_at_least(files: ConfigFiles) -> None:
    """A model cannot be kept on more hosts than it may be on."""
    text = f"models: {{qwen: {{{CMD}, replicas: {{min: 3, max: 2}}}}}}"

    assert any("models.qwen.replicas.max: must be at least min, which is 3" in said for said in files.mistakes(text))


def test_keys_without_effect_are_warnings(files: ConfigFiles) -> None:
    """Replicas have no effect without a fleet."""
    said = files.warnings(f"models: {{qwen: {{{CMD}, replicas: {{min: 1}}, hosts: {{a: b}}}}}}")

    assert [line.split(": ", 2)[2] for line in said] == [
        "models.qwen.replicas: has no effect without fleet",
        "models.qwen.hosts: has no effect without fleet",
    ]


def test_an_address_that_nobody_reaches_is_a_warning(files: ConfigFiles) -> None:
    """The default address is reachable from this machine only."""
    assert any(
        "fleet: other hosts cannot reach this one at 127.0.0.1:8080" in said
        for said in files.warnings(f"{MODEL}fleet: {{nats: n1, secret: {SECRET}}}")
    )


# Secrets


def test_secrets_are_shown_to_nobody(files: ConfigFiles) -> None:
    """Neither the effective configuration nor a command line shows them."""
    text = f"""
models:
  qwen: {{cmd: "serve ${{PORT}} between-us for-nats", env: [A=between-us]}}
{LISTEN}
allowOpen: true
fleet: {{nats: n1, secret: between-us, user: me, password: for-nats}}
"""
    loaded = files.load(text)

    assert "between-us" not in json.dumps(resolved(loaded)) + repr(loaded.settings)
    assert "for-nats" not in json.dumps(resolved(loaded)) + repr(loaded.settings)


def test_variables_with_secrets_are_withheld_from_model_servers(files: ConfigFiles) -> None:
    """Model servers must not have the fleet's secret."""
    text = f"{MODEL}{LISTEN}fleet: {{nats: n1, secret: '${{env.A}}', user: u, password: '${{env.B}}'}}\nallowOpen: true"
    loaded = files.load(text, {"A": "aaa", "B": "bbb"})

    assert loaded.withheld_env == {"A", "B"}


# Joining


def rig(host: str, address: str = "", nats: tuple[str, ...] = NATS, secrets: tuple[str, ...] = (SECRET,)) -> Settings:
    fleet = Fleet(nats, HostName("gpu1"), address, secrets=secrets)
    return Settings(listen=(host, 8080), access=Access(allow_open=True), fleet=fleet)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "localhost"])
def test_a_host_that_nobody_reaches_does_not_start(host: str) -> None:
    """The error says what to set, unless an address is given or NATS is on the same machine."""
    said = refuse_fleet(rig(host))

    assert said is not None
    assert "fleet.address" in said
    assert refuse_fleet(rig(host, "http://gpu1:8080")) is None
    assert refuse_fleet(rig(host, nats=("nats://127.0.0.1:4222",))) is None


def test_a_fleet_without_a_secret_does_not_start() -> None:
    """This also holds if only the command line names the fleet."""
    assert "fleet.secret" in (refuse_to_serve(rig("10.0.0.5", secrets=())) or "")
    assert refuse_to_serve(rig("10.0.0.5")) is None


def test_a_host_alone_is_refused_nothing() -> None:
    """Without a fleet nobody needs to reach this host."""
    assert refuse_fleet(Settings()) is None


@pytest.mark.parametrize(
    ("settings", "tls", "address"),
    [
        (rig("10.0.0.5"), False, "http://10.0.0.5:8080"),
        (rig("10.0.0.5"), True, "https://10.0.0.5:8080"),
        (rig("fd00::5"), False, "http://[fd00::5]:8080"),
        (rig("0.0.0.0", "https://gpu1:443"), False, "https://gpu1:443"),
        (rig("0.0.0.0", nats=("nats://localhost",)), False, "http://127.0.0.1:8080"),
    ],
)
def test_where_others_reach_us(settings: Settings, tls: bool, address: str) -> None:
    """The configured address, or the one it follows from."""
    fleet = with_address(structs.replace(settings, tls=TlsFiles(Path("cert.pem")) if tls else None)).fleet

    assert fleet is not None
    assert fleet.address == address
