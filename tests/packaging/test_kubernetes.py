"""The manifest for Kubernetes: its objects have Kubernetes' types, and the configurations in it are valid."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from lightkube.models import apps_v1, core_v1, networking_v1
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.hotseat import PROGRAM
from tests.support.llama import REPOSITORY
from tests.support.nats import PROGRAM as NATS
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANIFEST = REPOSITORY / "contrib/kubernetes/hotseat.yaml"
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFEST.read_text()))
TYPES: dict[str, Any] = {
    "v1/ConfigMap": core_v1.ConfigMap,
    "v1/Service": core_v1.Service,
    "apps/v1/StatefulSet": apps_v1.StatefulSet,
    "networking.k8s.io/v1/NetworkPolicy": networking_v1.NetworkPolicy,
}
SECRETS = ("admin-key", "fleet-secret", "nats-password")
SECRET = "0123456789abcdef" * 2


def as_understood(document: dict[str, Any]) -> object:
    """What remains of an object when it is read as its type: fields that Kubernetes does not know are lost."""
    kind = TYPES[f"{document['apiVersion']}/{document['kind']}"]
    return without_nothing(msgspec.to_builtins(msgspec.convert(document, kind)))


def without_nothing(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_nothing(each) for name, each in value.items() if each is not None}
    return [without_nothing(each) for each in value] if isinstance(value, list) else value


def named(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pods() -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in OBJECTS if each["kind"] == "StatefulSet"]


@pytest.mark.parametrize("document", OBJECTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_kubernetes_understands_every_field(document: dict[str, Any]) -> None:
    """Required fields are there, values have their types, and no field is unknown."""
    assert as_understood(document) == document


def test_a_misspelt_field_is_noticed() -> None:
    """The check above can fail."""
    document = msgspec.yaml.decode(msgspec.yaml.encode(named("StatefulSet", "hotseat")))
    document["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}

    assert as_understood(document) != document


@pytest.mark.parametrize("pod", pods(), ids=["hotseat", "nats"])
def test_a_pod_has_no_privileges(pod: dict[str, Any]) -> None:
    """It runs without root, on a read-only file system, and has no access to Kubernetes."""
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_pod_fits_the_image() -> None:
    """User, port and the folders that are written are those of the Dockerfile, which has no other."""
    pod, dockerfile = pods()[0], (REPOSITORY / "Dockerfile").read_text()
    (container,) = pod["containers"]
    written = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}

    assert f"\nUSER {pod['securityContext']['runAsUser']}\n" in dockerfile
    assert f"\nEXPOSE {container['ports'][0]['containerPort']}\n" in dockerfile
    assert written == {*re.findall(r"^VOLUME (\S+)$", dockerfile, re.MULTILINE), "/tmp"}


def test_probes_need_no_key() -> None:
    """The kubelet has none."""
    (container,) = pods()[0]["containers"]
    paths = [container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")]
    reference = (REPOSITORY / "docs/reference/http-api.md").read_text()

    assert paths == ["/hotseat/ready", "/health"]
    assert [path for path in paths if f"| `GET {path}` | none |" not in reference] == []


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of the manifest, with secrets and a program that exist here."""
    text = named("ConfigMap", "hotseat")["data"]["config.yaml"]
    config = tmp_path / "config.yaml"
    config.write_text(text.replace("/run/secrets/hotseat", str(tmp_path)).replace("llama-server", sys.executable))
    for name in SECRETS:
        (tmp_path / name).write_text(SECRET)
        (tmp_path / name).chmod(0o440)
    return config


def test_hotseat_accepts_the_configuration(config: Path) -> None:
    """With the variables and secrets of a pod, and without a warning."""
    variables = {entry["name"]: "10.0.0.1" for entry in pods()[0]["containers"][0]["env"]}
    done = subprocess.run([PROGRAM, "check", config], env={**os.environ, **variables}, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok: 1 model, 0 warnings.\n")


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[str]:
    """The three NATS servers of the manifest, with other ports; the address of one of them."""
    text = named("ConfigMap", "nats")["data"]["nats.conf"]
    ports = {f"nats-{n}": (free_port(), free_port(), free_port()) for n in range(3)}
    for pod, (_, _, route) in ports.items():
        text = text.replace(f"{pod}.nats:6222", f"127.0.0.1:{route}")
    with ExitStack() as running:
        for pod, (client, monitor, route) in ports.items():
            own = text.replace("/data", str(tmp_path / pod)).replace("http: 8222", f"http: 127.0.0.1:{monitor}")
            own = own.replace("0.0.0.0:4222", f"127.0.0.1:{client}").replace("0.0.0.0:6222", f"127.0.0.1:{route}")
            running.enter_context(nats_server(tmp_path / f"{pod}.conf", own, pod))
        yield f"nats://127.0.0.1:{ports['nats-0'][0]}"


@contextmanager
def nats_server(config: Path, text: str, pod: str) -> Iterator[None]:
    config.write_text(text)
    environ = {**os.environ, "POD_NAME": pod, "NATS_PASSWORD": SECRET}
    with subprocess.Popen([NATS, "-c", config], env=environ, stderr=subprocess.DEVNULL) as server:
        try:
            yield
        finally:
            server.kill()


def test_a_host_joins_its_fleet(config: Path, nats: str, tmp_path: Path) -> None:
    """NATS forms its cluster and lets the host in by its password; the probes of the pod succeed without a key."""
    config.write_text(config.read_text().replace("nats://nats:4222", nats))
    pod = {"HOST_NAME": "hotseat-0", "HOST_ADDRESS": "127.0.0.1"}
    with ForkedHotseat(config, tmp_path, environ=pod) as hotseat:
        eventually(lambda: hotseat.call("GET", "/hotseat/ready").json().get("fleet") == "connected", within=60)

        assert hotseat.call("GET", "/health").status == 200


def test_the_page_creates_every_secret() -> None:
    """Those that the configuration reads, and that NATS gets as a variable."""
    page = (REPOSITORY / "docs/howto/kubernetes.md").read_text()
    read = set(re.findall(r"/run/secrets/hotseat/([\w-]+)", MANIFEST.read_text()))

    assert read == set(SECRETS)
    assert [name for name in SECRETS if f"--from-literal={name}=" not in page] == []
