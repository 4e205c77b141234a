"""``holdtrue serve`` that kills itself at one step of delivery, as the machine might.

    with Dying(folder, environ, "outbox.mark before", store_url) as service:
        assert service.wait() == -9

It is forked from a process that has read the code already, so that dying costs little. It dies only where a message is
concerned: a claim that finds nothing is no step of delivery. Its leases of delivery are short, so that what it held is soon
another's.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from holdtrue.bootstrap import building
from holdtrue.cli import main
from holdtrue.notifiers.posting import Posting

LEASE = timedelta(seconds=1.5)
OFTEN = timedelta(seconds=0.2)
PATIENCE = 60.0
SENT = "sent, and no answer heard"

_CODE = multiprocessing.get_context("forkserver")
_CODE.set_forkserver_preload(
    [
        *("holdtrue.bootstrap.building", "holdtrue.cli.app", "holdtrue.web", "holdtrue.web.server", "alembic.command"),
        *("uvicorn", "sqlglot.dialects.sqlite", "sqlglot.dialects.postgres", "psycopg"),
    ]
)


class Dying:
    """One whole service, in a process of its own that can be killed and waited for."""

    def __init__(self, folder: Path, environ: Mapping[str, str], step: str, store_url: str, owed: int = 1) -> None:
        """Start it; with an empty ``step`` it lives on. It delivers nothing before ``owed`` messages are owed."""
        self._process = _CODE.Process(target=_serve, args=(folder, dict(environ), step, store_url, owed), daemon=True)
        self._process.start()

    def __enter__(self) -> Dying:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    @property
    def ended(self) -> bool:
        return self._process.exitcode is not None

    def kill(self) -> None:
        """SIGKILL: no hook runs."""
        self._process.kill()
        self._process.join(PATIENCE)

    def wait(self) -> int | None:
        """How it ended: less than nothing is a signal's number; None if it lives."""
        self._process.join(PATIENCE)
        return self._process.exitcode


def _serve(folder: Path, environ: Mapping[str, str], step: str, store_url: str, owed: int) -> None:
    os.chdir(folder)
    with Path("serve.log").open("ab", buffering=0) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.clear()
    os.environ.update(environ)
    if step:
        building.Delivery = functools.partial(building.Delivery, lease=LEASE)  # type: ignore[assignment,misc]
    building.Parts = _often(building.Parts)  # type: ignore[assignment,misc]
    if step == SENT:
        Posting.post = _dying_after(Posting.post)  # type: ignore[method-assign]
    building.build = functools.partial(building.build, hold=_Hold(step, store_url, owed))
    sys.argv = ["holdtrue", "serve", "--listen", "127.0.0.1:0"]
    main()


def _often(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **parts: make(**{**parts, "deliver_every": OFTEN})


def _dying_after(post: Callable[..., Any]) -> Callable[..., Any]:
    """It was on the wire and is taken, and nobody is there to hear so."""

    def post_and_die(*given: Any) -> None:
        post(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    return post_and_die


class _Hold:
    """Where the service may die."""

    def __init__(self, step: str, store_url: str, owed: int) -> None:
        self._step = step
        self._owed = owed
        self._store = create_engine(store_url.replace("postgresql:", "postgresql+psycopg:", 1))

    def __call__(self, operation: str, moment: str) -> None:
        """Die here, if it is here."""
        step = f"{operation} {moment}"
        if step == "outbox.claim before":
            # Claiming now could find what is saved a moment later, and would send it.
            until = time.monotonic() + PATIENCE
            while self._pending() < self._owed and time.monotonic() < until:
                time.sleep(0.05)
        if step != self._step or (step == "outbox.claim after" and not self._pending(f"%-{os.getpid()}-%")):
            return
        os.kill(os.getpid(), signal.SIGKILL)

    def _pending(self, owner: str = "%") -> int:
        query = "SELECT count(*) FROM messages WHERE state = 'pending' AND coalesce(lease_owner, '') LIKE :owner"
        with self._store.connect() as connection:
            return int(connection.execute(text(query), {"owner": owner}).scalar_one())
