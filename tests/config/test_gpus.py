"""`gpus`: which cards a model may get, and what contradicts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hotseat.catalog.catalog import must_restart
from hotseat.catalog.spec import GpuChoice
from hotseat.config.effective import resolved
from hotseat.identifiers import ANY_GPU, LOCAL_HOST, DeviceName, Place

if TYPE_CHECKING:
    from tests.support.config_files import ConfigFiles

    from hotseat.catalog.spec import ModelSpec

GIB = 1 << 30
SIZES = {"gpu0": 24, "gpu1": 12, "gpu2": 24, "gpu3": 8, "ram": 64}
FOUR = f"devices: {{{', '.join(f'{name}: {{memory: {gib}GiB}}' for name, gib in SIZES.items())}}}\n"
LLAMA = "llama-server --port ${PORT} -m x.gguf"


def gpus(*numbers: int) -> tuple[Place, ...]:
    return tuple(Place(LOCAL_HOST, DeviceName(f"gpu{number}")) for number in numbers)


def text(keys: str, devices: str = FOUR, cmd: str = LLAMA) -> str:
    return f"{devices}models:\n  m:\n    cmd: {cmd}\n" + "".join(f"    {line}\n" for line in keys.splitlines())


def spec(files: ConfigFiles, keys: str, **more: str) -> ModelSpec:
    loaded = files.load(text(keys, **more))
    assert loaded.problems == ()
    return loaded.catalog.resolve("m")


@pytest.mark.parametrize(
    ("keys", "choice"),
    [
        ("", None),
        ("gpus:", None),
        ("gpus: auto", GpuChoice(None, gpus(0, 1, 2, 3))),
        ("gpus: 1", GpuChoice(1, gpus(0, 1, 2, 3))),
        ("gpus: '2'", GpuChoice(2, gpus(0, 1, 2, 3))),
        ("gpus: 4", GpuChoice(4, gpus(0, 1, 2, 3))),
        ("gpus: [gpu3, gpu1]", GpuChoice(2, gpus(1, 3))),
    ],
)
def test_the_cards_a_model_may_get(files: ConfigFiles, keys: str, choice: GpuChoice | None) -> None:
    """All of them or those of a list, in the order of the devices; the RAM is none."""
    assert spec(files, keys).gpus == choice


@pytest.mark.parametrize(
    ("keys", "shown"),
    [("", None), ("gpus: auto", "auto"), ("gpus: 2", 2), ("gpus: [gpu2, gpu0]", ["gpu0", "gpu2"])],
)
def test_the_effective_configuration_shows_them(files: ConfigFiles, keys: str, shown: object) -> None:
    """As they are written in a file."""
    assert resolved(files.load(text(keys)))["models"]["m"]["gpus"] == shown


def test_one_size_is_counted_on_the_cards_together(files: ConfigFiles) -> None:
    """Which ones is not known before the start."""
    assert spec(files, "gpus: auto\nmemory: 20GiB").memory == {ANY_GPU: 20 * GIB}


def test_declared_devices_may_be_named_again(files: ConfigFiles) -> None:
    """The memory stays as declared, and the server is limited to these cards."""
    found = spec(files, "gpus: [gpu2]\nmemory: {gpu2: 20GiB, ram: 1GiB}")

    assert found.gpus == GpuChoice(1, gpus(2))
    assert found.memory == {gpus(2)[0]: 20 * GIB, Place(LOCAL_HOST, DeviceName("ram")): GIB}
    assert not found.is_placed_at_start


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        *(
            (
                f"gpus: {value}",
                "5:5: error: models.m.gpus: must be auto, a number of cards or a list such as [gpu0, gpu1],"
                f" not {said}",
            )
            for value, said in (
                ("all", '"all"'),
                ("0", "0"),
                ("-1", "-1"),
                ("true", "true"),
                ("1.5", "1.5"),
                ("[]", "a list"),
                ("{gpu0: 1}", "a mapping"),
                ("[0]", "a list"),
                ("gpu0", '"gpu0"'),
            )
        ),
        ("gpus: [gpu0, gpi1]", '5:18: error: models.m.gpus[1]: no device is called "gpi1". Did you mean "gpu1"?'),
        ("gpus: [gpu0, gpu0]", '5:18: error: models.m.gpus[1]: "gpu0" is named twice'),
        ("gpus: [ram]", "5:12: error: models.m.gpus[0]: ram is not a GPU. GPUs: gpu0, gpu1, gpu2, gpu3"),
        ("gpus: 5", "5:5: error: models.m.gpus: asks for 5 GPUs, but devices has 4: gpu0, gpu1, gpu2, gpu3"),
        *(
            (
                f"gpus: {value}\nmemory: {memory}",
                "5:5: error: models.m.gpus: memory already says which devices the model uses."
                " Remove gpus, name the same devices, or declare memory as one size",
            )
            for value, memory in (
                ("auto", "{gpu1: 2GiB}"),
                ("1", "{gpu1: 2GiB}"),
                ("[gpu0]", "{gpu1: 2GiB}"),
                ("[gpu0, gpu1]", "{gpu1: 2GiB}"),
                ("auto", "{ram: 2GiB}"),
            )
        ),
        *(
            (
                f"gpus: auto\nenv: [{variable}=0]",
                f"6:5: error: models.m.env: sets {variable}, which wins over gpus."
                " Remove it, or remove gpus and declare memory per device",
            )
            for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
        ),
        (
            "env: {CARDS: '${GPUS}'}",
            "5:5: error: models.m.env: uses ${GPUS}, but gpus is not set."
            " Set gpus to auto, a number or a list of devices",
        ),
        (
            "cmdStop: stop ${GPUS}",
            "5:5: error: models.m.cmdStop: uses ${GPUS}, but gpus is not set."
            " Set gpus to auto, a number or a list of devices",
        ),
        (
            "gpus: auto\nproxy: http://h:1/${GPUS}",
            "6:5: error: models.m.proxy: ${GPUS} can only be used in cmd, cmdStop and env",
        ),
    ],
)
def test_a_mistake_has_one_error_with_its_place(files: ConfigFiles, keys: str, problem: str) -> None:
    """It says what to do."""
    assert files.mistakes(text(keys)) == [f"config.yaml:{problem}"]


@pytest.mark.parametrize(
    ("keys", "cmd", "warning"),
    [
        *(
            (
                "gpus: auto",
                f"{LLAMA} {option} 1",
                f"4:5: warning: models.m.cmd: {option} numbers the GPUs that the server sees, and gpus changes which"
                " these are. Remove it, or remove gpus and declare memory per device",
            )
            for option in ("-dev", "--device", "-mg", "--main-gpu", "-ts", "--tensor-split")
        ),
        (
            "gpus: auto\nmemory: 70GiB",
            LLAMA,
            "6:5: warning: models.m.memory: never fits: needs 70 GiB, budget of gpu0 and gpu1 and gpu2 and gpu3 is"
            " 68 GiB. Raise the budget or choose a smaller quantisation",
        ),
        (
            "gpus: 1\nmemory: 30GiB",
            LLAMA,
            "6:5: warning: models.m.memory: never fits: needs 30 GiB, budget of gpu0 is 24 GiB."
            " Raise the budget or choose a smaller quantisation",
        ),
        (
            "gpus: 2",
            "vllm serve /models/x --port ${PORT}",
            "5:5: warning: models.m.gpus: vLLM uses 1 of them (--tensor-parallel-size × --pipeline-parallel-size)."
            " Make both the same",
        ),
    ],
)
def test_what_may_be_meant_is_warned_about(files: ConfigFiles, keys: str, cmd: str, warning: str) -> None:
    """The configuration works, but perhaps not as intended."""
    assert files.warnings(text(keys, cmd=cmd)) == [f"config.yaml:{warning}"]


@pytest.mark.parametrize(
    ("program", "options", "hint"),
    [
        ("docker", "--gpus all", "Add --gpus '\"device=${GPUS}\"'"),
        ("podman", "--device nvidia.com/gpu=all", "Add ${GPUS}"),
        ("docker", "--gpus device=${GPUS}", ""),
        ("podman", "-e CUDA_VISIBLE_DEVICES", ""),
        ("podman", "--env-host", ""),
    ],
)
def test_a_container_that_does_not_know_the_choice(files: ConfigFiles, program: str, options: str, hint: str) -> None:
    """Variables do not enter it by themselves."""
    cmd = f"{program} run --rm --name m {options} ghcr.io/llama.cpp --port ${{PORT}} -m /m.gguf"
    warnings = files.warnings(text(f"gpus: auto\ncmdStop: {program} stop m", cmd=cmd))

    said = f"config.yaml:4:5: warning: models.m.cmd: {program} does not tell the server which GPUs were chosen. {hint}"
    assert [warning.partition(", or pass on")[0] for warning in warnings] == ([said] if hint else [])


@pytest.mark.parametrize(
    ("devices", "what"), [("", "devices"), ("devices: {ram: {memory: 8GiB}}\n", "a GPU under devices")]
)
def test_without_cards_it_has_no_effect(files: ConfigFiles, devices: str, what: str) -> None:
    """As `memory` has none; a command that needs the names is an error then."""
    line = 4 + bool(devices)
    plain = text("gpus: auto", devices)
    named = text("gpus: auto", devices, cmd=f"{LLAMA} --cards ${{GPUS}}")

    assert files.load(plain).catalog.resolve("m").gpus is None
    assert files.warnings(plain) == [f"config.yaml:{line}:5: warning: models.m.gpus: has no effect without {what}"]
    assert files.mistakes(named)[0] == (
        f"config.yaml:{line - 1}:5: error: models.m.cmd: uses ${{GPUS}}, which is unknown without {what}."
        " Set devices: auto"
    )


def test_the_command_may_set_the_variable_too(files: ConfigFiles) -> None:
    """`env NAME=value` before the server is found."""
    assert files.mistakes(text("gpus: auto", cmd=f"env CUDA_VISIBLE_DEVICES=0 {LLAMA}")) == [
        "config.yaml:4:5: error: models.m.cmd: sets CUDA_VISIBLE_DEVICES, which wins over gpus."
        " Remove it, or remove gpus and declare memory per device"
    ]


def test_a_variable_with_the_chosen_cards_is_welcome(files: ConfigFiles) -> None:
    """It says the same as hotseat's own."""
    found = spec(files, "gpus: auto\nenv: ['CUDA_VISIBLE_DEVICES=${GPUS}']")

    assert ("CUDA_VISIBLE_DEVICES", "${GPUS}") in found.recipe.env


@pytest.mark.parametrize(
    ("options", "keys", "choice"),
    [
        ("", "gpus: auto", GpuChoice(1, gpus(0, 1, 2, 3))),
        ("--tensor-parallel-size 2", "gpus: auto", GpuChoice(2, gpus(0, 1, 2, 3))),
        ("-tp 2 -pp 2", "gpus: 4", GpuChoice(4, gpus(0, 1, 2, 3))),
    ],
)
def test_vllm_says_itself_how_many_it_uses(files: ConfigFiles, options: str, keys: str, choice: GpuChoice) -> None:
    """It never spreads over more or fewer cards than its options say."""
    assert spec(files, keys, cmd=f"vllm serve /models/x --port ${{PORT}} {options}").gpus == choice


def test_a_process_gets_one_slice_of_a_card(files: ConfigFiles) -> None:
    """CUDA uses only one MIG instance per process."""
    devices = "devices: {gpu0.0: {memory: 20GiB}, gpu0.1: {memory: 20GiB}, gpu1: {memory: 20GiB}}\n"
    said = "CUDA uses one MIG instance per process. Write gpus: 1, or name one device"

    found = spec(files, "gpus: auto", devices=devices).gpus
    assert found is not None
    assert found.count == 1
    assert files.mistakes(text("gpus: 2", devices)) == [f"config.yaml:5:5: error: models.m.gpus: {said}"]
    assert files.mistakes(text("gpus: [gpu0.0, gpu1]", devices)) == [f"config.yaml:5:5: error: models.m.gpus: {said}"]


def test_macros_may_use_the_name(files: ConfigFiles) -> None:
    """A macro for containers leaves it open; a macro of that name is the file's own, as in files for llama-swap."""
    open_ = "macros: {docker: 'docker run --rm --name m --gpus device=${GPUS}'}\n" + FOUR
    own = "macros: {GPUS: '--gpus all'}\n"

    argv = files.load(text("gpus: auto\ncmdStop: docker stop m", open_, "${docker} x ${PORT}")).catalog.resolve("m")
    assert "device=${GPUS}" in argv.recipe.argv
    assert spec(files, "", devices=own, cmd="serve ${GPUS} ${PORT}").recipe.argv == (
        "serve",
        "--gpus",
        "all",
        "${PORT}",
    )


def test_no_device_is_called_like_all_of_them(files: ConfigFiles) -> None:
    """The name stands for the cards of a model together."""
    assert files.mistakes(text("", "devices: {gpus: {memory: 8GiB}}\n")) == [
        "config.yaml:1:11: error: devices.gpus: gpus is not the name of one device. Call it gpu0"
    ]


def test_other_cards_need_another_process(files: ConfigFiles) -> None:
    """A reload restarts the model."""
    before, after = spec(files, "gpus: auto"), spec(files, "gpus: 2")

    assert must_restart(before, after)
    assert not must_restart(after, spec(files, "gpus: 2\nttl: 5"))
