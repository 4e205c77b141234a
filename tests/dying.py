"""``holdtrue serve`` that kills itself at one step of delivery, as the machine might.

    DIES_AT="outbox.mark before" STORE_FILE=store.db python tests/dying.py serve …

It dies only where a message is concerned: a claim that finds nothing is no step of delivery. Leases of delivery are short, so
that what it held is soon another's.
"""

from __future__ import annotations

import functools
import os
import signal
import sqlite3
import time
from contextlib import closing
from datetime import timedelta

from holdtrue.bootstrap import building
from holdtrue.cli import main

LEASE = timedelta(seconds=2)
PATIENCE = 60.0
_CONCERNED = {
    "outbox.claim before": "SELECT count(*) FROM messages WHERE state = 'pending'",
    "outbox.claim after": f"SELECT count(*) FROM messages WHERE state = 'pending' AND lease_owner LIKE '%-{os.getpid()}-%'",
}


def hold(operation: str, moment: str) -> None:
    """Die here, if it is here."""
    step = f"{operation} {moment}"
    if step != os.environ.get("DIES_AT"):
        return
    if (query := _CONCERNED.get(step)) is not None:
        until = time.monotonic() + PATIENCE
        with closing(sqlite3.connect(os.environ["STORE_FILE"])) as store:
            while not store.execute(query).fetchone()[0]:
                if moment == "after" or time.monotonic() > until:
                    return
                # Claiming now could find what is saved a moment later, and would send it.
                time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    building.Delivery = functools.partial(building.Delivery, lease=LEASE)  # type: ignore[assignment,misc]
    building.build = functools.partial(building.build, hold=hold)
    main()
