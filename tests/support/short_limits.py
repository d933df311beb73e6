"""The `hotseat` command with shorter limits: it gives up a server or guard that does not answer after four seconds."""

from __future__ import annotations

from functools import partial

from hotseat.cli import main
from hotseat.model_servers import guard_link
from hotseat.model_servers.liveness import Liveness
from hotseat.startup import relaying

LIMIT_S = 4.0

if __name__ == "__main__":
    guard_link.ANSWER_S = LIMIT_S
    vars(relaying)[Liveness.__name__] = partial(Liveness, limit_s=LIMIT_S)
    main()
