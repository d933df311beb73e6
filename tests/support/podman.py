"""A podman with its own storage and an image with the real llama-server in it.

The settings are files that podman finds by two variables, so commands are written as on any machine.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.support.llama import MODELS, SERVER, present

IMAGE = "localhost/llama-server"
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
INTERPRETER = re.compile(rb"/[\w./-]+/ld-linux[\w.-]+")
ENGINE = """
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
STORAGE = """
[storage]
driver = "vfs"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""


class Podman:
    def __init__(self, folder: Path) -> None:
        self.environ = {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }
        (folder / "containers.conf").write_text(ENGINE.format(folder=folder))
        (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
        self._folder = folder

    def run(self, *words: str, given: bytes = b"") -> str:
        """Standard output of a podman command; fails with its standard error."""
        env = {**os.environ, **self.environ}
        done = subprocess.run(["podman", *words], input=given, capture_output=True, env=env, timeout=120)
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
        self.run("rm", "--all", "--force", "--time", "0")

    def remove_storage(self) -> None:
        self.run("rmi", "--all", "--force")
        shutil.rmtree(self._folder)


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
    loader = INTERPRETER.search(server.read_bytes())
    assert loader, f"{server} has no dynamic loader"
    libraries = {Path(found) for found in LIBRARY.findall(listed)}
    return {server, Path(loader[0].decode()), *libraries, *server.parent.glob("libggml-cpu-*.so")}


def container(name: str, weights: str = "alpha", options: str = "", **settings: object) -> dict[str, object]:
    """The configuration of a model whose llama-server runs in a container."""
    run = f"podman run --rm --name {name} --network host -v {MODELS.resolve()}:/models:ro -e LLAMA_ARG_ALIAS {options}"
    server = f"-m /models/{weights}.gguf --port ${{PORT}} -c 8192 -t 1 -tb 1"
    return {"cmd": f"{run} {IMAGE} {server}", "cmdStop": f"podman stop --time 5 {name}", **settings}
