"""The errors of downloads, in whole sentences with the next step."""

from __future__ import annotations


class DownloadProblem(Exception):
    """Why nothing, or not everything, was downloaded."""


class Interrupted(DownloadProblem):
    """The connection ended early; another attempt continues where this one stopped."""
