"""Loads the models that the configuration names for the startup."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hotseat.errors import HotseatError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import ModelName

log = logging.getLogger(__name__)


async def preload(dispatcher: Dispatcher, models: Iterable[ModelName]) -> None:
    for model in models:
        try:
            await dispatcher.operator.load(model)
        except HotseatError as error:
            log.warning("preload failed model=%s error=%r", model, error.message)
