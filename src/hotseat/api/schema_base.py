"""What all schemas of the API share."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Schema(BaseModel):
    """Its validator is built at its first use, since a start that built those of all routes would be slower."""

    model_config = ConfigDict(defer_build=True)


class Result(Schema):
    status: Literal["ok"] = "ok"
    message: str


class Failure(Schema):
    """A management call that failed; `message` and `error` have the same text."""

    status: Literal["error"] = "error"
    message: str
    error: str


class Error(Schema):
    error: str
