"""What all schemas of the API share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Schema(BaseModel):
    """Its validator is built at its first use, since a start that built those of all routes would be slower."""

    model_config = ConfigDict(defer_build=True)
