"""takes the base rows of a violation and their parents from a SQLite file"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol

from holdtrue.databases.describing import Described
from holdtrue.databases.looks import Mask
from holdtrue.databases.sqlite_values import show
from holdtrue.model import BaseRows, Column, Evidence, EvidenceRow, Failure, Position, Row

ROWS_LIMIT = 200
DEPTH_LIMIT = 8
SECONDS_LIMIT = 5.0
_CLASSES = {type(None): "null", int: "integer", float: "real", str: "text", bytes: "blob"}


class Asking(Protocol):
    """What evidence needs of a connection."""

    schema_cache: dict[Any, Any]

    @property
    def position(self) -> Position:
        """Where the transaction stands."""
        ...

    def query(self, sql: str, parameters: Sequence[object], *, limit: int, within: timedelta) -> list[tuple[Any, ...]]:
        """Rows of a statement of ours."""
        ...


@dataclass(frozen=True, slots=True)
class _Foreign:
    parent: str
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: tuple[str, ...]
    foreign: tuple[_Foreign, ...]


@dataclass(slots=True)
class _Taken:
    asking: Asking
    mask: Mask
    until: float
    kept: dict[tuple[str, tuple[Any, ...]], EvidenceRow] = field(default_factory=dict)
    tables: dict[str, _Table] = field(default_factory=dict)
    masked: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)

    def has(self, known: tuple[str, tuple[Any, ...]], *, parent: bool) -> bool:
        """Whether the row was taken already; one that another row refers to is a parent from now on, and behind it."""
        row = self.kept.get(known)
        if row is not None and parent:
            del self.kept[known]
            self.kept[known] = replace(row, is_parent=True)
        return row is not None


def take_evidence(
    asking: Asking,
    *,
    key: str,
    columns: tuple[Column, ...],
    row: Row,
    base_rows: tuple[BaseRows, ...],
    mask: Mask,
    blocked: str = "",
) -> Evidence:
    """Evidence of one violation; its failure is recorded in it and changes nothing else (semantics 9.1).

    SQLite keeps no writers: rows carry no transaction, and are split by key at promotion. The types of a row are the
    storage classes of its values, so that ``1`` and ``'1'`` can be told apart and written back.
    """
    taken = _Taken(asking, mask, time.monotonic() + SECONDS_LIMIT)
    schema = ""
    left_out: tuple[str, ...] = ()
    if blocked or not base_rows:
        taken.missing.append(blocked or "no base_rows declared")
    else:
        try:
            _follow(taken, columns, row, base_rows)
            schema, left_out = _describe(taken, tuple(taken.tables))
        except Exception as problem:  # noqa: BLE001  whatever happens here, the run's outcome stands
            failure = getattr(problem, "failure", None)
            unexpected = f"an unexpected {type(problem).__name__}"
            taken.missing.append(failure.sentence if isinstance(failure, Failure) else unexpected)
    return Evidence(
        key=key,
        violation_columns=tuple(column.name for column in columns),
        violation=tuple(
            mask("", column.name, column.type_name, value) for column, value in zip(columns, row, strict=True)
        ),
        rows=tuple(reversed(taken.kept.values())),
        position=asking.position,
        schema_sql=schema,
        left_out=left_out,
        pseudonymised=tuple(sorted(taken.masked)),
        incomplete="; ".join(dict.fromkeys(taken.missing)),
    )


def _left(until: float) -> timedelta:
    return timedelta(seconds=max(0.05, until - time.monotonic()))


def _follow(taken: _Taken, columns: tuple[Column, ...], row: Row, base_rows: tuple[BaseRows, ...]) -> None:
    values = {column.name: value for column, value in zip(columns, row, strict=True)}
    level: list[tuple[_Table, tuple[Any, ...]]] = []
    for base in base_rows:
        table = _find(taken, base.table)
        if table is None:
            taken.missing.append(f"table {base.table} was not found")
            continue
        absent = [ours for _, ours in base.where if ours not in values]
        unknown = [theirs for theirs, _ in base.where if theirs not in table.columns]
        if absent or unknown:
            which = f"the query does not return: {', '.join(absent)}" if absent else ""
            which = which or f"{table.name} does not have: {', '.join(unknown)}"
            taken.missing.append(f"base_rows name columns that {which}")
            continue
        parameters = [values[ours] for _, ours in base.where if values[ours] is not None]
        found: list[tuple[Any, ...]] = []
        # The column's own affinity first, which an index serves; then by text, for columns that hold what they like.
        for comparison in ("{} = ?", "CAST({} AS TEXT) = ?"):
            condition = " AND ".join(
                f"{_quote(theirs)} IS NULL" if values[ours] is None else comparison.format(_quote(theirs))
                for theirs, ours in base.where
            )
            found = _rows(taken, table, condition, parameters, parent=False)
            if found:
                break
        if not found:
            taken.missing.append(f"no row of {table.name} matches this violation")
        level.extend((table, one) for one in found)
    for _ in range(DEPTH_LIMIT):
        above: list[tuple[_Table, tuple[Any, ...]]] = []
        for table, raw in level:
            places = {name: place for place, name in enumerate(table.columns)}
            for foreign in table.foreign:
                parent = _find(taken, foreign.parent)
                keys = [raw[places[name]] for name in foreign.columns]
                if parent is None or None in keys:
                    continue
                condition = " AND ".join(f"{_quote(name)} = ?" for name in foreign.parent_columns)
                rows = _rows(taken, parent, condition, keys, parent=True)
                above.extend((parent, one) for one in rows)
        level = above
        if not level:
            return
    taken.missing.append(f"parents beyond {DEPTH_LIMIT} levels were not followed")


def _rows(
    taken: _Taken, table: _Table, condition: str, parameters: Sequence[object], *, parent: bool
) -> list[tuple[Any, ...]]:
    taken.tables[table.name] = table
    names = ", ".join(_quote(name) for name in table.columns)
    text = f"SELECT {names} FROM {_quote(table.name)} WHERE {condition} LIMIT {ROWS_LIMIT + 1}"
    raw: list[tuple[Any, ...]] = []
    for values in taken.asking.query(text, parameters, limit=ROWS_LIMIT + 1, within=_left(taken.until)):
        identity = (table.name, tuple((type(value).__name__, value) for value in values))
        if taken.has(identity, parent=parent):
            continue
        if len(taken.kept) >= ROWS_LIMIT:
            taken.missing.append(f"more than {ROWS_LIMIT} rows")
            break
        raw.append(tuple(values))
        types = tuple(_CLASSES.get(type(value), "text") for value in values)
        shown: list[str | None] = []
        for name, type_name, value in zip(table.columns, types, (show(value) for value in values), strict=True):
            masked = taken.mask(table.name, name, type_name, value)
            if masked != value:
                taken.masked.add(f"{table.name}.{name}")
                if masked is None:
                    taken.missing.append(f"{table.name}.{name} is withheld (no stand-in for its type; declare it safe)")
            shown.append(masked)
        taken.kept[identity] = EvidenceRow(
            table=table.name, columns=table.columns, values=tuple(shown), types=types, is_parent=parent
        )
    return raw


def _find(taken: _Taken, written: str) -> _Table | None:
    name = written.removeprefix("main.").strip('"')
    cached = taken.asking.schema_cache.get(("table", name.lower()))
    if cached is None:
        cached = taken.asking.schema_cache[("table", name.lower())] = _read(taken, name) or "absent"
    return cached if isinstance(cached, _Table) else None


def _read(taken: _Taken, name: str) -> _Table | None:
    found = taken.asking.query(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND lower(name) = lower(?)",
        [name],
        limit=1,
        within=_left(taken.until),
    )
    if not found:
        return None
    real = found[0][0]
    described = taken.asking.query(
        "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid",
        [real],
        limit=10_000,
        within=_left(taken.until),
    )
    references: dict[int, list[tuple[str, str, str | None]]] = {}
    for number, parent, ours, theirs in taken.asking.query(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq',
        [real],
        limit=10_000,
        within=_left(taken.until),
    ):
        references.setdefault(number, []).append((parent, ours, theirs))
    foreign = []
    for parts in references.values():
        parent = parts[0][0]
        theirs = [theirs for _, _, theirs in parts]
        if None in theirs:
            # Without named columns a foreign key means the parent's primary key.
            theirs = [
                one[0]
                for one in taken.asking.query(
                    "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk",
                    [parent],
                    limit=100,
                    within=_left(taken.until),
                )
            ]
        ours = tuple(one for _, one, _ in parts)
        if len(theirs) == len(ours):
            foreign.append(_Foreign(parent, ours, tuple(str(one) for one in theirs)))
    return _Table(real, tuple(one[0] for one in described), tuple(foreign))


def _describe(taken: _Taken, tables: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The DDL as SQLite keeps it, and the names of triggers that are left out."""
    made, indexes, left_out = [], [], []
    for kind, name, table, text in taken.asking.query(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type DESC, name",
        [],
        limit=100_000,
        within=_left(taken.until),
    ):
        if table not in tables or text is None:
            continue
        if kind == "table":
            made.append(f"{text};")
        elif kind == "index":
            indexes.append(f"{text};")
        else:
            left_out.append(f"{kind} {name} on {table}")
    return "\n".join([*made, *indexes]) + "\n", tuple(left_out)


def describe_with_parents(asking: Asking, written: Sequence[str]) -> Described:
    """The DDL of the tables that a catalog wrote, and of all that they refer to."""
    taken = _Taken(asking, lambda _table, _column, _type, _value: None, time.monotonic() + SECONDS_LIMIT)
    found: dict[str, _Table] = {}
    missing = [name for name in written if _find(taken, name) is None]
    waiting = [table for name in written if (table := _find(taken, name)) is not None]
    while waiting:
        table = waiting.pop()
        if table.name in found:
            continue
        found[table.name] = table
        waiting += [parent for one in table.foreign if (parent := _find(taken, one.parent)) is not None]
    if not found:
        return Described("", (), (), tuple(missing))
    ddl, left_out = _describe(taken, tuple(found))
    return Described(ddl, tuple(sorted(found)), left_out, tuple(missing))


def _quote(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
