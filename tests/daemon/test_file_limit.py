"""How many clients the limit of file descriptors allows."""

from __future__ import annotations

import resource

import pytest

from hotseat.daemon.file_limit import most_connections


@pytest.mark.parametrize(("descriptors", "most"), [(1024, 266), (227, 1), (100, 1), (resource.RLIM_INFINITY, None)])
def test_each_client_costs_three_descriptors_beside_a_reserve(descriptors: int, most: int | None) -> None:
    """With the limit of many containers, 1,024, there are 266 clients; there is always one."""
    assert most_connections(descriptors) == most
