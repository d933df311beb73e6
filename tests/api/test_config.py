"""The configuration in force, as it may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.config.reload import ConfigReport

if TYPE_CHECKING:
    from tests.support.management import Management


async def test_the_configuration_is_told_with_its_complaints(rig: Management) -> None:
    """What is in force, what is doubtful about it, and why a newer one was refused."""
    rig.config_report = ConfigReport({"models": {"alpha": {"ttl": 5}}}, ("a warning",), ("an error",))
    told = (await rig.get("/hotseat/config")).json()

    assert told == {
        "resolved": {"models": {"alpha": {"ttl": 5}}},
        "warnings": ["a warning"],
        "reload_errors": ["an error"],
    }


async def test_the_configuration_cannot_be_written(rig: Management) -> None:
    """It comes from its file and from nowhere else."""
    assert (await rig.client.put("/hotseat/config", json={})).status_code == 405
