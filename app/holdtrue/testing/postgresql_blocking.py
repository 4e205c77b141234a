"""PostgreSQL's own word on who waits for whom"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdtrue.testing.blocking import roots
from holdtrue.testing.parties import Party, State

if TYPE_CHECKING:
    import psycopg

_CHAIN = """
WITH RECURSIVE chain(waiter, holder) AS (
  SELECT p, b FROM unnest(%s::int[]) p, unnest(pg_blocking_pids(p)) b
  UNION SELECT c.waiter, b FROM chain c, unnest(pg_blocking_pids(c.holder)) b)
SELECT waiter, holder FROM chain
"""
_BUSY = """
SELECT count(*) FROM pg_stat_activity
WHERE pid = ANY (%s::int[]) AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock'
"""

_WROTE = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND backend_xid IS NOT NULL"
_LEFT_OPEN = """
SELECT count(*), count(backend_xid) FROM pg_stat_activity WHERE pid = ANY (%s::int[]) AND state LIKE 'idle in transaction%%'
"""
_GOING = 0.5
_POLL = 0.01


class PostgresBlocking:
    """The server's own word on who waits for whom."""

    inferred = False

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """``connection`` is used for nothing else."""
        self._connection = connection

    def waits(self, parties: Sequence[Party]) -> Mapping[str, str]:
        """Which party waits for which, over any backend in between."""
        alive = [party for party in parties if party.state is not State.FINISHED and party.pids]
        owner = {pid: party.name for party in alive for pid in list(party.pids)}
        if len(alive) < 2:
            return {}
        held_up: dict[str, set[str]] = {}
        for waiter, holder in self._connection.execute(_CHAIN, (list(owner),)).fetchall():
            if owner.get(holder, owner[waiter]) != owner[waiter]:
                held_up.setdefault(owner[waiter], set()).add(owner[holder])
        return roots(held_up)

    def is_busy(self, party: Party) -> bool:
        """Whether a backend of the party works on a statement without waiting for a lock."""
        row = self._connection.execute(_BUSY, (list(party.pids),)).fetchone()
        return row is not None and row[0] > 0

    def cancel(self, party: Party) -> None:
        """Cancel what the party's backends do."""
        for pid in list(party.pids):
            self._connection.execute("SELECT pg_cancel_backend(%s)", (pid,))

    def end_sessions(self, party: Party) -> None:
        """End the party's backends."""
        for pid in list(party.pids):
            self._connection.execute("SELECT pg_terminate_backend(%s)", (pid,))

    def has_written(self, pid: int) -> bool:
        """Whether its transaction has a number: one that only reads has none."""
        row = self._connection.execute(_WROTE, (pid,)).fetchone()
        return row is not None

    def has_left_open(self, party: Party) -> bool:
        """Whether a backend that the finished party kept is idle in a transaction.

        One that has only read may be that of a session which nobody has any more, as of a thread that has ended: a framework
        would have removed it. What has written is not thrown away like that.
        """
        is_open, has_written = self._left_open(party)
        if not is_open or has_written:
            return is_open
        gc.collect()
        end = time.monotonic() + _GOING
        while is_open and time.monotonic() < end:
            time.sleep(_POLL)  # a connection that was collected takes a moment to be gone
            is_open, _ = self._left_open(party)
        return is_open

    def _left_open(self, party: Party) -> tuple[bool, bool]:
        row = self._connection.execute(_LEFT_OPEN, (list(party.kept),)).fetchone()
        return (False, False) if row is None else (row[0] > 0, row[1] > 0)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
