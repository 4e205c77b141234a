"""listens to every SQLAlchemy engine of the process while a schedule is played

Listeners on the classes also reach engines, and connections checked out, that existed before. A party is known by a
context variable, which tasks and ``to_thread`` inherit and plain threads do not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdtrue.errors import MissingInstallSet
from holdtrue.testing.parties import Party, current_party
from holdtrue.testing.statements import COMMIT, Statement, classify
from holdtrue.testing.steps import StepScheduler
from holdtrue.testing.verdicts import Verdict, WrongDatabase

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection, ExceptionContext

STRAY = (
    "a statement came from a thread that no party owns, so it could not be held (start threads with "
    "contextvars.copy_context().run, or wire the function that the thread runs)"
)
_one_at_a_time = threading.Lock()


def same_database(one: URL, other: URL) -> bool:
    """Whether two SQLAlchemy URLs name one database, by its name; barrier databases have names of their own."""
    kinds = one.get_backend_name(), other.get_backend_name()
    if kinds[0] != kinds[1]:
        return False
    if kinds[0] == "sqlite":
        return (
            bool(one.database and other.database)
            and Path(one.database or "").resolve() == Path(other.database or "").resolve()
        )
    return one.database == other.database


@dataclass
class Hooks:
    """What a schedule's engines tell its scheduler.

    ``expected`` is the database the parties must speak to; with None the first one they use is ``seen`` and must stay the
    only one. A statement to another database is refused before it is sent.
    """

    scheduler: StepScheduler
    expected: URL | None = None
    seen: list[URL] = field(default_factory=list)
    refused: WrongDatabase | None = None
    strays: list[URL] = field(default_factory=list)
    _pids: dict[int, int | None] = field(default_factory=dict)

    def before(self, conn: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        """Stop before a statement."""
        party = self._party(conn)
        if party is None:
            return
        self._stop(party, conn, classify(statement))

    def after(self, _conn: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        """Remember the statement that ended."""
        party = current_party.get()
        if party is not None:
            self.scheduler.ended(party, classify(statement))

    def commit(self, conn: Connection) -> None:
        """Stop before a COMMIT."""
        party = self._party(conn)
        if party is not None:
            self._stop(party, conn, COMMIT)

    def rollback(self, _conn: Connection) -> None:
        """Note a ROLLBACK."""
        party = current_party.get()
        if party is not None:
            self.scheduler.rolled_back(party)

    def error(self, context: ExceptionContext) -> None:
        """Note that the database refused a statement: its kind and SQLSTATE, never its message."""
        party = current_party.get()
        original = context.original_exception
        if party is None or not isinstance(original, Exception):
            return
        state = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
        self.scheduler.failed(party, type(original).__name__ + (f" ({state})" if state else ""))

    def checkin(self, dbapi_connection: object, _record: object) -> None:
        """A connection went back to its pool."""
        if dbapi_connection is not None:
            number = id(dbapi_connection)
            self.scheduler.gave_back(number, self._pids.pop(number, None))

    def has_strays(self, database: URL) -> bool:
        """Whether a thread that no party owns spoke to this database."""
        return any(same_database(url, database) for url in self.strays)

    def _party(self, conn: Connection) -> Party | None:
        party = current_party.get()
        if party is not None and party in self.scheduler.parties:
            return party
        self.strays.append(conn.engine.url)
        if self.expected is not None and self.has_strays(self.expected):
            self.scheduler.complain(Verdict.NOT_REACHED, STRAY)
        return None

    def _stop(self, party: Party, conn: Connection, statement: Statement) -> None:
        url = conn.engine.url
        if not any(same_database(url, one) for one in self.seen):
            self.seen.append(url)
        if self.expected is not None and not same_database(url, self.expected):
            name = f"{url.get_backend_name()} database {url.database!r}"
            reason = f"the code under test speaks to the {name}, not to the barrier database; give it db.url"
            self.refused = WrongDatabase(reason)
            raise self.refused
        number = id(conn.connection.dbapi_connection)
        self._pids[number] = _backend_pid(conn.connection.driver_connection)
        self.scheduler.stop_before(party, statement, self._pids[number], number)


@contextmanager
def listening(hooks: Hooks) -> Iterator[None]:
    """Listen while the block runs; one schedule at a time in a process.

    Raises:
        MissingInstallSet: SQLAlchemy is not installed.
    """
    try:
        from sqlalchemy import event  # the kit stays light: only a test that races needs SQLAlchemy
        from sqlalchemy.engine import Engine
        from sqlalchemy.pool import Pool
    except ImportError as error:
        raise MissingInstallSet("barrier tests listen to SQLAlchemy", remedy="pip install 'holdtrue[cli]'") from error
    wanted: list[tuple[Any, str, Callable[..., None]]] = [
        (Engine, "before_cursor_execute", hooks.before),
        (Engine, "after_cursor_execute", hooks.after),
        (Engine, "commit", hooks.commit),
        (Engine, "rollback", hooks.rollback),
        (Engine, "handle_error", hooks.error),
        (Pool, "checkin", hooks.checkin),
    ]
    with _one_at_a_time:
        for target, name, handler in wanted:
            event.listen(target, name, handler)
        try:
            yield
        finally:
            for target, name, handler in wanted:
                event.remove(target, name, handler)


def _backend_pid(connection: object) -> int | None:
    info = getattr(connection, "info", None)
    pid = getattr(info, "backend_pid", None)
    if pid is None and hasattr(connection, "get_backend_pid"):
        pid = connection.get_backend_pid()
    return pid if isinstance(pid, int) else None
