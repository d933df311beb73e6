"""Pin and ttl are set at run time, and are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.hotseat import Hotseat
from tests.support.llama import llama

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.llama

PATH = "/hotseat/models/alpha/overrides"


def overrides(hotseat: Hotseat) -> dict[str, Any]:
    return {each["model"]: each["overrides"] for each in hotseat.call("GET", "/hotseat/models").json()["models"]}


def test_what_is_set_survives_reload_and_restart(tmp_path: Path) -> None:
    """The configuration file is never written, and what is set for a model that is removed returns with it."""
    config = {"models": {"alpha": llama("alpha"), "beta": llama("beta")}}
    with Hotseat(config, tmp_path) as hotseat:
        written = hotseat.config.read_bytes()
        hotseat.load("alpha")
        assert hotseat.call("PUT", PATH, {"pinned": True, "ttl": 600}).status == 200
        refused = hotseat.chat("beta")
        assert hotseat.cli("reload").returncode == 0
        after_reload, ps, why = overrides(hotseat), hotseat.cli("ps"), hotseat.cli("why", "alpha")
        assert hotseat.config.read_bytes() == written
    with Hotseat(config, tmp_path) as hotseat:
        after_restart = overrides(hotseat)
        hotseat.write({"models": {"beta": llama("beta")}})
        assert hotseat.cli("reload").returncode == 0
        hotseat.write(config)
        assert hotseat.cli("reload").returncode == 0
        after_return = overrides(hotseat)

    said = "alpha is pinned, set at run time; the configuration says that it is not pinned"
    assert (refused.status, "which is pinned" in refused.json()["error"]) == (503, True)
    assert after_reload == after_restart == after_return == {"alpha": {"pinned": True, "ttl": 600.0}, "beta": None}
    assert said in ps.stdout
    assert said in why.stdout
