"""MariaDB's and MySQL's own word on who waits for whom

The view that tells holders is refreshed only where nobody has read it for 0.1 s: whoever polls it sees the same old answer
for ever. So who waits is read from the monitor, which is live, and the view is asked only where somebody waits and seldom;
what it said stays true while waiter and holder are in the same transactions, since InnoDB keeps row locks to the end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdtrue.errors import SettingsRefused
from holdtrue.testing.blocking import roots
from holdtrue.testing.mariadb_connecting import DENIED, number_of, run
from holdtrue.testing.parties import Party, State

if TYPE_CHECKING:
    from pymysql.connections import Connection

FRESH_AFTER = 0.11
_FIRST = re.compile(r"^---TRANSACTION (.+?), (ACTIVE|not started)", re.MULTILINE)
_THREAD = re.compile(r"^(?:MariaDB|MySQL) thread id (\d+),")
_NAMED = re.compile(r"GET_LOCK\s*\(\s*'([^'\\]*)'", re.IGNORECASE)
_WORKING = (
    "SELECT id, state, info FROM information_schema.processlist WHERE command IN ('Query', 'Execute') AND id IN ({})"
)
_HOLDERS = """
SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id FROM information_schema.innodb_lock_waits w
JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id
JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id
"""
_HOLDERS_8 = """
SELECT r.processlist_id, b.processlist_id FROM performance_schema.data_lock_waits w
JOIN performance_schema.threads r ON r.thread_id = w.requesting_thread_id
JOIN performance_schema.threads b ON b.thread_id = w.blocking_thread_id
"""
_OBJECTS_8 = """
SELECT r.processlist_id, b.processlist_id FROM performance_schema.metadata_locks w
JOIN performance_schema.metadata_locks h ON h.object_type = w.object_type AND h.object_schema <=> w.object_schema
 AND h.object_name <=> w.object_name AND h.lock_status = 'GRANTED' AND h.owner_thread_id <> w.owner_thread_id
JOIN performance_schema.threads r ON r.thread_id = w.owner_thread_id
JOIN performance_schema.threads b ON b.thread_id = h.owner_thread_id
WHERE w.lock_status = 'PENDING'
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """A session's transaction as the monitor shows it at this moment."""

    transaction: str
    active: bool
    waits: bool


@dataclass(frozen=True, slots=True)
class _Told:
    """What the view said of a waiter, while it was in this transaction: holders with theirs."""

    transaction: str
    holders: Mapping[int, str]


class MariadbBlocking:
    """Asks MariaDB; on MySQL 8 it asks performance_schema, which is always fresh."""

    def __init__(self, connection: Connection[Any], *, is_mariadb: bool) -> None:
        """``connection`` is used for nothing else."""
        self.inferred = False
        self._connection = connection
        self._is_mariadb = is_mariadb
        self._told: dict[int, _Told] = {}
        self._foreign: set[int] = set()
        self._read = 0.0
        self._gap = FRESH_AFTER

    def check(self) -> None:
        """See that the login may ask.

        Raises:
            SettingsRefused: it may not.
        """
        self._monitor()

    def waits(self, parties: Sequence[Party]) -> Mapping[str, str]:
        """Which party waits for which, over any session in between.

        ``inferred`` says whether an edge of this answer is a guess: MariaDB names no holder of a metadata lock.
        """
        self.inferred = False
        alive = [party for party in parties if party.state is not State.FINISHED and party.pids]
        owner = {pid: party.name for party in alive for pid in list(party.pids)}
        if len(alive) < 2:
            return {}
        working = self._working(owner)
        if not working:
            return {}
        pairs = self._pairs(working, owner)
        held_up: dict[str, set[str]] = {}
        for waiter, holders in pairs.items():
            if waiter not in owner:
                continue
            for holder in _reached(waiter, pairs):
                if owner.get(holder, owner[waiter]) != owner[waiter]:
                    held_up.setdefault(owner[waiter], set()).add(owner[holder])
            is_foreign = owner[waiter] not in held_up and bool(holders)
            (self._foreign.add if is_foreign else self._foreign.discard)(waiter)
        return roots(held_up)

    def is_busy(self, party: Party) -> bool:
        """Whether a session of the party works on a statement, and does not wait for somebody outside of the race."""
        return any(pid not in self._foreign for pid in self._working(list(party.pids)))

    def cancel(self, party: Party) -> None:
        """Cancel what the party's sessions do."""
        self._kill("QUERY", party)

    def end_sessions(self, party: Party) -> None:
        """End the party's sessions."""
        self._kill("CONNECTION", party)

    def _kill(self, what: str, party: Party) -> None:
        from pymysql.err import MySQLError  # the driver is there: we are connected

        for pid in list(party.pids):
            with suppress(MySQLError):  # it is gone already
                run(self._connection, f"KILL {what} {int(pid)}")

    def has_written(self, pid: int) -> bool:
        """It is not asked: only what a statement's own text says is held before its COMMIT."""
        del pid
        return False

    def has_left_open(self, party: Party) -> bool:
        """Whether a session that the finished party kept is in a transaction and does nothing."""
        standing = self._monitor()
        return any(pid in standing and standing[pid].active for pid in party.kept)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _working(self, pids: Collection[int]) -> dict[int, tuple[str, str]]:
        """State and text of what these sessions are at."""
        if not pids:
            return {}
        text = _WORKING.format(", ".join(str(int(pid)) for pid in pids))
        return {pid: (str(state or ""), str(info or "")) for pid, state, info in run(self._connection, text)}

    def _pairs(self, working: Mapping[int, tuple[str, str]], owner: Mapping[int, str]) -> dict[int, set[int]]:
        """Waiting sessions, each with those it waits for."""
        if not self._is_mariadb:
            pairs: dict[int, set[int]] = {}
            for waiter, holder in run(self._connection, _HOLDERS_8) + run(self._connection, _OBJECTS_8):
                pairs.setdefault(waiter, set()).add(holder)
            return pairs
        standing = self._monitor()
        found: dict[int, set[int]] = {}
        for pid, (state, text) in working.items():
            if state == "User lock":
                found[pid] = self._holder_of_name(pid, text, owner)
            elif state.startswith("Waiting for ") and "lock" in state:
                found[pid] = self._guess(pid, owner)
            elif pid in standing and standing[pid].waits:
                found[pid] = self._holders(pid, standing)
        for pid, told in self._told.items():  # sessions of nobody's, which may stand in between
            if pid not in found and pid in standing and standing[pid].waits and _still(told, standing[pid], standing):
                found[pid] = set(told.holders)
        return found

    def _holders(self, pid: int, standing: Mapping[int, Standing]) -> set[int]:
        told = self._told.get(pid)
        if told is None or not _still(told, standing[pid], standing):
            self._told.pop(pid, None)
            now = time.monotonic()
            if now - self._read < self._gap:
                return set()
            self._look(standing)
            self._read = time.monotonic()
            told = self._told.get(pid)
            # Somebody else's reading keeps the view old as well: leave it alone for longer each time.
            self._gap = FRESH_AFTER if told is not None else min(self._gap * 1.4, 0.7)
        return set() if told is None else set(told.holders)

    def _look(self, standing: Mapping[int, Standing]) -> None:
        found: dict[int, dict[int, str]] = {}
        for waiter, holder in run(self._connection, _HOLDERS):
            if holder in standing:
                found.setdefault(waiter, {})[holder] = standing[holder].transaction
        for waiter, holders in found.items():
            if waiter in standing:
                self._told[waiter] = _Told(standing[waiter].transaction, holders)

    def _holder_of_name(self, pid: int, text: str, owner: Mapping[int, str]) -> set[int]:
        named = _NAMED.search(text)
        if named is None:
            return self._guess(pid, owner)
        rows = run(self._connection, "SELECT IS_USED_LOCK(%s)", [named.group(1)])
        return {int(rows[0][0])} if rows and rows[0][0] is not None else set()

    def _guess(self, pid: int, owner: Mapping[int, str]) -> set[int]:
        self.inferred = True
        return {other for other in owner if owner[other] != owner[pid]}

    def _monitor(self) -> dict[int, Standing]:
        from pymysql.err import MySQLError  # the driver is there: we are connected

        try:
            rows = run(self._connection, "SHOW ENGINE INNODB STATUS")
        except MySQLError as error:
            if number_of(error) not in DENIED:
                raise
            raise SettingsRefused(
                "the login of the barrier database may not see who waits for whom", remedy="GRANT PROCESS ON *.* TO it"
            ) from error
        return read_monitor(str(rows[0][2]))


def read_monitor(text: str) -> dict[int, Standing]:
    """Sessions in the part of the InnoDB monitor that lists transactions.

    A statement's own text stands behind its session's number and cannot be taken for one.
    """
    _, _, listed = text.partition("\nLIST OF TRANSACTIONS FOR EACH SESSION:\n")
    found: dict[int, Standing] = {}
    for block in re.split(r"^(?=---TRANSACTION )", listed, flags=re.MULTILINE):
        first = _FIRST.match(block)
        if first is None:
            continue
        waits = False
        for line in block.splitlines():
            waits = waits or line.startswith("LOCK WAIT ")
            session = _THREAD.match(line)
            if session is not None:
                found.setdefault(int(session.group(1)), Standing(first.group(1), first.group(2) == "ACTIVE", waits))
                break
    return found


def _still(told: _Told, mine: Standing, standing: Mapping[int, Standing]) -> bool:
    """Whether what was told is true yet: nobody of it has ended its transaction."""
    return mine.transaction == told.transaction and all(
        holder in standing and standing[holder].transaction == transaction
        for holder, transaction in told.holders.items()
    )


def _reached(waiter: int, pairs: Mapping[int, Collection[int]]) -> set[int]:
    """All that a waiter waits for, directly or behind others."""
    seen: set[int] = set()
    todo = list(pairs.get(waiter, ()))
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo.extend(pairs.get(one, ()))
    return seen
