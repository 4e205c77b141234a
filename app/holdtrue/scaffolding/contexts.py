"""what a ticket says beside its frozen block"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdtrue.model import Position


@dataclass(frozen=True, slots=True)
class Writer:
    """A transaction that wrote rows in the window; ``rows`` names them by table and number in ``observed``."""

    xid: int | None
    committed_at: datetime | None
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TicketContext:
    """What the reader of a ticket needs. ``schema_sql`` and ``left_out`` are for the reader, never for the test.

    ``rehearsed`` is what came of trying the rows at export (``breaks``, ``not looked``) and ``rehearsed_how`` the sentence;
    ``lost`` are pairs of tables, child and parent, where a kept row refers to one that was not kept.
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
    overlap: str = "not proved"
    masked: tuple[str, ...] = ()
    schema_sql: str = ""
    left_out: tuple[str, ...] = ()
    incomplete: str = ""
    keys: int = 1
    rehearsed: str = "not looked"
    rehearsed_how: str = "nobody asked"
    lost: tuple[tuple[str, str], ...] = ()


def prove_overlap(writers: tuple[Writer, ...]) -> str:
    """Whether two writers are known to have run at once: the older id committed after the younger one.

    The converse proves nothing: the younger may have read earlier.
    """
    for one in writers:
        for other in writers:
            if one.xid is None or other.xid is None or one.committed_at is None or other.committed_at is None:
                continue
            if one.xid < other.xid and one.committed_at > other.committed_at:
                return f"proved by commit order: {one.xid} began to write before {other.xid} and committed after it"
    return "not proved"
