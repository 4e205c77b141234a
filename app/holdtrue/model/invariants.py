"""an invariant, its schedule and its policy"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from holdtrue.model.examples import Examples
from holdtrue.model.problems import Place

NAME_PATTERN = r"^[a-z][a-z0-9_]*$"
NAME_LIMIT = 63


class Severity(StrEnum):
    """How bad it is for the business when the invariant is broken."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Returns(StrEnum):
    """What the text returns: violating rows, or one number of them."""

    ROWS = "rows"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Interval:
    """Due on a fixed grid of ``every``, plus a stable offset (semantics 2.5)."""

    every: timedelta


@dataclass(frozen=True, slots=True)
class Cron:
    """Due by a five-field cron line in a named time zone."""

    line: str
    timezone: str = "UTC"


Schedule = Interval | Cron


@dataclass(frozen=True, slots=True)
class Settle:
    """Rows whose ``column`` is younger than ``after`` settle, each key for at most ``at_most`` (semantics 5.1)."""

    column: str
    after: timedelta
    at_most: timedelta


@dataclass(frozen=True, slots=True)
class Waiver:
    """An accepted violation: key columns and their server text, a reason and an end; ``place`` is where it is written."""

    key: tuple[tuple[str, str], ...]
    reason: str
    until: datetime
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class BaseRows:
    """The rows of ``table`` behind a violation: column of the table = column of the violation.

    ``written_at`` is the column with the time at which a row was last written, where no row says who wrote it.
    """

    table: str
    where: tuple[tuple[str, str], ...]
    written_at: str = ""


@dataclass(frozen=True, slots=True)
class States:
    """How the states of a table column follow one another: ``(before, after)``, for the guess of a former state."""

    column: str
    moves: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """Per-invariant limits on when people are told."""

    fire_after: int = 1
    resolve_after: int = 1
    remind_every: timedelta | None = timedelta(hours=24)
    worsen_every: timedelta = timedelta(hours=1)
    reopen_within: timedelta = timedelta(hours=1)
    tolerate: int = 0


@dataclass(frozen=True, slots=True)
class Invariant:
    """A named SQL query that returns the rows which break a rule; no rows means that it holds.

    ``columns`` are the names declared safe, of the result (``dispute_id``) or of tables (``refunds.state``); every
    other column is hashed before it leaves the run. ``definition`` is the hash of all that decides what counts
    (semantics 1.1), ``meaning`` that of its text and key alone: under another one an equal key may mean something else.
    ``databases`` are names, globs resolved; ``declared_databases`` what was written. ``budget`` is the statement time that a
    day on one database may cost before that is said (semantics 8.4).
    """

    name: str
    sql: str
    databases: tuple[str, ...]
    schedule: Schedule
    definition: str
    meaning: str = ""
    description: str = ""
    severity: Severity = Severity.WARNING
    owner: str = ""
    tags: tuple[str, ...] = ()
    returns: Returns = Returns.ROWS
    key: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()
    timeout: timedelta = timedelta(seconds=10)
    count_limit: int | None = None
    budget: timedelta | None = None
    policy: Policy = field(default_factory=Policy)
    declared_databases: tuple[str, ...] = ()
    population: str | None = None
    rows_sql: str | None = None
    settle: Settle | None = None
    confirm: timedelta | None = None
    waive: tuple[Waiver, ...] = ()
    base_rows: tuple[BaseRows, ...] = ()
    operation: str | None = None
    states: tuple[States, ...] = ()
    assumes: str = ""
    runbook_url: str = ""
    links: tuple[tuple[str, str], ...] = ()
    renamed_from: str | None = None
    inspected: bool = False
    examples: Examples = field(default_factory=Examples)
    tables: tuple[str, ...] = ()
    place: Place | None = None

    def is_safe(self, column: str) -> bool:
        """Whether a result column (``dispute_id``) or table column (``refunds.state``) may be shown."""
        return column in self.columns

    def safe_within(self, cap: frozenset[str] | None) -> frozenset[str]:
        """The columns that are declared safe and that the database's `safe_columns` let anyone call so (semantics 4.4)."""
        return frozenset(name for name in self.columns if may_be_safe(name, cap))


def may_be_safe(column: str, cap: frozenset[str] | None) -> bool:
    """Whether ``cap``, names and patterns (``refunds.*``), lets a column be called safe; without a cap every one may be."""
    return cap is None or any(fnmatchcase(column, pattern) for pattern in cap)
