"""`${NAME}` placeholders in a model's settings, command lines, and the address where a server will listen.

Macros are replaced when a configuration is read (`expand`), `${PORT}` and `${GPUS}` when a process is started (`fill`),
`${PID}` when it is stopped. All functions are pure.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import SplitResult, urlsplit

from hotseat.identifiers import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MacroValue: TypeAlias = str | int | float | bool

PORT, PID, MODEL_ID = "PORT", "PID", "MODEL_ID"
RESERVED = (PORT, PID, MODEL_ID)
GPUS = "GPUS"
"""The cards of a process, as its driver names them. Not reserved: files for llama-swap may define such a macro."""

DEFAULT_PORTS = {"http": 80, "https": 443}

_FOUR_NUMBERS = re.compile(r"\d+(?:\.\d+){3}")
_ODD_IN_HOST = re.compile(r"[\s\x00-\x1f\x7f\"<>\\^`{|}*,;]")
_HOLE = re.compile(r"\$\{([A-Za-z0-9_.-]+)\}")
_COMMENT = re.compile(r"^[ \t]*#.*(\n|\Z)", re.MULTILINE)
_SEALED = re.compile("\ue000((?:[0-9a-f]{4})*)\ue001")
_WITHOUT_QUOTES = re.compile(r"[\t\n\r !#-&(-\[\]-~]*")
"""ASCII without quotes, backslashes and control characters, among which shells and `str.split` mean other spaces."""
_JOINED_LINE = re.compile(r"\\[ \t]*\n")


@lru_cache(maxsize=256)  # thousands of models may have the same
def address_of(proxy: str) -> Address:
    """Parse `http://host:port/prefix`, `https://…` or `unix:/path`; ValueError says what is wrong."""
    if proxy.startswith("unix:"):
        return _unix_address(proxy.removeprefix("unix:"))
    url = split_url(proxy)
    if url.scheme not in DEFAULT_PORTS:
        raise ValueError("must begin with http://, https:// or unix:/")
    if not url.hostname or url.username is not None or url.query or url.fragment:
        raise ValueError("must be scheme, host, port and path only")
    port = url.port or DEFAULT_PORTS[url.scheme]
    return Address(url.hostname, port, tls=url.scheme == "https", prefix=url.path.rstrip("/"))


def split_url(text: str) -> SplitResult:
    """Split a URL and check its host and port, if present; ValueError says what is wrong."""
    url = urlsplit(text)
    try:
        is_port = url.port != 0
    except ValueError:
        is_port = False
    if not is_port:
        raise ValueError("the port must be a number from 1 to 65535")
    check_host(url.hostname or "")
    return url


def check_host(host: str) -> None:
    """ValueError unless it is an IP address or a possible host name."""
    try:
        if ":" in host or _FOUR_NUMBERS.fullmatch(host):
            ip_address(host.partition("%")[0])
        else:
            host.encode("idna")
    except ValueError:
        raise ValueError(f'"{host}" is neither an IP address nor a host name') from None
    if _ODD_IN_HOST.search(host):
        raise ValueError(f'"{host}" is neither an IP address nor a host name')


def _unix_address(path: str) -> Address:
    path = path.removeprefix("//")
    if not path.startswith("/"):
        raise ValueError("must name an absolute path, as in unix:/run/model.sock")
    return Address("localhost", 80, unix_path=path)


def holes(text: str) -> tuple[str, ...]:
    """The names in `${…}`, in order."""
    return tuple(_HOLE.findall(text))


def fill_hole(text: str, name: str, value: object) -> str:
    return text.replace("${" + name + "}", str(value))


def expand(text: str, macros: Mapping[str, MacroValue]) -> MacroValue:
    """Replace the known macros. A text that is exactly one macro becomes its value, including the type."""
    alone = _HOLE.fullmatch(text)
    if alone and alone[1] in macros:
        return macros[alone[1]]
    return _HOLE.sub(lambda hole: as_text(macros[hole[1]]) if hole[1] in macros else hole[0], text)


def as_text(value: MacroValue) -> str:
    """A macro's value inside a text: booleans as in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def without_comments(command: str) -> str:
    """Removes lines that start with `#`."""
    return _COMMENT.sub("", command)


def split_command(command: str) -> tuple[str, ...]:
    """Split like a POSIX shell, without running one; ValueError for an open quote."""
    if _WITHOUT_QUOTES.fullmatch(command):  # nearly all commands, in a hundredth of the time
        return tuple(command.split())
    return tuple(unsealed(word) for word in shlex.split(_JOINED_LINE.sub("", command)))


# File names come from others and may contain quotes and spaces. In a command a name must stay within the word where it
# was written, whatever quotes surround it; so it is encoded until the words are split.


def sealed(text: str) -> str:
    """Encode a text so that no character has a meaning in a command line."""
    return f"\ue000{text.encode('utf-16-le', 'surrogatepass').hex()}\ue001"


def unsealed(text: str, written: Callable[[str], str] = str) -> str:
    """Decode sealed parts; `written` escapes them for their context."""
    return _SEALED.sub(lambda seal: written(bytes.fromhex(seal[1]).decode("utf-16-le", "surrogatepass")), text)
