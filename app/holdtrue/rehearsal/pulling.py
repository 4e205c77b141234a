"""reads the schema of the tables that invariants use from a replica, with the caller's own login"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from holdtrue.catalog import inspect_sql
from holdtrue.databases import Databases, Described, Describes, Look
from holdtrue.errors import NotFound
from holdtrue.model import Catalog, DatabaseConfig, Failure, FailureReason

_LIMIT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a replica told: ``text`` is the whole schema file."""

    text: str
    tables: tuple[str, ...]
    left_out: tuple[str, ...]
    missing: tuple[str, ...]


def tables_in_use(catalog: Catalog, database: str) -> tuple[str, ...]:
    """The tables that the invariants of a database read, with those of their base rows and of their examples."""
    config = catalog.database(database)
    if config is None:
        return ()
    found: set[str] = set()
    for one in catalog.invariants:
        if database not in one.databases:
            continue
        for text in (one.sql, one.rows_sql, one.population):
            if text is not None:
                found.update(inspect_sql(text, config.dialect).tables)
        found.update(base.table for base in one.base_rows)
        for example in (*one.examples.violating, *one.examples.healthy):
            found.update(row.table for row in example.rows)
    return tuple(sorted(found))


def pull_schema(catalog: Catalog, database: str, *, environ: Mapping[str, str], folder: Path) -> Pulled | Failure:
    """Ask a replica of the database for the DDL of the tables in use and of the tables that these refer to.

    Raises:
        NotFound: there is no such database, or no invariant of the catalog reads a table of it.
    """
    config = catalog.database(database)
    if config is None:
        raise NotFound(f"there is no database {database!r} in the catalog", remedy="holdtrue.yaml names them")
    wanted = tables_in_use(catalog, database)
    if not wanted:
        raise NotFound(f"no invariant reads a table of {database!r} that could be told from its text")
    databases = Databases(environ=environ, application_name="holdtrue pull-schema", folder=folder)
    databases.configure((config,))
    try:
        answer = databases.look(
            database, time_limit=_LIMIT, newest_good=None, examine=lambda look: _describe(look, wanted, config)
        )
    finally:
        databases.interrupt_all()
        databases.close()
    if isinstance(answer, Failure):
        return answer
    return Pulled(_file(database, config, answer), answer.tables, answer.left_out, answer.missing)


def _describe(look: Look, wanted: Sequence[str], config: DatabaseConfig) -> Described | Failure:
    if not isinstance(look, Describes):
        sentence = f"reading the schema is not offered for this kind of database ({config.dialect})"
        return Failure(FailureReason.QUERY, sentence)
    return look.describe(wanted)


def _file(database: str, config: DatabaseConfig, described: Described) -> str:
    head = [
        f"-- The tables that the invariants of {database} use, and those that they refer to, for {config.dialect}.",
        f"-- Written by `holdtrue pull-schema {database}`; it holds no rows.",
    ]
    head += [f"-- Left out: {_one_line(one)}" for one in described.left_out]
    head += [f"-- Not found: {_one_line(one)}" for one in described.missing]
    return "\n".join(head) + "\n" + described.ddl


def _one_line(text: str) -> str:
    # A name may hold a line break, behind which the rest would be SQL.
    return "".join(one if one.isprintable() else "?" for one in text)
