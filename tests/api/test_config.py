"""GET /hotseat/config: the active configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.config.reload import ConfigReport

if TYPE_CHECKING:
    from tests.support.management import Management


async def test_the_configuration_is_shown_with_its_warnings(rig: Management) -> None:
    """The response has the active configuration, its warnings, and the errors of a refused newer one."""
    rig.config_report = ConfigReport({"models": {"alpha": {"ttl": 5}}}, ("a warning",), ("an error",))
    report = (await rig.get("/hotseat/config")).json()

    assert report == {
        "resolved": {"models": {"alpha": {"ttl": 5}}},
        "warnings": ["a warning"],
        "reload_errors": ["an error"],
    }


async def test_the_configuration_cannot_be_written(rig: Management) -> None:
    """PUT /hotseat/config is 405: the configuration comes from its file only."""
    assert (await rig.client.put("/hotseat/config", json={})).status_code == 405
