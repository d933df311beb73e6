"""Redirects that a download must not follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.downloads.problems import DownloadProblem

if TYPE_CHECKING:
    import httpx2


def require_https(response: httpx2.Response) -> None:
    """A server with https must not redirect to one without; a hub in the local network may have no https at all."""
    first, *others = [each.url for each in (*response.history, response)]
    if first.scheme == "https" and any(url.scheme != "https" for url in others):
        raise DownloadProblem(f"{first.host} redirects to an address without https, so nothing is downloaded from it")
