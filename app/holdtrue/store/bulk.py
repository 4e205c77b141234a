"""writes many rows at once, the quick way of each dialect"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
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
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Insert, Update

from holdtrue.store.columns import Lasting, Moment, Values, Words, moment_text, plain_text

_MICROSECOND = timedelta(microseconds=1)
_GIVEN = "given "  # SQLAlchemy wants its own names for parameters that are called like a column


def update_many(connection: Connection, table: Table, key: str, values: Sequence[Values]) -> None:
    """Set the same columns of many rows, each found by its ``key``."""
    if values:
        names = tuple(values[0])
        _send(connection, table, _update(connection.dialect.name, table, key, names), names, values)


def insert_many(connection: Connection, table: Table, values: Sequence[Values]) -> None:
    """Insert many rows."""
    if values:
        names = tuple(values[0])
        _send(connection, table, _insert(connection.dialect.name, table, names), names, values)


def number_many(
    connection: Connection, table: Table, values: Sequence[Values], *by: str
) -> Mapping[tuple[Any, ...], int]:
    """Insert many rows; their new ids by the columns ``by``, in which no two of them are equal."""
    if not values:
        return {}
    if connection.dialect.name == "postgresql":
        statement = _insert("postgresql", table, tuple(values[0])).returning(
            *(table.c[name] for name in by), table.c.id
        )
        return {tuple(row[:-1]): row[-1] for row in connection.execute(statement, {"rows": _json(values)})}
    # Nobody else writes between these two: the transaction began with IMMEDIATE.
    first = connection.execute(select(func.coalesce(func.max(table.c.id), 0) + 1)).scalar_one()
    insert_many(connection, table, [{"id": first + index, **row} for index, row in enumerate(values)])
    return {tuple([row[name] for name in by]): first + index for index, row in enumerate(values)}


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
    if values:
        names = tuple(values[0])
        statement = _upsert(connection.dialect.name, table, names, same=tuple(same), more=tuple(more), most=tuple(most))
        _send(connection, table, statement, names, values)


Statement = Insert | Update


def _send(
    connection: Connection, table: Table, statement: Statement, names: tuple[str, ...], values: Sequence[Values]
) -> None:
    """On PostgreSQL one statement over one JSON parameter; on SQLite the driver's own executemany."""
    if connection.dialect.name == "postgresql":
        connection.execute(statement, {"rows": _json(values)})
        return
    text, ordered = _driver_text(connection.dialect, statement, names)
    pairs = [(name, _PLAIN.get(type(table.c[name].type))) for name in ordered]
    connection.exec_driver_sql(
        text,
        [
            tuple([row[name] if make is None or row[name] is None else make(row[name]) for name, make in pairs])
            for row in values
        ],
    )


@lru_cache(maxsize=128)
def _driver_text(dialect: Dialect, statement: Statement, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The statement in SQLite's words, and the columns in the order of its question marks."""
    compiled = statement.compile(dialect=dialect, column_keys=list(names) if isinstance(statement, Insert) else None)
    assert isinstance(compiled, SQLCompiler)  # noqa: S101 - what compiling a statement makes
    return str(compiled), tuple(name.removeprefix(_GIVEN) for name in compiled.positiontup or ())


@lru_cache(maxsize=128)
def _update(dialect: str, table: Table, key: str, names: tuple[str, ...]) -> Update:
    changed = [name for name in names if name != key]
    if dialect == "postgresql":
        given = _given(table, names)
        return update(table).where(table.c[key] == given.c[key]).values({name: given.c[name] for name in changed})
    own: dict[str, ColumnElement[Any]] = {name: bindparam(f"{_GIVEN}{name}") for name in names}
    return update(table).where(table.c[key] == own[key]).values({name: own[name] for name in changed})


@lru_cache(maxsize=128)
def _insert(dialect: str, table: Table, names: tuple[str, ...]) -> Insert:
    if dialect == "postgresql":
        return insert(table).from_select(list(names), _rows_given(table, names))
    return insert(table)


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
    new: postgresql.Insert | sqlite.Insert
    if dialect == "postgresql":
        new = postgresql.insert(table).from_select(list(names), _rows_given(table, names))
    else:
        new = sqlite.insert(table)
    changed: dict[str, ColumnElement[Any]] = {name: new.excluded[name] for name in same}
    changed |= {name: table.c[name] + new.excluded[name] for name in more}
    for name in most:
        changed[name] = case((new.excluded[name] > table.c[name], new.excluded[name]), else_=table.c[name])
    whole: Insert = new.on_conflict_do_update(index_elements=[one.name for one in table.primary_key], set_=changed)
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
