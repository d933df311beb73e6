"""Fixtures that drive the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import one_at_a_time
from tests.support.scheduler_driver import SchedulerDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.scheduler_driver import NewDriver

    from hotseat.catalog.catalog import Catalog


@pytest.fixture
def new_driver() -> Iterator[NewDriver]:
    """Makes drivers; at the end, each checks that every command was asserted."""
    drivers: list[SchedulerDriver] = []

    def open_driver(catalog: Catalog) -> SchedulerDriver:
        drivers.append(SchedulerDriver(catalog))
        return drivers[-1]

    yield open_driver
    for driver in drivers:
        driver.is_over()


@pytest.fixture
def driver(new_driver: NewDriver) -> SchedulerDriver:
    """Memory for one of qwen, llama and gemma at a time."""
    return new_driver(one_at_a_time("qwen", "llama", "gemma"))
