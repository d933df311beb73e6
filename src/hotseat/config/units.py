"""Durations, sizes and addresses as people write them: pydantic types with a matching JSON Schema."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from math import inf, isnan
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, InstanceOf, WithJsonSchema

from hotseat.catalog.template import check_host
from hotseat.identifiers import CENTURY_S
from hotseat.settings import BUDGET, Budget

LONGEST_KEEPALIVE_S = 32_767.0
"""The maximum that Linux accepts."""
LARGEST = 1 << 60

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?", re.IGNORECASE)
_BYTES = {"": 1, **{f"{unit}i": 1 << 10 * n for n, unit in enumerate("kmgt", 1)}}
_BYTES |= {unit: 1000**n for n, unit in enumerate("kmgt", 1)}


def parse_duration(value: Any) -> float:
    """Seconds from `90`, `90s`, `1h30m` or `500ms`; a century at most, which is what clocks can be set to."""
    try:
        seconds = _seconds(value)
    except OverflowError:
        seconds = inf
    if isnan(seconds) or abs(seconds) > CENTURY_S:
        raise ValueError(f"must be at most 100 years, not {shown(value)}")
    return seconds


def _seconds(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = str(value).strip()
    if re.fullmatch(r"-?\d+(\.\d+)?", text):
        return float(text)
    if not isinstance(value, str) or not _DURATION.fullmatch(text):
        raise ValueError(f"must be a duration such as 90, 90s, 5m or 1h30m, not {shown(value)}")
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))


def parse_size(value: Any) -> int:
    """Bytes from `1024`, `18GiB` or `24GB`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        value = str(min(value, 10 * LARGEST))
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if not found:
        raise ValueError(f"must be a size such as 18GiB, 24GB or a number of bytes, not {shown(value)}")
    if found[2] and not found[0].upper().endswith("B"):
        binary, decimal = (found[1] + found[2][0].upper() + unit for unit in ("iB", "B"))
        raise ValueError(f"{shown(value)} is ambiguous: write {binary} or {decimal}")
    size = float(found[1]) * _BYTES[(found[2] or "").lower()]
    if size > LARGEST:
        raise ValueError(f"must be at most {size_text(LARGEST)}, not {shown(value)}")
    return int(size)


def parse_budget(value: Any) -> Budget | None:
    """`100/min`, `2M/day` or nothing, which is no limit."""
    return None if value is None else Budget.of(value if isinstance(value, str) else shown(value))


def parse_listen(value: Any) -> tuple[str, int]:
    """Host and port from `127.0.0.1:8080`, `[::1]:8080`, `:8080` (every interface) or `8080` (this machine)."""
    found = re.fullmatch(r"(?:(\[[^\]]+\]|[^:\[\]]*):)?(\d{1,5})", str(value))
    if not found or int(found[2]) > 65535:
        raise ValueError(f"must be host:port such as 127.0.0.1:8080, not {shown(value)}")
    if found[1] is None:
        return "127.0.0.1", int(found[2])
    host = found[1].strip("[]")
    check_host(host)
    return host or "0.0.0.0", int(found[2])


def address_text(address: tuple[str, int]) -> str:
    """As `parse_listen` reads it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_network(value: Any) -> str:
    try:
        return str(ip_network(str(value), strict=False))
    except ValueError:
        raise ValueError(f"must be an address or a network such as 10.0.0.0/8, not {shown(value)}") from None


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def shown(value: Any) -> str:
    """A value as an error message quotes it: short, and only the type for lists and mappings."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return f'"{text if len(text) <= 40 else text[:37] + "..."}"' if isinstance(value, str) else text


def size_text(size: int) -> str:
    """`18 GiB`: the shortest form that is exact to a tenth."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"


def _at_least(least: float, value: float) -> float:
    if value < least:
        raise ValueError(f"must be at least {least:g}, not {value:g}")
    return value


def _at_most(most: float, value: float) -> float:
    if value > most:
        raise ValueError(f"must be at most {most:g}, not {value:g}")
    return value


_DURATION_SCHEMA = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
    ],
    "examples": [90, "90s", "5m", "1h30m", "500ms"],
}
_TTL_SCHEMA = {**_DURATION_SCHEMA, "anyOf": [{"type": "number", "minimum": -1}, *_DURATION_SCHEMA["anyOf"][1:]]}
SIZE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?\s*([KMGTkmgt]i?)?[Bb]?$"},
    ],
    "examples": ["18GiB", "24GB", "512MiB", 1073741824],
}
_BUDGET_SCHEMA = {
    "type": "string",
    "pattern": f"^{BUDGET}$",
    "examples": ["100/min", "2M/day"],
}
SWITCH_SCHEMA: dict[str, Any] = {"anyOf": [{"type": "boolean"}, {"enum": ["yes", "no", "on", "off", "true", "false"]}]}
_LISTEN_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "integer"}], "examples": ["127.0.0.1:8080", ":8080"]}

Duration: TypeAlias = Annotated[
    float, BeforeValidator(lambda value: _at_least(0, parse_duration(value))), WithJsonSchema(_DURATION_SCHEMA)
]
Ttl: TypeAlias = Annotated[
    float, BeforeValidator(lambda value: _at_least(-1, parse_duration(value))), WithJsonSchema(_TTL_SCHEMA)
]
KeepAlive: TypeAlias = Annotated[Duration, AfterValidator(lambda value: _at_most(LONGEST_KEEPALIVE_S, value))]
Size: TypeAlias = Annotated[int, BeforeValidator(parse_size), WithJsonSchema(SIZE_SCHEMA)]
OptionalBudget: TypeAlias = Annotated[
    InstanceOf[Budget] | None, BeforeValidator(parse_budget), WithJsonSchema(_BUDGET_SCHEMA)
]
Switch: TypeAlias = Annotated[bool, WithJsonSchema(SWITCH_SCHEMA)]
"""A boolean that may also be written yes, no, on or off."""
Listen: TypeAlias = Annotated[tuple[str, int], BeforeValidator(parse_listen), WithJsonSchema(_LISTEN_SCHEMA)]
Network: TypeAlias = Annotated[str, BeforeValidator(parse_network), WithJsonSchema({"type": "string"})]
