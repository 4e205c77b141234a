"""what a ticket says beside its frozen block"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdtrue.model import NearDeploy, Position, Traces
from holdtrue.model.traces import UNTRACED


@dataclass(frozen=True, slots=True)
class Writer:
    """A transaction that wrote rows in the window; ``rows`` names them by table and number in ``observed``.

    ``behind`` are the tables of those that are no mere parents: the rows behind the violation.
    """

    xid: int | None
    committed_at: datetime | None
    rows: tuple[str, ...]
    behind: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TicketContext:
    """What the reader of a ticket needs. ``schema_sql`` and ``left_out`` are for the reader, never for the test.

    ``rehearsed`` is what came of trying the rows at export (``breaks``, ``not looked``) and ``rehearsed_how`` the sentence;
    ``deploys`` are those beside the window, None where nobody ever told of one; ``lost`` are pairs of tables, child and
    parent, where a kept row refers to one that was not kept. ``timezone`` and ``search_path`` are the database's: who tries
    the rows elsewhere needs them. ``moves`` are numbers that are moved with the clock, ``stays`` those that may have to be.
    """

    alert: int
    created_at: datetime
    created_by: str
    description: str = ""
    severity: str = ""
    owner: str = ""
    assumes: str = ""
    operation: str = ""
    page_url: str = ""
    first_bad: Position | None = None
    first_bad_at: datetime | None = None
    last_good: Position | None = None
    last_good_at: datetime | None = None
    split: str = ""
    writers: tuple[Writer, ...] = ()
    traces: Traces = UNTRACED
    definition: str = ""
    generation: int = 0
    deploys: tuple[NearDeploy, ...] | None = None
    masked: tuple[str, ...] = ()
    schema_sql: str = ""
    left_out: tuple[str, ...] = ()
    incomplete: str = ""
    keys: int = 1
    moves: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    timezone: str = "UTC"
    search_path: str = ""
    rehearsed: str = "not looked"
    rehearsed_how: str = "nobody asked"
    lost: tuple[tuple[str, str], ...] = ()
