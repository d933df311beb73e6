"""A warning for every server that failed to start or exited by itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hotseat.errors import with_output

if TYPE_CHECKING:
    from hotseat.scheduling.commands import ReportFailure

log = logging.getLogger(__name__)


def log_failure(failure: ReportFailure) -> None:
    error = with_output(failure.error, failure.output)
    fields = (failure.model, failure.after_s, failure.failures, failure.retry_in_s, error)
    if failure.is_crash:
        log.warning("model server crashed model=%s ready_s=%.2f failures=%d retry_in_s=%.0f error=%r", *fields)
    else:
        log.warning("model server failed to start model=%s took_s=%.2f failures=%d retry_in_s=%.0f error=%r", *fields)
