"""takes the base rows of a violation and their parents from a SQLite file"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from holdtrue.databases.describing import Described
from holdtrue.databases.looks import Mask
from holdtrue.databases.sqlite_values import is_altered, show
from holdtrue.databases.taking import DEPTH_LIMIT, ROWS_LIMIT, Taking
from holdtrue.model import BaseRows, Column, Evidence, EvidenceRow, Position, Row
from holdtrue.model.table_names import name_parts

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
class _Taken(Taking):
    asking: Asking = field(kw_only=True)
    tables: dict[str, _Table] = field(default_factory=dict)


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

    SQLite keeps no writers: rows carry no transaction, and are split by key at promotion. The types of a row are the
    storage classes of its values, so that ``1`` and ``'1'`` can be told apart and written back.
    """
    taken = _Taken(mask, asking=asking)
    schema = ""
    left_out: tuple[str, ...] = ()
    if taken.may_begin(base_rows, blocked):
        try:
            _follow(taken, columns, row, base_rows)
            for name in reads:
                table = _find(taken, name)
                if table is not None:
                    taken.tables.setdefault(table.name, table)
            schema, left_out = _describe(taken, tuple(taken.tables))
        except Exception as problem:  # noqa: BLE001  whatever happens here, the run's outcome stands
            taken.failed(problem)
    return taken.evidence(key=key, columns=columns, row=row, position=asking.position, schema=schema, left_out=left_out)


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
                before = taken.matched
                rows = _rows(taken, parent, condition, keys, parent=True)
                if taken.matched == before:
                    taken.lacks_parent(table.name, parent.name)
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
    for values in taken.asking.query(text, parameters, limit=ROWS_LIMIT + 1, within=taken.left):
        identity = (table.name, tuple((type(value).__name__, value) for value in values))
        if taken.has(identity, parent=parent):
            continue
        if taken.full:
            taken.missing.append(f"more than {ROWS_LIMIT} rows")
            break
        raw.append(tuple(values))
        types = tuple(_CLASSES.get(type(value), "text") for value in values)
        plain = [show(value) for value in values]
        for name, value in zip(table.columns, plain, strict=True):
            if is_altered(value):
                taken.missing.append(f"{table.name}.{name} holds text that is not UTF-8, kept as it is shown")
        shown = taken.masks(table.name, table.columns, types, plain)
        taken.kept[identity] = EvidenceRow(
            table=table.name, columns=table.columns, values=tuple(shown), types=types, is_parent=parent
        )
    return raw


def _find(taken: _Taken, written: str) -> _Table | None:
    parts = name_parts(written) if '"' in written else None
    name = parts[-1] if parts else written.removeprefix("main.")
    cached = taken.asking.schema_cache.get(("table", name.lower()))
    if cached is None:
        cached = taken.asking.schema_cache[("table", name.lower())] = _read(taken, name) or "absent"
    return cached if isinstance(cached, _Table) else None


def _read(taken: _Taken, name: str) -> _Table | None:
    found = taken.asking.query(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND lower(name) = lower(?)",
        [name],
        limit=1,
        within=taken.left,
    )
    if not found:
        return None
    real = found[0][0]
    described = taken.asking.query(
        "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid",
        [real],
        limit=10_000,
        within=taken.left,
    )
    references: dict[int, list[tuple[str, str, str | None]]] = {}
    for number, parent, ours, theirs in taken.asking.query(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq',
        [real],
        limit=10_000,
        within=taken.left,
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
                    within=taken.left,
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
        within=taken.left,
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
    taken = _Taken(lambda _table, _column, _type, _value: None, asking=asking)
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
