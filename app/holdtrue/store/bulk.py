"""writes many rows at once, the quick way of each dialect"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Connection,
    FromClause,
    Select,
    Table,
    Text,
    bindparam,
    case,
    cast,
    column,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert, ReturningInsert, Update

from holdtrue.store.columns import Lasting, Moment, Values, Words, moment_text, plain_text

_MICROSECOND = timedelta(microseconds=1)


def update_many(connection: Connection, table: Table, key: str, values: Sequence[Values]) -> None:
    """Set the same columns of many rows, each found by its ``key``."""
    if not values:
        return
    names = tuple(values[0])
    if connection.dialect.name == "postgresql":
        connection.execute(_update_given(table, key, names), {"rows": _json(values)})
        return
    ordered = [*(name for name in names if name != key), key]
    plain = [_PLAIN.get(type(table.c[name].type)) for name in ordered]
    changed = ", ".join(f'"{name}" = ?' for name in ordered[:-1])
    text = f'UPDATE {table.name} SET {changed} WHERE "{key}" = ?'
    pairs = list(zip(ordered, plain, strict=True))
    connection.exec_driver_sql(
        text,
        [
            tuple([row[name] if make is None or row[name] is None else make(row[name]) for name, make in pairs])
            for row in values
        ],
    )


def insert_many(connection: Connection, table: Table, values: Sequence[Values]) -> None:
    """Insert many rows."""
    if values and connection.dialect.name == "postgresql":
        connection.execute(_insert_given(table, tuple(values[0]), ()), {"rows": _json(values)})
    elif values:
        connection.execute(insert(table), values)


def number_many(
    connection: Connection, table: Table, values: Sequence[Values], *by: str
) -> Mapping[tuple[Any, ...], int]:
    """Insert many rows; their new ids by the columns ``by``, in which no two of them are equal."""
    if not values:
        return {}
    if connection.dialect.name == "postgresql":
        found = connection.execute(_insert_given(table, tuple(values[0]), by), {"rows": _json(values)})
        return {tuple(row[:-1]): row[-1] for row in found}
    new = insert(table).returning(table.c.id, sort_by_parameter_order=True)
    ids = connection.execute(new, values).scalars()
    return {tuple(row[name] for name in by): number for row, number in zip(values, ids, strict=True)}


def upsert_many(
    connection: Connection,
    table: Table,
    values: Sequence[Values],
    *,
    same: Sequence[str] = (),
    more: Sequence[str] = (),
    most: Sequence[str] = (),
) -> None:
    """Insert many rows; of one that is there already replace ``same``, add to ``more``, keep the greater of ``most``."""
    if not values:
        return
    names = tuple(values[0])
    statement = _upsert(connection.dialect.name, table, names, same=tuple(same), more=tuple(more), most=tuple(most))
    if connection.dialect.name == "postgresql":
        connection.execute(statement, {"rows": _json(values)})
    else:
        connection.execute(statement, values)


@lru_cache(maxsize=128)
def _update_given(table: Table, key: str, names: tuple[str, ...]) -> Update:
    given = _given(table, names)
    changed = {name: given.c[name] for name in names if name != key}
    return update(table).where(table.c[key] == given.c[key]).values(changed)


@lru_cache(maxsize=128)
def _insert_given(table: Table, names: tuple[str, ...], by: tuple[str, ...]) -> Insert | ReturningInsert[Any]:
    statement = insert(table).from_select(list(names), _rows_given(table, names))
    return statement.returning(*(table.c[name] for name in by), table.c.id) if by else statement


@lru_cache(maxsize=128)
def _upsert(
    dialect: str,
    table: Table,
    names: tuple[str, ...],
    *,
    same: tuple[str, ...],
    more: tuple[str, ...],
    most: tuple[str, ...],
) -> Insert:
    new: Any
    if dialect == "postgresql":
        new = postgresql.insert(table).from_select(list(names), _rows_given(table, names))
    else:
        new = sqlite.insert(table)
    changed = {name: new.excluded[name] for name in same}
    changed |= {name: table.c[name] + new.excluded[name] for name in more}
    for name in most:
        changed[name] = case((new.excluded[name] > table.c[name], new.excluded[name]), else_=table.c[name])
    same_row = [one.name for one in table.primary_key]
    whole: Insert = new.on_conflict_do_update(index_elements=same_row, set_=changed)
    return whole


def _rows_given(table: Table, names: tuple[str, ...]) -> Select[Any]:
    given = _given(table, names)
    return select(*(given.c[name] for name in names))


def _given(table: Table, names: tuple[str, ...]) -> FromClause:
    """The rows of one JSON parameter, as something to select from: a parameter a cell costs psycopg five times as much."""
    typed = [column(name, table.c[name].type) for name in names]
    listed = cast(bindparam("rows", type_=Text), postgresql.JSON)
    return func.json_to_recordset(listed).table_valued(*typed).render_derived("given", with_types=True)


def _json(values: Sequence[Values]) -> str:
    text = json.dumps(values, default=_plain, separators=(",", ":"))
    if "\\u0000" in text or "\\ud" in text:
        # Perhaps what PostgreSQL cannot hold; seldom enough to be written twice.
        plain = [{name: _plain(value) for name, value in row.items()} for row in values]
        text = json.dumps(plain, separators=(",", ":"))
    return text


def _plain(value: object) -> object:
    """A value as the columns keep it."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if isinstance(value, date):
        return value.isoformat()
    return value


_PLAIN: Mapping[type, Callable[[Any], object]] = {Moment: moment_text, Lasting: _plain, Words: plain_text}
