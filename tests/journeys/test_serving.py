"""What `hotseat serve` refuses, and what a reload may not undo. No model server is needed for any of it."""

from __future__ import annotations

import http.client
import json
import logging
import resource
import socket
from resource import RLIM_INFINITY
from typing import TYPE_CHECKING

import pytest
from tests.support.certificate import CERTIFICATE
from tests.support.client import PATIENCE_S
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.host_headers import passed_on
from tests.support.hotseat import Hotseat
from tests.support.names import addresses_of
from tests.support.ports import free_port
from tests.support.waiting import eventually

from hotseat.app import serve
from hotseat.daemon.file_limit import OPEN_MAX, file_limit, raise_file_limit
from hotseat.net.listeners import bound
from hotseat.settings import TlsFiles
from hotseat.startup.preparation import FAILED, INVALID, ServeOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.client import Answer

CONFIG = "models: {qwen: {cmd: 'sleep 1000', proxy: 'http://127.0.0.1:9'}}\n"
TALKS = {"cmd": "sh -c 'echo I cannot; echo \\xff; exit 1'", "proxy": "http://127.0.0.1:9"}
KEY = {"Authorization": "Bearer open-sesame-please"}


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """`serve` makes the process log to the test's stdout, which is gone when the next test logs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    return file


def test_an_open_address_without_keys_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error of an open address says what to do instead."""
    code = serve(ServeOptions([config], listen=("0.0.0.0", 8080)))

    assert code == INVALID
    assert "allowOpen: true" in capsys.readouterr().err


def test_a_wrong_configuration_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every mistake is printed with its place."""
    config.write_text(CONFIG + "lisen: 8080\n")
    code = serve(ServeOptions([config]))

    assert code == INVALID
    assert f'{config}:2:1: error: lisen: unknown key. Did you mean "listen"?' in capsys.readouterr().err


def test_a_certificate_that_is_missing_is_an_error(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is served in the clear where https was asked for."""
    code = serve(ServeOptions([config], tls=TlsFiles(config.with_name("none.pem"))))

    assert code == INVALID
    assert f"Check {config.with_name('none.pem')}." in capsys.readouterr().err


def test_https_as_the_configuration_says(tmp_path: Path) -> None:
    """Clients that trust the certificate are served; the command line tells others why they are not."""
    cert = tmp_path / "cert.pem"
    for file in (cert, tmp_path / "trusted.pem"):
        file.write_text(CERTIFICATE)
    with HttpsHotseat({"tls": {"cert": str(cert)}, "models": {"qwen": TALKS}}, tmp_path) as rig:
        trusted, untrusted = rig.cli("list", **rig.trusting), rig.cli("list", HOTSEAT_URL=rig.trusting["HOTSEAT_URL"])
        cert.write_text("nothing")
        rig.write({"tls": {"cert": str(cert)}, "models": {"renamed": TALKS}})
        reloaded, after = rig.cli("reload", **rig.trusting), rig.cli("list", **rig.trusting)

    assert "qwen" in trusted.stdout
    assert "is not trusted (self-signed certificate); name its file or that of" in untrusted.stderr
    assert "reloaded, but not its certificate" in reloaded.stderr
    assert f"Check {cert}." in reloaded.stderr
    assert reloaded.returncode != 0
    assert "renamed" in after.stdout


class HttpsHotseat(Hotseat):
    @property
    def trusting(self) -> dict[str, str]:
        """What a client needs that trusts the certificate."""
        return {
            "HOTSEAT_URL": f"https://localhost:{self.port}",
            "SSL_CERT_FILE": str(self.config.with_name("trusted.pem")),
        }

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log()
        return self.cli("list", **self.trusting).returncode == 0


def test_a_port_in_use_is_an_error(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The address and the way out are named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = serve(ServeOptions([config], listen=("127.0.0.1", port)))

    assert code == FAILED
    assert (
        f"cannot listen on 127.0.0.1:{port}: Address already in use. `hotseat doctor` names" in capsys.readouterr().err
    )


def test_a_port_that_ollama_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its likely owner is named, and the key that chooses another address."""
    file = tmp_path / "config.yaml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file.write_text(f"ollama: {{listen: {port}}}\nmodels: {{}}\n")
        code = serve(ServeOptions([file], listen=("127.0.0.1", free_port())))
    said = capsys.readouterr().err

    assert code == FAILED
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use. Ollama itself probably runs" in said
    assert "with ollama.listen" in said


def test_both_addresses_are_the_same_by_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The start ends with one sentence, before a port is taken."""
    file, port = tmp_path / "config.yaml", free_port()
    file.write_text(f"ollama: {{listen: {port}}}\nmodels: {{}}\n")

    assert serve(ServeOptions([file], listen=("127.0.0.1", port))) == INVALID
    assert f"listen 127.0.0.1:{port} have the same port. Change one of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("soft", "hard", "asked"),
    [
        (1024, 4096, 4096),
        (256, RLIM_INFINITY, OPEN_MAX),
        (50_000, RLIM_INFINITY, 50_000),
        (RLIM_INFINITY, RLIM_INFINITY, RLIM_INFINITY),
    ],
)
def test_no_infinite_number_of_open_files_is_asked_for(soft: int, hard: int, asked: int) -> None:
    """macOS gives an infinite hard limit and refuses it as the soft one; a limit is never lowered."""
    assert file_limit(soft, hard) == asked


@pytest.mark.parametrize("refusal", [OSError(22, "Invalid argument"), ValueError("not allowed to raise it")])
def test_a_limit_that_cannot_be_raised_does_not_keep_it_from_starting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refusal: Exception
) -> None:
    """The log says that there will be fewer streams."""

    def refused(*_: object) -> None:
        raise refusal

    monkeypatch.setattr(resource, "setrlimit", refused)
    raise_file_limit()

    assert "the open file limit cannot be raised" in caplog.text


def bound_hosts(listen: tuple[str, int], *addresses: str) -> list[str]:
    """Where a name that stands for these addresses is bound; none: what this machine says."""
    sockets = bound(listen, addresses_of(*addresses)) if addresses else bound(listen)
    hosts = [str(sock.getsockname()[0]) for sock in sockets]
    for sock in sockets:
        sock.close()
    return hosts


def test_a_name_with_several_addresses_is_bound_on_each() -> None:
    """`localhost` is what this machine says it is."""
    hosts = bound_hosts(("localhost", 0))

    assert "127.0.0.1" in hosts
    assert len(hosts) == len(set(hosts))


def test_an_address_that_this_machine_does_not_have_is_left_out() -> None:
    """Many hosts files give `localhost` to ::1 also where IPv6 is off."""
    assert bound_hosts(("box.test", 0), "203.0.113.1", "127.0.0.1", "2001:db8::1", "127.0.0.1") == ["127.0.0.1"]


def test_a_name_without_an_address_of_this_machine_is_refused() -> None:
    """It would listen to nobody."""
    with pytest.raises(OSError, match="Cannot assign requested address"):
        bound_hosts(("box.test", 0), "203.0.113.1", "203.0.113.2")


def test_an_address_that_is_taken_is_not_left_out() -> None:
    """Half of the clients would reach somebody else."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="Address already in use"),
    ):
        bound_hosts(("box.test", taken.getsockname()[1]), "127.0.0.2", "127.0.0.1")


def test_every_address_of_a_name_is_answered(tmp_path: Path) -> None:
    """`listen: localhost:8080` must serve whoever looks it up."""
    with Hotseat({"models": {}}, tmp_path, host="localhost") as rig:
        found = socket.getaddrinfo("localhost", rig.port, type=socket.SOCK_STREAM)
        statuses = {rig.call("GET", "/health", at=str(address[0])).status for *_, address in found}

    assert statuses == {200}


def test_a_reload_does_not_open_the_address(tmp_path: Path) -> None:
    """Keys that protect an open address cannot be reloaded away: the old configuration stays in force."""
    models = {"qwen": {"cmd": "sleep 1000", "proxy": "http://127.0.0.1:9"}}
    with ForkedHotseat({"apiKeys": ["open-sesame-please"], "models": models}, tmp_path, host="0.0.0.0") as rig:
        rig.write({"models": models})
        reloaded = rig.call("POST", "/hotseat/reload", **KEY)
        without_key = rig.call("GET", "/running")

    assert reloaded.status == 422
    assert "no apiKeys are configured" in str(reloaded.json())
    assert without_key.status == 401


def test_a_reload_ends_what_a_removed_key_was_at(tmp_path: Path) -> None:
    """A feed that was opened with it is cut, and the log says so."""
    gone = {"key": "another-long-secret", "role": "operate"}
    with ForkedHotseat({"apiKeys": ["open-sesame-please", gone], "models": {}}, tmp_path) as rig:
        feed = http.client.HTTPConnection("127.0.0.1", rig.port, timeout=PATIENCE_S)
        feed.request("GET", "/hotseat/events", headers={"x-api-key": "another-long-secret"})
        answer = feed.getresponse()
        rig.write({"apiKeys": ["open-sesame-please"], "models": {}})
        reloaded = rig.call("POST", "/hotseat/reload", **KEY)
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
        feed.close()

    assert reloaded.status == 200
    assert "requests were aborted because the API keys no longer allow them" in rig.log()


def test_a_reload_that_adds_the_first_key_ends_anonymous_feeds(tmp_path: Path) -> None:
    """The feed is cut, and the anonymous client that asked for the reload still gets its result."""
    with ForkedHotseat({"models": {}}, tmp_path) as rig:
        feed = http.client.HTTPConnection("127.0.0.1", rig.port, timeout=PATIENCE_S)
        feed.request("GET", "/hotseat/events")
        answer = feed.getresponse()
        rig.write({"apiKeys": ["open-sesame-please"], "models": {}})
        reloaded = rig.call("POST", "/hotseat/reload")
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
        feed.close()

    assert reloaded.status == 200


def test_a_reload_says_what_needs_a_restart(tmp_path: Path) -> None:
    """The rest of it is applied, and what is shown as in force is what is in force."""
    with ForkedHotseat({"logFormat": "text", "models": {}}, tmp_path) as rig:
        fleet = {"nats": "nats://127.0.0.1:9", "secret": "s" * 32}
        rig.write({"logFormat": "text", "fleet": fleet, "models": {"q": TALKS}})
        reloaded = rig.call("POST", "/hotseat/reload")
        in_force = rig.call("GET", "/hotseat/config").json()["resolved"]

    assert reloaded.json()["added"] == ["q"]
    assert reloaded.json()["needs_restart"] == ["fleet"]
    assert "fleet" not in in_force
    assert "WARNING a change of fleet takes effect after a restart" in rig.log().splitlines()


def test_a_fleet_host_without_a_secret_does_not_start(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else a reload could give it keys while its secret stays empty, and an empty secret proves nothing."""
    config.write_text(CONFIG + "fleet: {nats: 'nats://127.0.0.1:9'}\n")
    code = serve(ServeOptions([config]))

    assert code == INVALID
    assert "secret" in capsys.readouterr().err


def claim(rig: Hotseat, path: str, secret: str, host: str) -> Answer:
    """What somebody is answered who asks as another host would."""
    lines = passed_on(None, path, method="GET", to=host, role="operate", secrets=(secret,))
    return rig.call("GET", path, **dict(line.split(": ", 1) for line in lines))


def test_a_reload_gives_nobody_a_way_past_the_keys(tmp_path: Path) -> None:
    """Keys that come with a reload hold for whoever claims to be a host, whatever the file now says of the secret."""
    fleet = {"nats": "nats://127.0.0.1:9", "secret": "o" * 32}
    with ForkedHotseat({"fleet": fleet, "models": {}}, tmp_path) as rig:
        rig.write({"fleet": {**fleet, "secret": "n" * 32}, "apiKeys": ["open-sesame-please"], "models": {}})
        reloaded = rig.call("POST", "/hotseat/reload")
        me = socket.gethostname()
        claimed = [claim(rig, "/hotseat/config", secret, me) for secret in ("", "n" * 32)]
        known = claim(rig, "/hotseat/config", "o" * 32, me)
        key = rig.call("GET", "/hotseat/config", **KEY)

    assert reloaded.status == 200
    assert [answer.status for answer in claimed] == [403, 403]
    assert known.status == 200
    assert key.status == 200


def test_a_changed_file_is_taken_up(tmp_path: Path) -> None:
    """With --watch-config nobody needs to say that the file was written."""
    models = {"qwen": {"cmd": "sleep 1000", "proxy": "http://127.0.0.1:9"}}
    with ForkedHotseat({"models": models}, tmp_path, options=("-watch-config",)) as rig:
        rig.write({"models": {"gemma": models["qwen"]}})
        listed = eventually(lambda: rig.call("GET", "/v1/models/gemma").status == 200)

    assert listed


@pytest.mark.parametrize("form", ["auto", "json"])
def test_off_a_terminal_the_log_is_json_throughout(tmp_path: Path, form: str) -> None:
    """From the first line to the last, the model servers' output included."""
    config = {"logToStdout": "both", "logFormat": form, "models": {"qwen": TALKS}}
    with ForkedHotseat(config, tmp_path) as rig:
        rig.call("GET", "/upstream/qwen/load")
        rig.terminate()
        log_lines = [json.loads(line) for line in rig.log().splitlines()]

    assert log_lines[0]["message"].endswith(f"serves 1 models from {rig.config}")
    assert "shutting down" in [line["message"] for line in log_lines]
    assert ("upstream", "I cannot") in [(line["logger"], line["message"]) for line in log_lines]
    assert [line["model"] for line in log_lines if line["message"] == "model server failed to start"] == ["qwen"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_output_of_a_model_server_cannot_act_on_the_terminal(tmp_path: Path, form: str) -> None:
    """What is copied to our own output has no escape in it, whatever the server writes."""
    writes = {"cmd": r"printf '\033]52;c;ZXZpbA==\007te\033[2Jxt\033]0;title'", "proxy": "http://127.0.0.1:9"}
    with ForkedHotseat({"logToStdout": "both", "logFormat": form, "models": {"qwen": writes}}, tmp_path) as rig:
        rig.call("GET", "/upstream/qwen/load")
        rig.terminate()

    assert "text0;title" in rig.log()
    assert "\x1b" not in rig.log()


def test_the_configuration_chooses_the_form_of_the_log(tmp_path: Path) -> None:
    """From the first line on, also after a reload."""
    with ForkedHotseat({"logFormat": "text", "models": {"qwen": TALKS}}, tmp_path) as rig:
        rig.cli("reload")
        rig.terminate()

    log_lines = rig.log().splitlines()
    assert "INFO configuration reloaded added=0 restarted=0 removed=0 keys=''" in log_lines
    assert log_lines[-1] == "INFO shutting down in_flight=0"
