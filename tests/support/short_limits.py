"""The `hotseat` command with one shorter limit: it gives up a server that does not answer after four seconds."""

from __future__ import annotations

from functools import partial

from hotseat.cli import main
from hotseat.model_servers.liveness import Liveness
from hotseat.startup import relaying

LIMIT_S = 4.0

if __name__ == "__main__":
    vars(relaying)[Liveness.__name__] = partial(Liveness, limit_s=LIMIT_S)
    main()
