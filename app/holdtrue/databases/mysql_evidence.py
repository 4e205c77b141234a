"""takes the base rows of a violation and their parents from MariaDB or MySQL"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol

from holdtrue.databases.looks import Mask
from holdtrue.databases.taking import DEPTH_LIMIT, ROWS_LIMIT, SECONDS_LIMIT, Taking, no_right
from holdtrue.model import BaseRows, Column, Evidence, EvidenceRow, Position, Row

_MANY: Final = 10_000
_SHOWN_BYTES: Final = re.compile(r"x'(?:[0-9a-f]{2})*'")
_BYTES: Final = ("binary", "varbinary", "blob", "bit", "geometry")
_SIZED: Final = re.compile(r"^(?:tiny|medium|long)(text|blob)\b")
_COUNTER: Final = re.compile(r" AUTO_INCREMENT=[0-9]+")


class Asking(Protocol):
    """What evidence needs of a connection."""

    schema_cache: dict[Any, Any]

    @property
    def position(self) -> Position:
        """Where the transaction stands."""
        ...

    def limit(self, within: timedelta) -> None:
        """The server's limit for what follows."""
        ...

    def query(self, sql: str, *, limit: int, within: timedelta) -> list[Row]:
        """Rows of a statement of ours."""
        ...


@dataclass(frozen=True, slots=True)
class _Foreign:
    parent: str
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    schema: str
    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    foreign: tuple[_Foreign, ...]
    shown: str

    @property
    def reference(self) -> str:
        return f"{quote(self.schema)}.{quote(self.name)}"


@dataclass(slots=True)
class _Taken(Taking):
    asking: Asking = field(kw_only=True)
    tables: dict[str, _Table] = field(default_factory=dict)

    def query(self, sql: str, limit: int = _MANY) -> list[Row]:
        return self.asking.query(sql, limit=limit, within=self.left)


def take_evidence(
    asking: Asking,
    *,
    key: str,
    columns: tuple[Column, ...],
    row: Row,
    base_rows: tuple[BaseRows, ...],
    reads: tuple[str, ...] = (),
    mask: Mask,
    blocked: str = "",
) -> Evidence:
    """Evidence of one violation; its failure is recorded in it and changes nothing else (semantics 9.1).

    No row says who wrote it: neither server tells a row's transaction (semantics 9.3).
    """
    taken = _Taken(mask, asking=asking)
    schema = ""
    left_out: tuple[str, ...] = ()
    if taken.may_begin(base_rows, blocked):
        try:
            asking.limit(timedelta(seconds=SECONDS_LIMIT))
            _follow(taken, columns, row, base_rows)
            taken.forbidden = ""
            for name in reads:
                table = _find(taken, name)
                if table is not None:
                    taken.tables.setdefault(table.reference, table)
            schema, left_out = _describe(taken)
        except Exception as problem:  # noqa: BLE001  whatever happens here, the run's outcome stands
            taken.failed(problem)
    return taken.evidence(key=key, columns=columns, row=row, position=asking.position, schema=schema, left_out=left_out)


def _follow(taken: _Taken, columns: tuple[Column, ...], row: Row, base_rows: tuple[BaseRows, ...]) -> None:
    """Base rows, then their parents, level by level."""
    values = {column.name: value for column, value in zip(columns, row, strict=True)}
    level: list[tuple[_Table, Row]] = []
    for base in base_rows:
        table = _find(taken, base.table)
        if table is None:
            taken.missing.append(f"table {base.table} was not found")
            continue
        absent = [ours for _, ours in base.where if ours not in values]
        unknown = [theirs for theirs, _ in base.where if theirs not in table.columns]
        if absent or unknown:
            which = f"the query does not return: {', '.join(absent)}" if absent else ""
            which = which or f"{table.shown} does not have: {', '.join(unknown)}"
            taken.missing.append(f"base_rows name columns that {which}")
            continue
        found = _rows(taken, table, [(theirs, values[ours]) for theirs, ours in base.where], parent=False)
        level.extend((table, one) for one in found)
        if not found:
            taken.missing.append(f"no row of {table.shown} matches this violation")
    for _ in range(DEPTH_LIMIT):
        level = _parents(taken, level)
        if not level:
            return
    taken.missing.append(f"parents beyond {DEPTH_LIMIT} levels were not followed")


def _parents(taken: _Taken, level: list[tuple[_Table, Row]]) -> list[tuple[_Table, Row]]:
    above: list[tuple[_Table, Row]] = []
    asked: set[tuple[_Foreign, Row]] = set()
    for table, raw in level:
        places = {name: place for place, name in enumerate(table.columns)}
        for foreign in table.foreign:
            key = tuple(raw[places[name]] for name in foreign.columns if name in places)
            if None in key or len(key) != len(foreign.columns) or (foreign, key) in asked:
                continue
            asked.add((foreign, key))
            parent = _find(taken, foreign.parent)
            if parent is None:
                reference = ".".join(quote(one) for one in foreign.parent.split("."))
                taken.missing.append(no_right(foreign.parent, reference, parent=True))
                continue
            wanted = list(zip(foreign.parent_columns, key, strict=True))
            before = taken.matched
            above.extend((parent, one) for one in _rows(taken, parent, wanted, parent=True))
            if taken.matched == before:
                taken.lacks_parent(table.shown, parent.shown)
    return above


def _rows(taken: _Taken, table: _Table, wanted: Sequence[tuple[str, str | None]], *, parent: bool) -> list[Row]:
    """The rows with these values that were not taken yet: raw, to be followed; masked, they are in ``taken``."""
    taken.tables[table.reference] = table
    taken.reads(table.shown, table.reference, parent=parent)
    types = dict(zip(table.columns, table.types, strict=True))
    condition = " AND ".join(
        f"{quote(name)} IS NULL" if value is None else f"{quote(name)} = {literal(value, types[name])}"
        for name, value in wanted
    )
    names = ", ".join(_cell(name, kind) for name, kind in types.items())
    raw: list[Row] = []
    text = f"SELECT {names} FROM {table.reference} WHERE {condition} LIMIT {ROWS_LIMIT + 1}"
    for values in taken.query(text, ROWS_LIMIT + 1):
        if taken.has((table.reference, values), parent=parent):
            continue
        if taken.full:
            taken.missing.append(f"more than {ROWS_LIMIT} rows")
            break
        raw.append(values)
        taken.kept[table.reference, values] = EvidenceRow(
            table=table.shown,
            columns=table.columns,
            values=tuple(taken.masks(table.shown, table.columns, table.types, values)),
            types=table.types,
            is_parent=parent,
        )
    return raw


def _cell(name: str, type_name: str) -> str:
    """A column as it is read. A TIMESTAMP is a moment and is shown in a zone: in UTC, where its text means one moment."""
    if not type_name.startswith("timestamp"):
        return quote(name)
    digits = type_name.removeprefix("timestamp").partition(")")[0].lstrip("(") or "0"
    epoch = f"CAST(UNIX_TIMESTAMP({quote(name)}) * 1000000 AS SIGNED)"
    moment = f"CAST(TIMESTAMPADD(MICROSECOND, {epoch}, '1970-01-01 00:00:00') AS DATETIME({int(digits)}))"
    return f"IF({quote(name)} = 0, '0000-00-00 00:00:00', {moment})"


def _find(taken: _Taken, written: str) -> _Table | None:
    """A table as ``base_rows`` name it: ``refunds`` of the URL's database, or ``payments.refunds``."""
    cache = taken.asking.schema_cache
    if written not in cache:
        schema, dot, name = written.replace("`", "").rpartition(".")
        cache[written] = _read(taken, literal(schema) if dot else "DATABASE()", name, written)
    found: _Table | None = cache[written]
    return found


def _read(taken: _Taken, schema: str, name: str, written: str) -> _Table | None:
    of_table = f"table_schema = {schema} AND table_name = {literal(name)}"
    described = taken.query(
        "SELECT table_schema, table_name, column_name, column_type FROM information_schema.columns"
        f" WHERE {of_table} AND extra NOT LIKE '%GENERATED%' ORDER BY table_name, ordinal_position"
    )
    if not described:
        return None
    # Names that differ in case alone may be two tables, or one: the server's file system decides.
    names = {one[1] for one in described}
    real = name if name in names else sorted(str(one) for one in names)[0]
    columns = [one for one in described if one[1] == real]
    home = str(columns[0][0])
    references: dict[str, list[Row]] = {}
    for one in taken.query(
        "SELECT constraint_name, referenced_table_schema, referenced_table_name, column_name, referenced_column_name"
        f" FROM information_schema.key_column_usage WHERE table_schema = {literal(home)}"
        f" AND table_name = {literal(real)} AND referenced_table_name IS NOT NULL"
        " ORDER BY constraint_name, ordinal_position"
    ):
        references.setdefault(str(one[0]), []).append(one)
    foreign = tuple(
        _Foreign(
            f"{parts[0][1]}.{parts[0][2]}" if parts[0][1] != home or "." in written else str(parts[0][2]),
            tuple(str(part[3]) for part in parts),
            tuple(str(part[4]) for part in parts),
        )
        for parts in references.values()
    )
    types = tuple(_SIZED.sub(r"\1", str(one[3])) for one in columns)
    return _Table(home, real, tuple(str(one[2]) for one in columns), types, foreign, written.replace("`", ""))


def _describe(taken: _Taken) -> tuple[str, tuple[str, ...]]:
    """The tables' DDL as the server writes it, and the triggers that are left out."""
    made: list[str] = []
    left_out: list[str] = []
    # Parents first, so that it can be loaded.
    for table in reversed(taken.tables.values()):
        taken.reads(table.shown, table.reference, parent=False)
        _, text, *_ = taken.query(f"SHOW CREATE TABLE {table.reference}", 1)[0]
        made.append(without_counter(str(text)) + ";")
        triggers = (
            "SELECT trigger_name FROM information_schema.triggers"
            f" WHERE event_object_schema = {literal(table.schema)} AND event_object_table = {literal(table.name)}"
        )
        left_out.extend(f"trigger {name} on {table.shown}" for (name,) in taken.query(triggers))
    return "\n".join(made) + "\n", tuple(left_out)


def without_counter(ddl: str) -> str:
    """A table's DDL as the server writes it, without how far its numbers have come: that tells how many rows there are."""
    return _COUNTER.sub("", ddl)


def quote(identifier: str) -> str:
    """A name in backticks."""
    return "`" + identifier.replace("`", "``") + "`"


def literal(value: str, type_name: str = "") -> str:
    """A value in hexadecimal: there is no quoting to get wrong, whatever the session's sql_mode.

    Bytes that we show as ``x'…'`` are bytes again for a column that holds bytes.
    """
    if type_name.startswith(_BYTES) and _SHOWN_BYTES.fullmatch(value):
        return value
    return "_utf8mb4 x'" + value.encode("utf-8", "surrogatepass").hex() + "'"
