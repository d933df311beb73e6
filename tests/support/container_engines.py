"""A podman and a docker with their own storage, and an image with the real llama-server in it.

Podman finds its settings by two variables and docker's client its daemon by one, so commands are written as on any
machine. Both need root here, and a folder with a short path: podman's monitor fails where sockets have long ones.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.llama import MODELS, SERVER, present
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE = "llama-server"
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
LOADER = re.compile(rb"/[\w./-]+/ld-linux[\w.-]+")
PODMAN = """
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
tmp_dir = "{folder}/tmp"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
log_driver = "none"
"""
PODMANS_STORAGE = """
[storage]
driver = "vfs"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""


class ContainerEngine:
    def __init__(self, program: str, environ: dict[str, str]) -> None:
        self.program, self.environ = program, environ

    def run(self, *words: str, given: bytes = b"") -> str:
        """Standard output of a command of the engine; fails with its standard error."""
        env = {**os.environ, **self.environ}
        done = subprocess.run([self.program, *words], input=given, capture_output=True, env=env, timeout=120)
        assert done.returncode == 0, (words, done.stderr.decode())
        return done.stdout.decode()

    def import_image(self) -> None:
        entry = json.dumps([str(SERVER.resolve())])
        self.run("import", "--change", f"ENTRYPOINT {entry}", "-", IMAGE, given=archive())

    def containers(self) -> list[str]:
        """Names of all containers, including those that have ended."""
        return sorted(self.run("ps", "--all", "--format", "{{.Names}}").split())

    def pid(self, container: str) -> int:
        return int(self.run("inspect", "--format", "{{.State.Pid}}", container))

    def create(self, name: str) -> None:
        """A container that does not run."""
        self.run("create", "--name", name, "--network", "host", IMAGE)

    def remove_containers(self) -> None:
        for name in self.containers():
            self.run("rm", "--force", name)

    def model(self, name: str, weights: str = "alpha", options: str = "", **settings: object) -> dict[str, object]:
        """The configuration of a model whose llama-server runs in a container."""
        run = f"{self.program} run --rm --name {name} --network host -v {MODELS.resolve()}:/models:ro"
        server = f"-m /models/{weights}.gguf --port ${{PORT}} -c 8192 -t 1 -tb 1"
        command = f"{run} -e LLAMA_ARG_ALIAS {options} {IMAGE} {server}"
        return {"cmd": command, "cmdStop": f"{self.program} stop -t 5 {name}", **settings}


def installed(program: str) -> str:
    """A failure that says how to get it: a test that cannot run must not pass."""
    assert shutil.which(program), f"{program} is missing: .ci/run installs it on Debian"
    return program


@contextmanager
def podman(folder: Path) -> Iterator[ContainerEngine]:
    conf, storage = folder / "containers.conf", folder / "storage.conf"
    conf.write_text(PODMAN.format(folder=folder))
    storage.write_text(PODMANS_STORAGE.format(folder=folder))
    engine = ContainerEngine(
        installed("podman"), {"CONTAINERS_CONF": str(conf), "CONTAINERS_STORAGE_CONF": str(storage)}
    )
    yield engine
    engine.run("rmi", "--all", "--force")


@contextmanager
def docker(folder: Path) -> Iterator[ContainerEngine]:
    """With a daemon of its own, which does not touch the machine's network."""
    places = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    network = ["--bridge", "none", "--iptables=false", "--ip6tables=false", "--storage-driver", "vfs"]
    engine = ContainerEngine(installed("docker"), {"DOCKER_HOST": f"unix://{folder}/socket"})
    with (folder / "log").open("wb") as log:
        command = [installed("dockerd"), *places, *network, "--host", f"unix://{folder}/socket"]
        daemon = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        eventually(lambda: (folder / "socket").exists() or daemon.poll() is not None)
        assert daemon.poll() is None, (folder / "log").read_text()
        yield engine
    finally:
        daemon.terminate()
        daemon.wait()
        left = [folder / "exec/netns/default", folder / "data"]  # docker 28 leaves the second where mounts are private
        subprocess.run(["umount", *left], check=False, capture_output=True)


def archive() -> bytes:
    """llama-server with its libraries, where it expects them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for file in sorted(needed(present(SERVER).resolve())):
            tar.add(file.resolve(), str(file).lstrip("/"))
        for name in ("tmp", "proc", "sys", "dev", "etc"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(folder)
    return packed.getvalue()


def needed(server: Path) -> set[Path]:
    env = {**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}
    listed = subprocess.run([server], env=env, capture_output=True, text=True, check=True).stdout
    loader = LOADER.search(server.read_bytes())
    assert loader, f"{server} has no dynamic loader"
    libraries = {Path(found) for found in LIBRARY.findall(listed)}
    return {server, Path(loader[0].decode()), *libraries, *server.parent.glob("libggml-cpu-*.so")}
