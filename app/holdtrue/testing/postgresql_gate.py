"""a gate inside PostgreSQL itself: triggers and advisory locks of the barrier database, gone when the schedule ends

A trigger stops whoever writes, in whichever language and process: the first that comes takes a ticket and waits at the gate,
which our session holds. Statements that UPDATE or DELETE are stopped before they lock a row; an INSERT at its row, so that
what stands in front of it in the same statement has been read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdtrue.errors import SettingsRefused
from holdtrue.testing.parties import Party
from holdtrue.testing.verdicts import LeftOpen

if TYPE_CHECKING:
    import psycopg

SCHEMA = "holdtrue_hold"
_NAME = '"~holdtrue_hold"'  # BEFORE triggers fire by name: whatever the user's own ones read has been read
_CLASS, _GATE, _TICKET = 1_212_372_036, 1, 2
_COUNTED_WITHIN, _POLL = 1.0, 0.02
_OPERATIONS = {"INSERT": "ROW", "UPDATE": "STATEMENT", "DELETE": "STATEMENT", "TRUNCATE": "STATEMENT"}
_NOTE = f"""
CREATE TABLE {SCHEMA}.seen (n serial, relid oid, operation text, PRIMARY KEY (relid, operation));
CREATE FUNCTION {SCHEMA}.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  INSERT INTO {SCHEMA}.seen (relid, operation) VALUES (TG_RELID, TG_OP) ON CONFLICT DO NOTHING;
  IF TG_LEVEL = 'ROW' THEN RETURN NEW; END IF;
  RETURN NULL;
END $$;
CREATE TABLE {SCHEMA}.changed (relid oid PRIMARY KEY);
CREATE FUNCTION {SCHEMA}.note_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  INSERT INTO {SCHEMA}.changed VALUES (TG_RELID) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
"""
_STOP = f"""
CREATE FUNCTION {SCHEMA}.stop() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  IF pg_try_advisory_xact_lock({_CLASS}, {_TICKET}) THEN
    PERFORM pg_advisory_xact_lock_shared({_CLASS}, {_GATE});
  END IF;
  IF TG_LEVEL = 'ROW' THEN RETURN NEW; END IF;
  RETURN NULL;
END $$;
"""
_WAITING = f"""
SELECT l.pid FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database
WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.classid::int8 = {_CLASS} AND l.objid::int8 = {_GATE}
  AND l.objsubid = 2 AND NOT l.granted
"""
_BLOCKED = """
SELECT l.pid, pg_blocking_pids(l.pid) FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE NOT l.granted AND a.datname = current_database() AND coalesce(a.backend_type, 'client backend') = 'client backend'
GROUP BY l.pid
"""
_OTHERS = """
FROM pg_catalog.pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
  AND application_name <> 'holdtrue-barrier'
"""
_PULSE = f"""
SELECT count(*) FILTER (WHERE state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock'), count(*),
       max(state_change)::text {_OTHERS} AND pid <> %s
"""
_TRACE = f"""
SELECT (SELECT to_jsonb(d) ->> 'sessions' FROM pg_catalog.pg_stat_database d WHERE datname = current_database()),
       coalesce(array_agg(pid), '{{}}'), max(state_change) {_OTHERS} AND pid <> %s
"""  # the server counts no sessions before version 14: those that came and went between two looks are not seen there
_END_OTHERS = f"SELECT pg_terminate_backend(pid) {_OTHERS} AND state <> 'idle'"
_LEFT_OPEN = f"SELECT count(*) {_OTHERS} AND state LIKE 'idle in transaction%'"
_TABLES = f"""
SELECT c.oid::regclass::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'holdtrue_baseline', '{SCHEMA}') AND n.nspname !~ '^pg_'
  AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d
                  WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY c.oid
"""
_SEEN = f"SELECT relid::regclass::text, operation FROM {SCHEMA}.seen ORDER BY n"


@dataclass(frozen=True, slots=True)
class WritePoint:
    """Where a party can be held by the server: before it first does ``operation`` to ``table``, a quoted name."""

    table: str
    operation: str

    def reached(self, party: Party) -> bool:
        """Never in our own process: the server holds here."""
        del party
        return False

    def __str__(self) -> str:
        """As schedules say it."""
        return f"by the server before {self.what}"

    @property
    def what(self) -> str:
        """As schedules show a statement."""
        return f"{self.operation} {self.table}"


@dataclass(frozen=True, slots=True)
class Trace:
    """What sessions leave to see: how many there were so far, which are there, when one of them last did something."""

    sessions: str | None
    pids: frozenset[int]
    changed: datetime | None


class PostgresGate:
    """The gate of one database, through a session of its own."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """``connection`` is in autocommit, and used for nothing else."""
        self._connection = connection

    @contextmanager
    def noting(self) -> Iterator[None]:
        """While the block runs, note the first time that each table is written; see :meth:`taken`."""
        with self._built(_NOTE):
            for (table,) in self._run(_TABLES):
                for operation in _OPERATIONS:
                    self._trigger(WritePoint(table, operation), "note", f'"~holdtrue_{operation.lower()}"')
                for after, level in (("INSERT OR UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
                    self._run(
                        f'CREATE TRIGGER "~holdtrue_changed_{level.lower()}" AFTER {after} ON {table} FOR EACH {level} '
                        f"EXECUTE FUNCTION {SCHEMA}.note_change()"
                    )
            yield

    def has_changed(self) -> bool:
        """Whether a row was changed since the last time, and committed: an UPDATE of no row is noted as a write too."""
        return bool(self._run(f"DELETE FROM {SCHEMA}.changed RETURNING 1"))

    def taken(self) -> tuple[WritePoint, ...]:
        """What was noted since the last time, in order."""
        found = tuple(WritePoint(*row) for row in self._run(_SEEN))
        self._run(f"DELETE FROM {SCHEMA}.seen")
        return found

    @contextmanager
    def shut(self, point: WritePoint) -> Iterator[None]:
        """While the block runs, the first that comes to the point is held, until :meth:`open`."""
        with self._built(_STOP):
            self._trigger(point, "stop", _NAME)
            self._run(f"SELECT pg_advisory_lock({_CLASS}, {_GATE})")
            try:
                yield
            finally:
                self.open()

    def open(self) -> None:
        """Let the held one go on; everybody passes from now on."""
        self._run("SELECT pg_advisory_unlock_all()")

    def held(self) -> int:
        """The backend that stands at the gate; 0 if none does."""
        rows = self._run(_WAITING)
        return int(rows[0][0]) if rows else 0

    def is_waited_for(self, pid: int) -> bool:
        """Whether a backend waits for this one, over any other in between; the gate itself is not meant."""
        waits = {waiter: set(holders) for waiter, holders in self._run(_BLOCKED)}
        reached = {pid}
        while True:
            more = {one for one, holders in waits.items() if holders & reached} - reached
            if not more:
                return len(reached) > 1
            reached |= more

    def pulse(self, pid: int) -> tuple[bool, object]:
        """Whether another backend than ``pid`` works on a statement, and a value that changes when any did something."""
        busy, sessions, changed = self._run(_PULSE, (pid,))[0]
        return busy > 0, (sessions, changed)

    def trace(self, pid: int) -> Trace:
        """What other sessions than ``pid`` have left to see; for :meth:`was_asked_since`."""
        sessions, pids, changed = self._run(_TRACE, (pid,))[0]
        return Trace(sessions, frozenset(pids), changed)

    def was_asked_since(self, before: Trace, pid: int) -> bool:
        """Whether another session than ``pid`` has come, or done something, since ``before``; a late count is awaited."""
        end = time.monotonic() + _COUNTED_WITHIN
        while True:
            now = self.trace(pid)
            if now.sessions != before.sessions or now.pids - before.pids:
                return True
            if now.changed is not None and (before.changed is None or now.changed > before.changed):
                return True
            if time.monotonic() > end:
                return False
            time.sleep(_POLL)

    def has_left_open(self) -> bool:
        """Whether a session is idle in a transaction."""
        return int(self._run(_LEFT_OPEN)[0][0]) > 0

    def cancel(self, pid: int) -> None:
        """Cancel what stands at the gate, and whatever waits for it."""
        waits = self._run(_BLOCKED)
        for one in [waiter for waiter, holders in waits if pid in holders] + [pid]:
            self._run("SELECT pg_cancel_backend(%s)", (one,))

    def end_others(self) -> None:
        """End every session of the parties that is at work or in a transaction."""
        self._run(_END_OTHERS)

    def close(self) -> None:
        """Close the session."""
        self._connection.close()

    @contextmanager
    def _built(self, functions: str) -> Iterator[None]:
        """What is ours for a while: everything hangs on one schema, and goes with it."""
        from psycopg import errors  # the driver is there: we are connected

        try:
            self._run(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
            self._run(f"CREATE SCHEMA {SCHEMA}")
        except errors.InsufficientPrivilege as error:
            raise SettingsRefused(
                'hold="server" makes a schema and triggers in the test database, which this login may not',
                remedy="log in as the owner of the tables, or use barrier_db",
            ) from error
        try:
            self._run(functions)
            yield
        except errors.LockNotAvailable as error:
            raise LeftOpen(
                "the triggers cannot be made: the code under test left a transaction open (close its session or connection)"
            ) from error
        except errors.InsufficientPrivilege as error:
            raise SettingsRefused(
                'hold="server" makes triggers on the tables, which this login does not own',
                remedy="log in as the owner of the tables, or use barrier_db",
            ) from error
        finally:
            self._remove()

    def _remove(self) -> None:
        """Take all of it away, and what stands in the way with it: a trigger that stayed would hold whoever comes next.

        Raises:
            LeftOpen: a transaction of the code under test stood in the way.
        """
        from psycopg import errors  # the driver is there: we are connected

        drop = f"SET lock_timeout = '1s'; DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"
        try:
            self._run(drop)
        except errors.LockNotAvailable as error:
            self._run(_END_OTHERS)
            self._run(drop)
            raise LeftOpen(
                "the code under test left a transaction open, which was ended (close its session or connection)"
            ) from error

    def _trigger(self, point: WritePoint, function: str, name: str) -> None:
        level = _OPERATIONS[point.operation]
        self._run(
            f"CREATE TRIGGER {name} BEFORE {point.operation} ON {point.table} FOR EACH {level} "
            f"EXECUTE FUNCTION {SCHEMA}.{function}()"
        )

    def _run(self, text: str, values: tuple[object, ...] | None = None) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(text.encode(), values)
        return cursor.fetchall() if cursor.description is not None else []
