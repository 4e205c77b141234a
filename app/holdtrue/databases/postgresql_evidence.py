"""takes the base rows of a violation and their parents from PostgreSQL, with who wrote them"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from holdtrue.databases.looks import Mask
from holdtrue.databases.postgresql_schema import ForeignKey, Table, describe, find_table, quote
from holdtrue.databases.taking import DEPTH_LIMIT, ROWS_LIMIT, SECONDS_LIMIT, Taking
from holdtrue.model import BaseRows, Column, Evidence, EvidenceRow, Position, Row

_BATCH = 50
_FROZEN = 2


class Asking(Protocol):
    """What evidence needs of a connection."""

    schema_cache: dict[Any, Any]

    @property
    def position(self) -> Position:
        """Where the transaction stands."""
        ...

    def query(self, sql: str, parameters: Sequence[str | None], *, limit: int, within: timedelta) -> list[Row]:
        """Rows of a statement of ours."""
        ...

    def savepoint(self, within: timedelta) -> contextlib.AbstractContextManager[None]:
        """What fails within leaves the transaction usable."""
        ...


@dataclass(slots=True)
class _Taken(Taking):
    asking: Asking = field(kw_only=True)
    tables: dict[int, Table] = field(default_factory=dict)


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

    ``mask`` is asked for the violation's own cells with an empty table name.
    """
    taken = _Taken(mask, "its type has no stand-in", asking=asking)
    schema = ""
    left_out: tuple[str, ...] = ()
    if taken.may_begin(base_rows, blocked):
        try:
            with asking.savepoint(timedelta(seconds=SECONDS_LIMIT)):
                _follow(taken, columns, row, base_rows)
                taken.forbidden = ""
                for name in reads:
                    table = find_table(asking, name, taken.left)
                    if table is not None:
                        taken.tables.setdefault(table.oid, table)
                schema, left_out = describe(asking, tuple(taken.tables.values()), taken.left)
        except Exception as problem:  # noqa: BLE001  whatever happens here, the run's outcome stands
            taken.failed(problem)
    return taken.evidence(key=key, columns=columns, row=row, position=asking.position, schema=schema, left_out=left_out)


def _follow(taken: _Taken, columns: tuple[Column, ...], row: Row, base_rows: tuple[BaseRows, ...]) -> None:
    """Base rows, then their parents, level by level."""
    values = {column.name: value for column, value in zip(columns, row, strict=True)}
    level: list[tuple[Table, Row]] = []
    for base in base_rows:
        table = find_table(taken.asking, base.table, taken.left)
        if table is None:
            taken.missing.append(f"table {base.table} was not found")
            continue
        absent = [ours for _, ours in base.where if ours not in values]
        if absent:
            taken.missing.append(f"base_rows name columns that the query does not return: {', '.join(absent)}")
            continue
        wanted = [(theirs, values[ours]) for theirs, ours in base.where]
        unknown = [theirs for theirs, _ in wanted if theirs not in table.columns]
        if unknown:
            taken.missing.append(f"base_rows name columns that {table.name} does not have: {', '.join(unknown)}")
            continue
        names = tuple(theirs for theirs, _ in wanted)
        found = _rows(taken, table, names, [tuple(value for _, value in wanted)], parent=False)
        level.extend((table, one) for one in found)
        if not found:
            taken.missing.append(f"no row of {table.name} matches this violation")
    for _ in range(DEPTH_LIMIT):
        level = _parents(taken, level)
        if not level:
            return
    if level:
        taken.missing.append(f"parents beyond {DEPTH_LIMIT} levels were not followed")


def _parents(taken: _Taken, level: list[tuple[Table, Row]]) -> list[tuple[Table, Row]]:
    wanted: dict[tuple[int, ForeignKey], set[Row]] = {}
    tables: dict[int, Table] = {}
    for table, raw in level:
        tables[table.oid] = table
        places = {name: place for place, name in enumerate(table.columns)}
        for foreign in table.foreign_keys:
            values = tuple(raw[places[name]] for name in foreign.columns)
            if None not in values:
                wanted.setdefault((table.oid, foreign), set()).add(values)
    above: list[tuple[Table, Row]] = []
    for (oid, foreign), keys in wanted.items():
        parent = find_table(taken.asking, foreign.parent, taken.left)
        if parent is None:
            taken.missing.append("a parent table may not be read")
            continue
        ordered = sorted(keys, key=lambda one: [value or "" for value in one])
        for start in range(0, len(ordered), _BATCH):
            batch = ordered[start : start + _BATCH]
            before = taken.matched
            found = _rows(taken, parent, foreign.parent_columns, batch, parent=True)
            if taken.matched - before < len(batch) and not taken.full:
                taken.lacks_parent(tables[oid].name, parent.name)
            above.extend((parent, one) for one in found)
    return above


def _rows(taken: _Taken, table: Table, names: tuple[str, ...], keys: Sequence[Row], *, parent: bool) -> list[Row]:
    """The rows of ``table`` with these keys that were not taken yet: raw, to be followed; masked, they are in ``taken``."""
    taken.tables[table.oid] = table
    taken.reads(table.name, table.reference, parent=parent)
    if taken.full:
        taken.missing.append(f"more than {ROWS_LIMIT} rows")
        return []
    conditions, parameters = [], []
    for key in keys:
        parts = []
        for name, value in zip(names, key, strict=True):
            if value is None:
                parts.append(f"{quote(name)} IS NULL")
            else:
                parameters.append(value)
                parts.append(f"{quote(name)} = ${len(parameters)}")
        conditions.append("(" + " AND ".join(parts) + ")")
    cells = ", ".join(f"{quote(name)}::text" for name in table.columns)
    committed = (
        "CASE WHEN xmin::text::bigint > 2 THEN extract(epoch FROM pg_xact_commit_timestamp(xmin)) END::text"
        if has_commit_times(taken.asking, taken.left)
        else "NULL"
    )
    text = (
        f"SELECT tableoid::text || ctid::text, xmin::text, {committed}, {cells} FROM {table.reference}"
        f" WHERE {' OR '.join(conditions)} LIMIT {ROWS_LIMIT + 1}"
    )
    room = ROWS_LIMIT - len(taken.kept)
    raw: list[Row] = []
    for identity, xmin, committed_at, *values in taken.asking.query(
        text, parameters, limit=ROWS_LIMIT + 1, within=taken.left
    ):
        known = (table.oid, str(identity))
        if taken.has(known, parent=parent):
            continue
        if room <= 0:
            taken.missing.append(f"more than {ROWS_LIMIT} rows")
            break
        room -= 1
        raw.append(tuple(values))
        taken.kept[known] = EvidenceRow(
            table=table.name,
            columns=table.columns,
            values=tuple(taken.masks(table.name, table.columns, table.types, values)),
            types=table.types,
            is_parent=parent,
            xid=widen(int(xmin or 0), taken.asking.position.snapshot),
            committed_at=_moment(committed_at),
        )
    return raw


def has_commit_times(asking: Asking, within: timedelta) -> bool:
    """Whether the server keeps the time of each commit."""
    if "commit times" not in asking.schema_cache:
        text = "SELECT current_setting('track_commit_timestamp')"
        asking.schema_cache["commit times"] = asking.query(text, [], limit=1, within=within) == [("on",)]
    return bool(asking.schema_cache["commit times"])


def widen(xid: int, snapshot: str) -> int | None:
    """A row's 32-bit transaction id as the 64-bit one that a snapshot speaks of (semantics 9.3).

    A row that we see was written before the snapshot's xmax: the id lies in the 2^32 below it. Frozen and bootstrap ids
    have no age.
    """
    if xid <= _FROZEN or not snapshot:
        return None
    xmax = int(snapshot.split(":")[1])
    wide = (xmax >> 32 << 32) | xid
    return wide if wide < xmax else wide - (1 << 32)


def _moment(epoch: str | None) -> datetime | None:
    if epoch is None:
        return None
    whole, _, fraction = epoch.partition(".")
    return datetime.fromtimestamp(int(whole), UTC) + timedelta(microseconds=int((fraction + "000000")[:6]))
