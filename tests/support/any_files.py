"""The `hotseat` command that looks for no files: stubs stand for servers that would need them."""

from __future__ import annotations

from hotseat.cli import main
from hotseat.model_files import of_command

if __name__ == "__main__":
    of_command.MOST_LOOKS = 0
    main()
