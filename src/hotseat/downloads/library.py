"""The one place that imports huggingface_hub: it sends no telemetry and looks for no updates.

It takes almost a second to import, so nothing that `hotseat serve` needs may import this module.
"""

from __future__ import annotations

import os

os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_UPDATE_CHECK"] = "1"
# The library keeps no partial file of a Xet transfer that could be continued after its process has ended.
os.environ["HF_HUB_DISABLE_XET"] = "1"

from huggingface_hub import (
    close_session,
    constants,
    get_hf_file_metadata,
    get_session,
    hf_hub_url,
)
from huggingface_hub.errors import OfflineModeIsEnabled
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # documented, not in __all__

__all__ = [
    "OfflineModeIsEnabled",
    "build_hf_headers",
    "close_session",
    "constants",
    "get_hf_file_metadata",
    "get_session",
    "hf_hub_url",
    "repo_folder_name",
]
