"""`hotseat doctor` finds what is wrong, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import socket
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.support.machines import add_process, write
from tests.support.model_folders import put
from tests.support.ports import free_port

from hotseat.cli import doctor
from hotseat.cli.doctor import AMD, NVIDIA, State
from hotseat.model_servers import orphans, os_processes, ports
from hotseat.model_servers.os_processes import GUARD, MARKER
from hotseat.settings import Access, ApiKey, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import CommandLine, Typed


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "config.yaml"
    file.write_text(f"listen: 127.0.0.1:{free_port()}\nmodels: {{m: {{cmd: 'sleep ${{PORT}}'}}}}\n")
    return file


def test_a_program_that_two_commands_name_differently_is_one_line(typed: Typed, config: Path) -> None:
    """By its name and by its path."""
    path = shutil.which("sleep")
    config.write_text(f"models: {{a: {{cmd: 'sleep ${{PORT}}'}}, b: {{cmd: '{path} ${{PORT}}'}}}}\n")
    said = typed("doctor")

    assert said.out.count("ok    programs ") == 1


@pytest.mark.usefixtures("config")
def test_all_is_well(typed: Typed) -> None:
    """Each check prints one line, and the exit code is 0."""
    said = typed("doctor")

    assert said.code == 0, said.out
    assert "ok    configuration  1 model in config.yaml" in said.out
    assert shutil.which("sleep") in said.out  # type: ignore[operator]  # every Unix has it
    assert "fail" not in said.out


def test_a_mistake_is_a_finding_with_its_place(typed: Typed, config: Path) -> None:
    """Other checks run all the same, except those of the address, which is unknown."""
    config.write_text(f"modles: {{}}\nlisten: 127.0.0.1:{free_port()}\n")
    said = typed("doctor", "--json")

    findings = json.loads(said.out)
    assert said.code == 1
    assert findings[0]["state"] == "fail"
    assert "config.yaml:1:1" in findings[0]["message"]
    assert {"disk", "address", "exposure"} & {finding["check"] for finding in findings} == {"disk"}


def test_without_a_configuration_the_finding_has_the_next_step(typed: Typed, config: Path) -> None:
    """`hotseat init` writes one."""
    config.unlink()
    said = typed("doctor")

    assert said.code == 1
    assert "fail  configuration  config.yaml does not exist → create one with `hotseat init`" in said.out


def test_missing_programs_and_files_are_findings(typed: Typed, config: Path) -> None:
    """The finding names the model that needs them; of paths within containers, only mounted ones are checked."""
    config.write_text(
        "models:\n"
        "  a: {cmd: 'no-such-server ${PORT}'}\n"
        "  b: {cmd: 'sleep /nowhere/m.gguf ${PORT}'}\n"
        "  c: {cmd: 'docker run -v volume:/volume x -m /inside/m.gguf --draft /volume/m.gguf ${PORT}'}\n"
        "  d: {cmd: 'docker run -v /srv/none:/models x -m /models/m.gguf ${PORT}'}\n"
    )
    said = typed("doctor")

    assert said.code == 1
    assert 'fail  programs       no program named "no-such-server" on PATH; needed by a → install it' in said.out
    assert "fail  model files    /nowhere/m.gguf does not exist; needed by b → correct cmd" in said.out
    assert "fail  model files    /srv/none/m.gguf does not exist; needed by d → correct cmd" in said.out
    assert "/inside" not in said.out
    assert "volume" not in said.out


def test_relative_files_are_those_of_this_folder(typed: Typed, config: Path) -> None:
    """A ~ is not expanded by anybody. Names that are no files of this machine are not looked for."""
    put(config.parent / "models/there.gguf")
    config.write_text(
        "models:\n"
        "  a: {cmd: 'sleep -m models/there.gguf ${PORT}'}\n"
        "  b: {cmd: 'sleep -m models/gone.gguf --alias b.gguf ${PORT}'}\n"
        "  c: {cmd: 'sleep --mmproj ~/c.gguf ${PORT}'}\n"
        "  d: {cmd: 'sleep -m new.gguf --model-url http://127.0.0.1/d.gguf ${PORT}'}\n"
        "  e: {cmd: 'ssh other llama-server -m e.gguf --port ${PORT}'}\n"
        "  f: {cmd: 'sh -c \"exec llama-server --port ${PORT} -m f.gguf\"'}\n"
        "  g: {cmd: 'sleep --lora models/there.gguf,models/lost.gguf ${PORT}'}\n"
        "  h: {cmd: 'docker exec box llama-server -m h.gguf --port ${PORT}', cmdStop: 'true'}\n"
        "  i: {cmd: 'env --chdir=/srv llama-server -m i.gguf --port ${PORT}'}\n"
        "  j: {cmd: 'sleep -m /nowhere/j.gguf --alias sh ${PORT}'}\n"
    )
    missing = [each["message"] for each in json.loads(typed("doctor", "--json").out) if each["check"] == "model files"]

    assert missing == [
        f"models/gone.gguf in {config.parent} does not exist; needed by b",
        f"~/c.gguf in {config.parent} does not exist; needed by c",
        f"models/lost.gguf in {config.parent} does not exist; needed by g",
        "/nowhere/j.gguf does not exist; needed by j",
    ]


def test_an_address_in_use_is_a_finding(typed: Typed, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding names the process, if it is visible. The process accepts no connection, so nobody answers doctor."""
    monkeypatch.setattr("hotseat.cli.doctor.PATIENCE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config.write_text(f"listen: 127.0.0.1:{port}\nmodels: {{}}\n")
        said = typed("doctor")

    assert said.code == 1
    assert f"127.0.0.1:{port} is in use by " in said.out
    assert f"(pid {os.getpid()})" in said.out


async def test_a_hotseat_on_its_address_is_as_it_should_be(
    command_line: CommandLine, typed: Typed, config: Path
) -> None:
    """It is recognised by its answer if its process does not show what it is."""
    config.write_text(f"listen: {command_line.url.removeprefix('http://')}\nmodels: {{}}\n")
    said = await asyncio.to_thread(typed, "doctor")

    assert f"ok    address        hotseat is running on {command_line.url.removeprefix('http://')}" in said.out


async def test_a_model_that_fails_is_a_finding(command_line: CommandLine, typed: Typed, config: Path) -> None:
    """It has the count, the cause and where to look."""
    config.write_text(f"listen: {command_line.url.removeprefix('http://')}\nmodels: {{}}\n")
    before = await asyncio.to_thread(typed, "doctor")
    await command_line.type("load", "dud")
    said = await asyncio.to_thread(typed, "doctor")
    finding = "dud failed once; the next request starts it. dud exited with code 1 → see `hotseat logs dud`"

    assert "ok    models         no model is failing" in before.out
    assert f"fail  models         {finding}" in said.out
    assert said.code == 1


@pytest.mark.parametrize("command", ["See `hotseat logs dud`", "Install it, or correct `cmd`"])
async def test_a_failure_that_says_what_to_do(command_line: CommandLine, command: str) -> None:
    """The finding does not repeat it, and does not name the log of a server that printed nothing."""
    command_line.rig.launcher.failure = f"dud is not ready: it exited with code 1 while loading. {command}."
    await command_line.type("load", "dud")
    said = await command_line.type("doctor")

    assert f"it exited with code 1 while loading. {command}.\n" in said.out


@pytest.mark.usefixtures("config")
async def test_the_server_at_another_address_is_asked_about_its_models(command_line: CommandLine) -> None:
    """The address may be in HOTSEAT_URL, as for other commands; whether an address is free is about the file's."""
    await command_line.type("load", "dud")
    said = await command_line.type("doctor")

    assert "fail  models         dud failed once" in said.out
    assert " is free\n" in said.out


@pytest.mark.parametrize(
    ("access", "state"),
    [(Access(), State.FAIL), (Access(allow_open=True), State.WARN), (Access(api_keys=(ApiKey("k"),)), State.OK)],
)
def test_an_open_address_is_a_finding(access: Access, state: State) -> None:
    """The address is refused, allowed explicitly, or protected by keys."""
    [finding] = doctor.exposure(Settings(listen=("0.0.0.0", 8080), access=access))

    assert finding.state is state


def test_a_card_without_its_driver_is_a_warning(tmp_path: Path) -> None:
    """NVIDIA's driver has a version file, AMD's a device; other cards and devices are ignored."""
    for slot, kind, vendor in (("0", "0x030000", NVIDIA), ("1", "0x038000", AMD), ("2", "0x020000", NVIDIA)):
        put(tmp_path / slot / "class", f"{kind}\n".encode()), put(tmp_path / slot / "vendor", f"{vendor}\n".encode())
    version = put(tmp_path / "version", b"NVRM version: 580.65\nGCC version: 13\n")
    found = list(doctor.graphics(tmp_path, {NVIDIA: version, AMD: tmp_path / "kfd"}))
    nothing = list(doctor.graphics(tmp_path / "absent"))

    assert [(finding.state, finding.message) for finding in found] == [
        (State.WARN, "an AMD GPU is present, but its driver is not loaded"),
        (State.OK, "NVIDIA: NVRM version: 580.65"),
    ]
    assert [finding.state for finding in nothing] == [State.OK]


@pytest.mark.parametrize(("nvml", "state", "said"), [(object(), State.OK, "NVIDIA"), (None, State.WARN, "cannot read")])
def test_under_wsl_the_gpu_is_not_on_the_bus(tmp_path: Path, nvml: object, state: State, said: str) -> None:
    """Windows shares it through /dev/dxg, so the driver's library decides, and nobody is told that there is no GPU."""
    put(tmp_path / "pci/0/class", b"0x030200\n"), put(tmp_path / "pci/0/vendor", b"0x1414\n")
    [found] = doctor.graphics(tmp_path / "pci", dxg=put(tmp_path / "dxg", b""), nvml=lambda: nvml)

    assert found.state is state
    assert said in found.message


@pytest.mark.parametrize(("hard", "state"), [(1024, State.WARN), (65536, State.OK), (resource.RLIM_INFINITY, State.OK)])
def test_a_low_limit_of_open_files_is_a_warning(hard: int, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hard limit counts, because hotseat raises its own."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    [finding] = doctor.descriptors()

    assert finding.state is state


def test_too_little_disk_space_for_uploads_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free disk space below the largest allowed body is a warning."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free=1 << 20))
    [finding] = doctor.disk(Settings())

    assert finding.state is State.WARN
    assert finding.message.startswith("1 MiB free in ")


class Usage(NamedTuple):
    free: int


def test_a_server_without_its_guard_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It carries hotseat's mark and has no guard as ancestor. Written down, for any hotseat would end a real one."""
    for pid, parent, command in ((1, 0, b"init"), (5, 1, GUARD.encode()), (7, 1, b"server"), (8, 5, b"server")):
        add_process(tmp_path, pid, parent)
        write(tmp_path / f"{pid}/cmdline", command)
        write(tmp_path / f"{pid}/environ", f"{MARKER}=launch-{pid}" if command == b"server" else "")
    for module in (os_processes, orphans, ports, doctor):
        monkeypatch.setattr(module, "PROC", str(tmp_path))
    [finding] = doctor.orphans()

    assert (finding.state, finding.fix) == (State.WARN, "stop it: kill 7")
