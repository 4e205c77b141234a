"""what the adapters tell a schedule: who speaks through which connection, and what comes of it

A party is known by a context variable, which tasks and ``to_thread`` inherit and plain threads do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdtrue.testing.failures import refusal_code
from holdtrue.testing.gates import here
from holdtrue.testing.identities import Identities, kind_of
from holdtrue.testing.parties import Abandoned, AbandonedTask, Party, current_party
from holdtrue.testing.statements import Statement
from holdtrue.testing.steps import StepScheduler
from holdtrue.testing.verdicts import Verdict, WrongDatabase

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

STRAY = (
    "a statement came from a thread that no party owns, so it could not be held (start threads with "
    "contextvars.copy_context().run, or in coroutines asyncio.to_thread, which does; or wire the function that the thread runs)"
)

STRAY_TASK = (
    "a statement came from a task that no party started, so it could not be held (start it inside the party, or leave it out "
    "while the race is played)"
)


@dataclass(frozen=True, slots=True)
class Wire:
    """A connection, as an adapter names it to the schedule.

    ``number`` tells the driver's own connection from every other (its ``id``); ``pid`` is its backend, where the server
    numbers them. ``url`` must do to connect once more: a race without ``db=`` asks its rule there. ``idle`` says that it is in
    no transaction now: so a pool that no adapter knows may hand it from one party to another. ``alone`` is how each party
    gets a connection of its own.
    """

    url: URL
    number: int
    pid: int | None = None
    idle: bool = False
    alone: str = ""


@dataclass
class Hooks:
    """What a schedule's adapters tell its scheduler, from the parties' own threads.

    ``expected`` is the database the parties must speak to; with None the first one they use is ``seen`` and must stay the
    only one. A statement to another database is refused before it is sent. Once the schedule ``is_over``, all pass but those
    that were given up.
    """

    scheduler: StepScheduler
    expected: URL | None = None
    seen: list[URL] = field(default_factory=list)
    refused: WrongDatabase | None = None
    strays: list[URL] = field(default_factory=list)
    stray: str = STRAY
    is_over: bool = False
    identities: Identities = field(default_factory=Identities)
    _pids: dict[int, int | None] = field(default_factory=dict)
    _standing: dict[str, int] = field(default_factory=dict)

    def stop(self, wire: Wire, statement: Statement) -> None:
        """Stop before a statement or a COMMIT, until the schedule lets the party go on.

        Raises:
            WrongDatabase: the wire leads to another database than the expected one.
        """
        party = self._admit(wire)
        if party is not None:
            self.scheduler.stop_before(party, statement, wire.pid, wire.number, wire.alone)

    async def stop_task(self, wire: Wire, statement: Statement) -> None:
        """The same for an asynchronous driver: only the task that sends the statement sleeps.

        Raises:
            WrongDatabase: the wire leads to another database than the expected one.
        """
        party = self._admit(wire)
        if party is not None:
            await self.scheduler.stop_task_before(party, statement, wire.pid, wire.number, wire.alone)

    def has_written(self, pid: int | None) -> bool:
        """Whether the server says that the transaction of this backend has written."""
        asks = self.scheduler.blocking
        return pid is not None and asks is not None and asks.has_written(pid)

    def owe(self, connection: object, close: Callable[[], Awaitable[object]]) -> None:
        """Close, when the race is over, what can only be closed on its loop."""
        self.scheduler.loop.owe(id(connection), close)

    def ended(self, statement: Statement, rows: int | None = None) -> None:
        """Remember the statement that ended; ``rows`` is how many it changed, where its driver counts them."""
        party = current_party.get()
        if party is not None:
            self._standing.pop(party.name, None)
            self.scheduler.ended(party, statement, rows)

    def failed(self, error: BaseException | None) -> None:
        """Note that the database refused a statement: its kind and SQLSTATE, never its message."""
        party = current_party.get()
        if party is None or not isinstance(error, Exception):
            return
        self._standing.pop(party.name, None)
        state = refusal_code(error)
        self.scheduler.failed(party, type(error).__name__ + (f" ({state})" if state else ""))

    def rolled_back(self) -> None:
        """Note a ROLLBACK."""
        party = current_party.get()
        if party is not None:
            self.scheduler.rolled_back(party)

    def gave_back(self, number: int) -> None:
        """A connection went back to its pool, or was closed: it is nobody's until somebody uses it again."""
        self.scheduler.gave_back(number, self._pids.pop(number, None))

    def has_strays(self, database: URL) -> bool:
        """Whether a thread that no party owns spoke to this database."""
        return any(self.identities.are_one(url, database) for url in self.strays)

    def _admit(self, wire: Wire) -> Party | None:
        """The party that sends something through this wire, if one does."""
        given_up = current_party.get()
        if given_up is not None and given_up.abandoned:  # of an earlier schedule too
            raise AbandonedTask if isinstance(here(), asyncio.Task) else Abandoned
        party = None if self.is_over else self._party(wire)
        if party is None:
            return None
        if not any(self.identities.are_one(wire.url, one) for one in self.seen):
            self.seen.append(wire.url)
        if self.expected is not None and not self.identities.are_one(wire.url, self.expected):
            name = f"{wire.url.get_backend_name()} database {wire.url.database!r}"
            if wire.url.database == self.expected.database:
                name += f" of another server ({wire.url.host or 'here'}:{wire.url.port or 'its own port'})"
            reason = (
                f"the code under test speaks to the {name}, not to the barrier database; give it db.url, or bind its "
                "sessions to db.engine or db.async_engine"
            )
            self.refused = WrongDatabase(reason)
            raise self.refused
        if wire.idle and not self._stands_on(wire.number, party):
            self.scheduler.handed_on(wire.number, wire.pid)
        self._pids[wire.number] = wire.pid
        party.is_unnumbered = party.is_unnumbered or (wire.pid is None and kind_of(wire.url) != "sqlite")
        self._standing[party.name] = wire.number
        return party

    def _stands_on(self, number: int, party: Party) -> bool:
        """Whether another party is stopped before a statement on this very connection."""
        return any(name != party.name and standing == number for name, standing in self._standing.items())

    def _party(self, wire: Wire) -> Party | None:
        party = current_party.get()
        if party is not None and party in self.scheduler.parties:
            return party
        if not self.strays and isinstance(here(), asyncio.Task):
            self.stray = STRAY_TASK
        self.strays.append(wire.url)
        if self.expected is not None and self.has_strays(self.expected):
            self.scheduler.complain(Verdict.NOT_REACHED, self.stray)
        return None
