"""a run, where it looked and what it saw"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from holdtrue.model.traces import UNTRACED, Traces

Row = tuple[str | None, ...]
"""One row as the server's own text; NULL is None."""


class Outcome(StrEnum):
    """How a run ended."""

    HELD = "held"
    VIOLATED = "violated"
    ERRORED = "errored"
    SKIPPED = "skipped"


class RunKind(StrEnum):
    """Why a run was made."""

    SCHEDULED = "scheduled"
    CONFIRMING = "confirming"
    ASKED = "asked"


class Disposition(StrEnum):
    """What a returned row counts as (semantics 4.1)."""

    COUNTED = "counted"
    SETTLING = "settling"
    WAIVED = "waived"


class Novelty(StrEnum):
    """What we know of a key that has counted, over time (semantics 4.1)."""

    NEW = "new"
    KNOWN = "known"
    RETURNED = "returned"
    FIXED = "fixed"


class FailureReason(StrEnum):
    """Why a run could not look, or not to the end."""

    LAGGING = "lagging"  # beyond max_lag
    CUT_OFF = "cut off"  # the replica hears nothing from its sender
    REPLAY_PAUSED = "replay paused"
    NO_HEARTBEAT = "no heartbeat"  # the database's heartbeat gives no moment that could be believed
    WENT_BACK = "went back"
    ANOTHER_SERVER = "another server"
    IS_PRIMARY = "is a primary"  # and allow_primary is not set
    REFUSED = "connection refused"  # cannot connect or log in
    LOST = "connection lost"
    CONFLICT = "recovery conflict"
    TIMEOUT = "timeout"
    LOCK_WAIT = "lock wait"
    BUSY = "busy"  # no place in the pool, or a SQLite file locked by a writer
    WRITES = "tried to write"
    FORBIDDEN = "permission denied"
    QUERY = "query failed"
    SHAPE = "shape"
    NULL_COUNT = "the query returned NULL"
    COUNT_LIMIT = "count limit"
    POPULATION = "population"
    VACUOUS = "vacuous"
    INTERRUPTED = "interrupted"
    MISSED = "missed"  # a due time nobody was there for (skipped)
    SUPERSEDED = "definition changed"
    SURPRISE = "unexpected error"  # a fault of ours, told apart from the database's


@dataclass(frozen=True, slots=True)
class Failure:
    """Why we could not look, in our own words; never the server's message (semantics 3.5).

    ``sqlstate`` and ``position`` (in the invariant's text, counted from 1) come from the server. ``raw`` is the server's
    message: only ``holdtrue run --raw`` keeps it, and only for the caller's terminal. ``stood`` is where the replica stood
    that would not do, if it said so.
    """

    reason: FailureReason
    sentence: str
    sqlstate: str | None = None
    position: int | None = None
    raw: str | None = None
    stood: Position | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where a replica stood in a run (semantics 2.3, 3.2).

    ``log_position`` is an LSN on PostgreSQL; ``snapshot`` is ``pg_current_snapshot()``; ``in_progress`` the transaction ids
    of its band that were running, or None if the band was not read. On MariaDB and MySQL ``log_position`` is the GTID set that
    the snapshot holds at most, and ``snapshot`` the one that it surely holds. ``moment`` is the database's own now(). Dialects
    without a notion leave it empty. ``role`` is ``standby``, ``primary`` or ``file``. ``failover`` marks a timeline that is
    newer than the newest good run's.
    """

    replica: str
    moment: datetime
    role: str = ""
    system: str = ""
    timeline: int = 0
    log_position: str = ""
    snapshot: str = ""
    in_progress: tuple[int, ...] | None = None
    lag: timedelta | None = None
    freshness_proven: bool = False
    failover: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result: a name made unique within it, and the server's type name."""

    name: str
    type_name: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """A few returned rows, masked: what pages and messages may show.

    ``keys`` are the rows' key hashes, by row; ``novelties`` likewise.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    keys: tuple[str, ...] = ()
    novelties: tuple[str, ...] = ()
    masked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """A base row or a parent, as masked server text, and who wrote it where the database can tell.

    ``side`` is ``before``, ``after`` or ``in flight`` (semantics 9.3), or ``unknown``.
    """

    table: str
    columns: tuple[str, ...]
    values: Row
    types: tuple[str, ...] = ()
    is_parent: bool = False
    xid: int | None = None
    committed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Base rows and their writers, taken in the run that first returned a key (semantics 9.1).

    ``incomplete`` says why something is missing; empty if nothing is. ``schema_sql`` is the DDL of the captured tables.
    ``pseudonymised`` names the table columns whose values are stand-ins. ``traces`` is what the server knows of its writers.
    """

    key: str
    violation_columns: tuple[str, ...]
    violation: Row
    rows: tuple[EvidenceRow, ...]
    position: Position
    schema_sql: str = ""
    left_out: tuple[str, ...] = ()
    pseudonymised: tuple[str, ...] = ()
    incomplete: str = ""
    traces: Traces = UNTRACED


@dataclass(frozen=True, slots=True)
class KeyState:
    """What the ledger knows of one key. ``key`` is its keyed hash, with ``#2`` … for equal keys in one run.

    ``present_since`` is when it was first seen since it was last gone; ``young_since`` the moment of its row, by
    ``settle.column``, when it began to settle. A key that went while it settled is ``healed``.
    """

    key: str
    disposition: Disposition
    novelty: Novelty
    first_seen: datetime
    last_changed: datetime
    first_counted: datetime | None = None
    shown: str = ""
    present_since: datetime | None = None
    young_since: datetime | None = None

    @property
    def healed(self) -> bool:
        """Whether it went by itself, before it had to count (semantics 5.1)."""
        return self.novelty is Novelty.FIXED and self.disposition is Disposition.SETTLING

    @property
    def healed_after(self) -> timedelta | None:
        """How old its row was when it was found gone; None if it has not healed."""
        if not self.healed:
            return None
        return max(timedelta(0), self.last_changed - (self.young_since or self.present_since or self.first_seen))


@dataclass(frozen=True, slots=True)
class Tallied:
    """What the rows of one execution came to, before the past is looked at.

    ``keys`` maps each kept key to its disposition and its masked text; above the ledger's limit it holds the smallest
    hashes and ``horizon`` is the largest of them (semantics 4.3). ``key_columns`` are the columns that identify a row: the
    declared key, or all of them. ``identified`` is False where rows have no identity (``returns: count``). ``shape`` says
    why the result is not of the shape that was declared. ``young`` are the moments of the rows that settle, by key.
    """

    returned: int
    counted: int
    settling: int
    waived: int
    keys: dict[str, tuple[Disposition, str]]
    sample: Sample
    horizon: str | None = None
    key_columns: tuple[str, ...] = ()
    identified: bool = True
    shape: Failure | None = None
    young: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Former:
    """What a former definition came to, asked in the very look in which the new one held (semantics 1.2).

    ``problem`` says why it could not be asked, or not to the end without a proof; ``violated`` is whether it counts more
    than it tolerated. ``revision`` names the catalog that brought the new text.
    """

    revision: str
    violated: bool = False
    counted: int = 0
    complete: bool = True
    problem: str = ""

    def show_count(self) -> str:
        """The count as people read it."""
        return f"{self.counted}" if self.complete else f"at least {self.counted}"


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of one invariant on one database, at one due time.

    A run that found more than it tolerates and was then cut short is ``violated`` and not ``complete``: its count says
    "at least" (semantics 3.4). ``duration`` is the whole run, ``statement`` the time the server worked on the text.
    ``confirms`` is the run that this one is the second reading of. ``again`` counts its keys that the good run before it had
    counted too, None where nobody wants that or keys cannot be compared;
    ``again_new`` those of them that joined the alert since the last message. ``rejoined`` counts its keys that an earlier
    episode knew and the open one did not yet: it is there to decide on, and the store keeps none of it.
    ``suspicious`` says why the count may speak of the text rather than of the data; empty if nothing does.
    """

    invariant: str
    database: str
    definition: str
    due_at: datetime
    started_at: datetime
    outcome: Outcome
    kind: RunKind = RunKind.SCHEDULED
    id: int = 0
    attempt: int = 1
    token: int = 0
    generation: int = 0
    returned: int = 0
    counted: int = 0
    settling: int = 0
    waived: int = 0
    new: int = 0
    known: int = 0
    came_back: int = 0
    fixed: int = 0
    healed: int = 0
    complete: bool = True
    of_a_sample: bool = False
    rebaselined: str = ""
    suspicious: str = ""
    failure: Failure | None = None
    position: Position | None = None
    duration: timedelta = timedelta(0)
    statement: timedelta = timedelta(0)
    sample: Sample | None = None
    instance: str = ""
    missed: int = 0
    confirms: int | None = None
    again: int | None = None
    again_new: int = 0
    rejoined: int = 0

    @property
    def good(self) -> bool:
        """Whether it really looked: held or violated."""
        return self.outcome in (Outcome.HELD, Outcome.VIOLATED)

    @property
    def looked_at(self) -> datetime:
        """From when on it speaks: a run made late says nothing of the time since it was due (semantics 8.2)."""
        return max(self.due_at, self.started_at)

    def show_count(self) -> str:
        """The count as people read it, with "at least" where it was cut short."""
        return f"{self.counted}" if self.complete else f"at least {self.counted}"
