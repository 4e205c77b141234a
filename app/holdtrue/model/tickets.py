"""a ticket, and the frozen block of its scaffold with its checksum"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from holdtrue.model.runs import Row

LACKS_A_ROW: Final = "the seed has no row of it"
"""What ``Incident.marked`` says of a table that the code under test may look in and find nothing."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table as the server's own text; NULL is None. ``types`` are the server's type names."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Incident:
    """The frozen part of a scaffold: what was there, what the race wrote, and the rule, byte for byte.

    ``seed`` was there before the window, parents first; ``observed`` was written in it (semantics 9.3). ``marked`` lists
    the cells of ``seed`` that no database could tell and that must be filled or are guesses: ``table.column: sentence``.
    """

    id: str
    invariant: str
    database: str
    engine: str
    sql: str
    returns: str
    seed: tuple[TableRows, ...]
    observed: tuple[TableRows, ...]
    pattern: str = "general"
    marked: tuple[str, ...] = ()
    incident_now: str = ""

    def as_data(self) -> dict[str, object]:
        """The block as plain JSON data, in a fixed order."""

        def rows(tables: tuple[TableRows, ...]) -> list[dict[str, object]]:
            return [
                {
                    "table": one.table,
                    "columns": list(one.columns),
                    "types": list(one.types),
                    "rows": [list(row) for row in one.rows],
                }
                for one in tables
            ]

        return {
            "id": self.id,
            "invariant": self.invariant,
            "database": self.database,
            "engine": self.engine,
            "sql": self.sql,
            "returns": self.returns,
            "pattern": self.pattern,
            "seed": rows(self.seed),
            "observed": rows(self.observed),
            "marked": list(self.marked),
            "incident_now": self.incident_now,
        }

    @property
    def checksum(self) -> str:
        """SHA-256 over the whole block: an edited block is an error, never a quiet pass (semantics 9.6)."""
        text = json.dumps(self.as_data(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()


class Tried(StrEnum):
    """Who tried, before a ticket left, whether its rows break the rule."""

    HERE = "here"
    BY_CALLER = "tried by the caller"
    UNTRIED = "untried"


@dataclass(frozen=True, slots=True)
class Ticket:
    """The record that ties an alert to the test that shall reproduce it. ``files`` are {path: text}, sorted by path.

    ``draft`` makes the same files again for a day; it holds the salt of the stand-ins, so it is a secret. Only a preview has
    one, and it is not kept with the ticket. ``tried`` stands in the audit record, and in the files with its reason.
    """

    id: str
    alert: int
    invariant: str
    database: str
    created_at: datetime
    created_by: str
    files: tuple[tuple[str, str], ...] = ()
    draft: str = ""
    tried: Tried = Tried.HERE
