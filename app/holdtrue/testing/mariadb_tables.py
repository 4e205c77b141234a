"""what stands in a barrier database on MariaDB or MySQL: its tables, columns, keys, triggers and counters"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdtrue.testing.mariadb_connecting import quoted, run

if TYPE_CHECKING:
    from pymysql.connections import Connection

_BYTES = frozenset(
    {
        *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit", "vector"),
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    }
)
_TABLES = """
SELECT table_name, table_type, auto_increment FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type NOT LIKE '%VIEW' ORDER BY table_name
"""
_COLUMNS = """
SELECT column_name, data_type, extra, is_nullable = 'NO' AND column_default IS NULL AND extra NOT LIKE '%%auto_increment%%',
       column_key = 'PRI'
FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = %s ORDER BY ordinal_position
"""
_KEYS = """
SELECT constraint_name, table_name, referenced_table_name, column_name, referenced_column_name
FROM information_schema.key_column_usage
WHERE table_schema = DATABASE() AND referenced_table_schema = DATABASE() AND referenced_table_name IS NOT NULL
ORDER BY table_name, constraint_name, ordinal_position
"""
_TRIGGERS = "SELECT trigger_name, event_object_table FROM information_schema.triggers WHERE trigger_schema = DATABASE()"


@dataclass(frozen=True, slots=True)
class MariadbColumn:
    """A column as rows are loaded into it. ``required``: it has no value of its own."""

    name: str
    kind: str
    extra: str
    required: bool
    primary: bool

    @property
    def generated(self) -> bool:
        """Whether the server computes it."""
        extra = self.extra.upper().replace("DEFAULT_GENERATED", "")
        return "GENERATED" in extra

    @property
    def holds_bytes(self) -> bool:
        """Whether a frozen cell of it is written ``x'00ff'``."""
        return self.kind.lower() in _BYTES


@dataclass(frozen=True, slots=True)
class MariadbTable:
    """A table, or a sequence of MariaDB. ``counter`` is its next AUTO_INCREMENT."""

    name: str
    kind: str
    counter: int | None

    @property
    def is_sequence(self) -> bool:
        """Whether it is a sequence."""
        return self.kind == "SEQUENCE"

    @property
    def is_versioned(self) -> bool:
        """Whether it keeps rows that were deleted."""
        return self.kind == "SYSTEM VERSIONED"


@dataclass(frozen=True, slots=True)
class MariadbKey:
    """A foreign key."""

    name: str
    child: str
    parent: str
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]

    @property
    def unmet(self) -> str:
        """Finds a row that refers to what is not there; a NULL refers to nothing."""
        given = " AND ".join(f"c.{quoted(name)} IS NOT NULL" for name in self.columns)
        pairs = zip(self.columns, self.parent_columns, strict=True)
        equal = " AND ".join(f"p.{quoted(theirs)} = c.{quoted(ours)}" for ours, theirs in pairs)
        inner = f"SELECT 1 FROM {quoted(self.parent)} p WHERE {equal}"
        return f"SELECT 1 FROM {quoted(self.child)} c WHERE {given} AND NOT EXISTS ({inner}) LIMIT 1"


class MariadbTables:
    """Asks the server for them; a session of ours whose foreign keys do not bind."""

    def __init__(self, connection: Connection[Any]) -> None:
        """``connection`` was opened pinned."""
        self._connection = connection

    def all(self) -> list[MariadbTable]:
        """Every table and sequence of the database."""
        return [MariadbTable(*row) for row in run(self._connection, _TABLES)]

    def columns(self, table: str) -> list[MariadbColumn]:
        """A table's columns in their order, hidden ones too."""
        return [
            MariadbColumn(name, kind, extra or "", bool(required), bool(primary))
            for name, kind, extra, required, primary in run(self._connection, _COLUMNS, [table])
        ]

    def foreign_keys(self) -> list[MariadbKey]:
        """Every foreign key within the database."""
        found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
        for row in run(self._connection, _KEYS):
            found.setdefault((row[1], row[0]), []).append(row)
        return [
            MariadbKey(rows[0][0], rows[0][1], rows[0][2], tuple(one[3] for one in rows), tuple(one[4] for one in rows))
            for rows in found.values()
        ]

    def filled(self, tables: Sequence[MariadbTable]) -> list[MariadbTable]:
        """Those that have a row."""
        plain = [one for one in tables if not one.is_sequence]
        if not plain:
            return []
        parts = [f"SELECT {place} WHERE EXISTS (SELECT 1 FROM {quoted(one.name)})" for place, one in enumerate(plain)]
        places = {row[0] for row in run(self._connection, " UNION ALL ".join(parts))}
        return [one for place, one in enumerate(plain) if place in places]

    @contextlib.contextmanager
    def without_triggers(self, tables: Sequence[str]) -> Iterator[None]:
        """Rows carry what triggers made of them already. No server can switch them off: they go, and come back."""
        wanted = set(tables)
        names = [name for name, table in run(self._connection, _TRIGGERS) if table in wanted]
        # Columns: name, sql_mode, statement, character set of the client, collations of connection and database.
        made = [run(self._connection, f"SHOW CREATE TRIGGER {quoted(name)}")[0] for name in names]
        try:
            for name in names:
                run(self._connection, f"DROP TRIGGER {quoted(name)}")
            yield
        finally:
            there = {name for name, _ in run(self._connection, _TRIGGERS)}
            for name, mode, statement, *_ in made:
                if name not in there:
                    run(self._connection, "SET @holdtrue_mode = @@session.sql_mode")
                    run(self._connection, "SET SESSION sql_mode = %s", [mode])
                    run(self._connection, statement)
                    run(self._connection, "SET SESSION sql_mode = @holdtrue_mode")
