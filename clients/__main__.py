"""`python -m clients [NAME...]`: tests the named clients; without names, tests all of them and writes the page."""

from __future__ import annotations

import sys

from clients.client_list import ON_DEMAND, TESTED
from clients.matrix import row
from clients.page import PAGE, page


def main(names: list[str]) -> int:
    everyone = (*TESTED, *ON_DEMAND)
    chosen = [client for client in everyone if not names or client.name in names]
    rows, surprises = [], []
    for client in chosen:
        rows.append(row(client))
        news = list(rows[-1].surprises())
        surprises += news
        print(f"{client.name} {rows[-1].version}:", *(news or ["as expected"]), sep="\n  ", flush=True)
    if surprises or not chosen:
        return 1
    if not names:
        PAGE.write_text(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
