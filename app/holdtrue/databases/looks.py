"""what one look at a replica gives, and what a dialect must offer for it"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from holdtrue.model import (
    BaseRows,
    Column,
    DatabaseConfig,
    Evidence,
    Failure,
    FailureReason,
    Former,
    Outcome,
    Position,
    ReplicaConfig,
    Row,
    Tallied,
    Traces,
)

_SHORTEST = timedelta(milliseconds=10)
_LONGEST_LOCK_WAIT = timedelta(seconds=10)

OnColumns = Callable[[tuple[Column, ...]], Callable[[Row], None]]
"""Called once with the columns; gives what takes each row."""

Mask = Callable[[str, str, str, str | None], str | None]
"""``mask(table, column, type_name, value)``: what may leave of a base row's cell."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """How one execution ended.

    ``returned`` rows arrived; ``complete`` says that they ended by themselves, else ``failure`` says why not.
    """

    returned: int
    complete: bool
    failure: Failure | None
    statement: timedelta


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a side question, at most as many as were wanted; ``more`` says that there were others."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    more: bool = False


class Gathered:
    """The rows of a side question as they come."""

    def __init__(self) -> None:
        self._columns: tuple[Column, ...] = ()
        self._rows: list[Row] = []

    def begin(self, columns: tuple[Column, ...]) -> Callable[[Row], None]:
        """Take the rows of a result with these columns: an ``OnColumns``."""
        self._columns = columns
        return self._rows.append

    def answer(self, failure: Failure | None) -> Answer | Failure:
        """What came, or why it did not come whole; that there were more than wanted is no failure."""
        if failure is not None and failure.reason is not FailureReason.COUNT_LIMIT:
            return failure
        return Answer(self._columns, tuple(self._rows), more=failure is not None)


@dataclass(frozen=True, slots=True)
class Ahead:
    """The text that a look will stream first, told beforehand, and the newest good position that it must not be behind.

    A dialect may send it along with its opening, if the server itself holds it back wherever the look would be refused.
    """

    text: str
    newest_good: Position | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a look may take, fixed when it opens.

    ``statement`` bounds the text, ``lock_wait`` each lock; ``declared`` is the time limit as people know it. ``opening`` is how
    long the server may take to answer the opening: one that hangs must leave time to ask another.
    """

    statement: timedelta
    lock_wait: timedelta
    declared: timedelta
    opening: timedelta

    @classmethod
    def within(cls, remaining: timedelta, declared: timedelta, opening: timedelta | None = None) -> Limits:
        """A lock is waited for at most half of the time, and never longer than ten seconds: so that it is told apart."""
        remaining = max(remaining, _SHORTEST)
        opening = remaining if opening is None else min(max(opening, _SHORTEST), remaining)
        return cls(remaining, min(remaining / 2, _LONGEST_LOCK_WAIT), declared, opening)

    def after(self, spent: timedelta) -> Limits:
        """The same with less for the text: what was asked before it took its time."""
        return replace(self, statement=max(self.statement - spent, _SHORTEST))


class Look(Protocol):
    """One read-only transaction on one replica: everything asked through it sees one snapshot."""

    @property
    def position(self) -> Position:
        """Where the replica stood when the transaction began."""
        ...

    @property
    def safe_columns(self) -> frozenset[str] | None:
        """The database's cap on what a catalog may call safe; None for no cap."""
        ...

    def stream(self, sql: str, *, on_columns: OnColumns, count_limit: int | None) -> Streamed:
        """Run an invariant's own text: alone, byte for byte, once, without parameters; its rows go by one at a time."""
        ...

    def ask(self, sql: str, *, limit: int) -> Answer | Failure:
        """Ask a side question (``population``, ``rows_sql``); a failure leaves the transaction usable."""
        ...

    def evidence(
        self,
        *,
        key: str,
        columns: tuple[Column, ...],
        row: Row,
        base_rows: tuple[BaseRows, ...],
        reads: tuple[str, ...],
        mask: Mask,
    ) -> Evidence:
        """The base rows of one violation, their parents, and the schema of these and of the tables that the text ``reads``.

        Never fails, but says what is missing.
        """
        ...


@runtime_checkable
class Tracing(Protocol):
    """A look at a server that knows more of its writers than their rows do."""

    def traces(self, xids: Collection[int], since: Position | None) -> Traces:
        """What is known of these transactions, ``since`` a former run; never fails, but says why it does not know."""
        ...


class Link(Look, Protocol):
    """One connection to one replica, used by one thread at a time; ``interrupt`` may be called from any.

    ``opened`` is where the replica stands, also when it will not do; ``streamed`` what the text of the look came to. Both
    are None until then.
    """

    opened: Position | None
    streamed: Streamed | None

    def open(
        self, limits: Limits, config: DatabaseConfig, *, keep_raw: bool, ahead: Ahead | None = None
    ) -> Failure | None:
        """Begin the read-only transaction, set the limits and read the position, in one message.

        With ``ahead`` the text that will be streamed first may be sent along.
        """
        ...

    def end(self) -> bool:
        """Roll back and drop what a session may keep; False if the connection must not be used again."""
        ...

    def interrupt(self) -> None:
        """Cancel on the server what runs now; it ends as ``interrupted``."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class DialectDriver(Protocol):
    """One kind of database: how to connect to it. Everything else is its link's."""

    def connect(
        self, config: DatabaseConfig, replica: ReplicaConfig, *, environ: Mapping[str, str], within: timedelta
    ) -> Link | Failure:
        """Open a new connection; secrets are read now (semantics 1.7)."""
        ...


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """What the last look said of a replica; ``up`` and ``lag`` are None while nothing is known."""

    database: str
    replica: str
    up: bool | None = None
    lag: timedelta | None = None
    role: str = ""
    checked_at: datetime | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """An execution, judged.

    ``failure`` is why it is errored, or why it was cut short. ``former`` is what the former definition came to
    in the same look. ``rows_note`` is what ``rows_sql`` had to say beside the count: that it disagrees, or could not be asked.
    ``populated``: ``population`` was asked and found something;
    ``population`` is its number, if it was one.
    """

    outcome: Outcome
    tallied: Tallied
    failure: Failure | None
    complete: bool
    statement: timedelta
    position: Position
    evidence: tuple[Evidence, ...] = field(default=())
    rows_note: str = ""
    former: Former | None = None
    populated: bool = False
    population: int | None = None
