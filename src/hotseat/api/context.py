"""How a route reaches the house it serves."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from hotseat.api.house import House


def house_of(request: Request) -> House:
    house: House = request.app.state.house
    return house


Here = Annotated[House, Depends(house_of)]
