"""What a real server sees of the GPUs that were chosen for it: its environment and its words."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.supervisor_rig import GUARD_INTERPRETER, SupervisorRig, command_for, model

from hotseat.identifiers import LOCAL_HOST, DeviceName, Place
from hotseat.model_servers.supervisor import open_supervisor
from hotseat.model_servers.visible_gpus import CardName, Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from hotseat.catalog.spec import ModelSpec

NVIDIA = {DeviceName(f"gpu{number}"): CardName(Runtime.CUDA, f"GPU-{number}-aaaa", number) for number in range(8)}
AMD = {
    DeviceName("gpu8"): CardName(Runtime.ROCM, "GPU-00000000000000ab"),
    DeviceName("gpu9"): CardName(Runtime.ROCM, "3"),
}
SLICE = {DeviceName("gpu10.1"): CardName(Runtime.CUDA, "MIG-1")}
INHERITED = {"CUDA_VISIBLE_DEVICES": "7", "HIP_VISIBLE_DEVICES": "5", "GPU_DEVICE_ORDINAL": "4"}


@asynccontextmanager
async def on_machine(names: Mapping[DeviceName, CardName]) -> AsyncIterator[SupervisorRig]:
    """hotseat itself was started with variables for some cards."""
    environ = {**os.environ, **INHERITED}
    async with open_supervisor(environ, interpreter=GUARD_INTERPRETER, card_names=lambda: names) as supervisor:
        yield SupervisorRig(supervisor)


@pytest.fixture
async def rig(nobody_is_left: None) -> AsyncIterator[SupervisorRig]:
    async with on_machine({**NVIDIA, **SLICE}) as rig:
        yield rig


def places(*devices: str) -> tuple[Place, ...]:
    return tuple(Place(LOCAL_HOST, DeviceName(device)) for device in devices)


async def seen_by(rig: SupervisorRig, spec: ModelSpec, *gpus: str) -> Mapping[str, str]:
    """The variables about GPUs that a server found in its environment."""
    await rig.ready(spec, places(*gpus))
    await rig.said("session ")  # the line after the environment
    variables = dict(line.split("=", 1) for line in rig.tail(1000) if "=" in line)
    wanted = ("VISIBLE_DEVICES", "DEVICE_ORDINAL", "CARDS")
    return {name: value for name, value in variables.items() if name.endswith(wanted)}


@pytest.mark.parametrize(
    ("gpus", "variables"),
    [
        (("gpu1",), {"CUDA_VISIBLE_DEVICES": "GPU-1-aaaa"}),
        (("gpu0", "gpu3"), {"CUDA_VISIBLE_DEVICES": "GPU-0-aaaa,GPU-3-aaaa"}),
        ((*NVIDIA,), {"CUDA_VISIBLE_DEVICES": ",".join(card.name for card in NVIDIA.values())}),
        (("gpu10.1",), {"CUDA_VISIBLE_DEVICES": "MIG-1"}),
        ((), INHERITED),
    ],
    ids=lambda value: "+".join(value) or "none" if isinstance(value, tuple) else "",
)
async def test_a_server_sees_its_cards_only(
    rig: SupervisorRig, gpus: tuple[str, ...], variables: Mapping[str, str]
) -> None:
    """hotseat's own variables give way, since they would number the cards that are left; without a choice they stay."""
    assert await seen_by(rig, model("prints_its_environment"), *gpus) == variables


@pytest.mark.parametrize(
    ("gpus", "variables"),
    [
        (("gpu8",), {"ROCR_VISIBLE_DEVICES": "GPU-00000000000000ab", "HIP_VISIBLE_DEVICES": "0"}),
        (("gpu8", "gpu9"), {"ROCR_VISIBLE_DEVICES": "GPU-00000000000000ab,3", "HIP_VISIBLE_DEVICES": "0,1"}),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "",
)
async def test_a_server_on_a_machine_with_amd_cards(
    nobody_is_left: None, gpus: tuple[str, ...], variables: Mapping[str, str]
) -> None:
    """ROCm's lower layer leaves the chosen cards, and its upper layer numbers them."""
    async with on_machine(AMD) as rig:
        assert await seen_by(rig, model("prints_its_environment"), *gpus) == variables


@pytest.mark.parametrize(
    ("gpus", "variables"),
    [
        (("gpu1",), {"CUDA_VISIBLE_DEVICES": "GPU-1-aaaa", "HIP_VISIBLE_DEVICES": "-1"}),
        (
            ("gpu8",),
            {
                "CUDA_VISIBLE_DEVICES": "",
                "ROCR_VISIBLE_DEVICES": "GPU-00000000000000ab",
                "HIP_VISIBLE_DEVICES": "0",
            },
        ),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "",
)
async def test_a_server_on_a_machine_with_cards_of_two_vendors(
    nobody_is_left: None, gpus: tuple[str, ...], variables: Mapping[str, str]
) -> None:
    """A server that is built for both sees no card of the vendor that was not chosen."""
    async with on_machine({**NVIDIA, **AMD}) as rig:
        assert await seen_by(rig, model("prints_its_environment"), *gpus) == variables


async def test_a_models_own_variable_wins(rig: SupervisorRig) -> None:
    """Whoever sets it knows better; `${GPUS}` puts the chosen cards into it."""
    env = (("CUDA_VISIBLE_DEVICES", "0"), ("CARDS", "of ${GPUS}"))
    seen = await seen_by(rig, model("prints_its_environment", env=env), "gpu1", "gpu2")

    assert seen == {"CUDA_VISIBLE_DEVICES": "0", "CARDS": "of GPU-1-aaaa,GPU-2-aaaa"}


@pytest.mark.parametrize(
    ("gpus", "value"), [(("gpu1", "gpu3"), "1,3"), (("gpu10.1",), "MIG-1"), (("gpu0", "gpu10.1"), "GPU-0-aaaa,MIG-1")]
)
async def test_vllm_gets_numbers(rig: SupervisorRig, gpus: tuple[str, ...], value: str) -> None:
    """Most of its versions cannot read UUIDs; a slice has no number."""
    argv = (*command_for("prints_its_environment", "${PORT}"), "vllm.entrypoints.openai.api_server")
    seen = await seen_by(rig, model("", argv=argv), *gpus)

    assert seen == {"CUDA_VISIBLE_DEVICES": value}


async def test_a_command_names_the_cards_for_a_container(rig: SupervisorRig) -> None:
    """The quotes of `docker run --gpus '"device=…"'` stay around all of them."""
    await rig.ready(model("prints_its_arguments", "--gpus", '"device=${GPUS}"'), places("gpu0", "gpu10.1"))

    assert (await rig.said("--gpus ")) == '"device=GPU-0-aaaa,MIG-1"'


async def test_the_stop_command_names_the_cards_too(rig: SupervisorRig, tmp_path: Path) -> None:
    """It gets the same names as the start."""
    stop = command_for("stop_politely", "${PID}", str(tmp_path / "${GPUS}"))
    ready = await rig.ready(model("healthy", stop=stop), places("gpu2"))
    await rig.end(ready)

    assert [note.name for note in tmp_path.iterdir()] == ["GPU-2-aaaa"]


async def test_a_card_that_no_driver_names_limits_nothing(rig: SupervisorRig, caplog: pytest.LogCaptureFixture) -> None:
    """The server sees all cards, the log says so, and `${GPUS}` has the names of the configuration."""
    seen = await seen_by(rig, model("prints_its_environment", env=(("CARDS", "${GPUS}"),)), "gpu0", "gpu77")

    assert seen == {**INHERITED, "CARDS": "GPU-0-aaaa,gpu77"}
    assert "server is not limited to its GPUs model=qwen unknown=gpu77" in caplog.text
