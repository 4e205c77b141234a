"""What a look promises on every kind of database alike: one snapshot, and memory that does not grow with the rows."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from holdtrue.databases import Answer, Databases, Examined, Look
from holdtrue.model import DatabaseConfig, Dialect, Freshness, ReplicaConfig, Secret
from servers.invariants import ask, invariant, mysql_config, primary_config, sqlite_config
from servers.mariadb import FreshMariadb
from servers.postgres import FreshDatabase

MANY = {
    "postgresql": "SELECT g AS id, repeat('x', 1000) AS wide FROM generate_series(1, {rows}) g",
    "mysql": "SELECT seq AS id, REPEAT('x', 1000) AS wide FROM seq_1_to_{rows}",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows}) SELECT i AS id, "
    "printf('%01000d', i) AS wide FROM n",
    "other": "SELECT range AS id, repeat('x', 1000) || range AS wide FROM range({rows})",
}


@dataclass(frozen=True)
class Place:
    """A database with a table ``t`` of one row, and a way to add to it."""

    databases: Databases
    execute: Callable[[str], object]


def place(name: str, folder: Path, request: pytest.FixtureRequest) -> tuple[DatabaseConfig, Callable[[str], object]]:
    make = ["CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)"]
    if name == "postgresql":
        postgres: FreshDatabase = request.getfixturevalue("postgres_database")
        postgres.execute(make)
        return primary_config(postgres.primary.url(postgres.name)), postgres.execute
    if name == "mysql":
        mariadb: FreshMariadb = request.getfixturevalue("mariadb_database")
        mariadb.execute(make)
        return mysql_config(mariadb.primary_url, allow_primary=True), mariadb.execute
    if name == "other":
        with duckdb.connect(str(folder / "t.duckdb")) as connection:
            connection.execute("; ".join(make))
        url = Secret(f"duckdb:///{folder}/t.duckdb?access_mode=READ_ONLY")
        one = DatabaseConfig(
            "db", Dialect.OTHER, (ReplicaConfig("r", url),), freshness=Freshness.NONE, allow_primary=True
        )
        return one, lambda _text: None

    def execute(text: str) -> None:
        with closing(sqlite3.connect(folder / "t.db", isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(text)

    for text in make:
        execute(text)
    return sqlite_config(folder / "t.db"), execute


@pytest.fixture
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    config, execute = place(request.param, tmp_path, request)
    databases = Databases(environ={})
    databases.configure([config])
    yield Place(databases, execute)
    databases.close()


@pytest.mark.parametrize("there", ["postgresql", "mysql", "sqlite"], indirect=True)
def test_everything_asked_in_one_look_sees_one_snapshot(there: Place) -> None:
    """semantics 3.1: what is committed in between is not seen."""

    def examine(look: Look) -> list[object]:
        seen: list[object] = []
        look.stream(
            "SELECT count(*) AS n FROM t", on_columns=lambda _: lambda row: seen.append(row[0]), count_limit=None
        )
        there.execute("INSERT INTO t VALUES (2)")
        answer = look.ask("SELECT count(*) AS n FROM t", limit=2)
        assert isinstance(answer, Answer)
        return [*seen, answer.rows[0][0]]

    limit = timedelta(seconds=60)
    assert there.databases.look("db", time_limit=limit, newest_good=None, examine=examine) == ["1", "1"]
    assert there.databases.look("db", time_limit=limit, newest_good=None, examine=examine) == ["2", "2"]


@pytest.mark.parametrize(("there", "name"), [(one, one) for one in MANY], indirect=["there"])
def test_memory_does_not_grow_with_the_rows(there: Place, name: str) -> None:
    """A tenth of a million rows of a thousand bytes pass; bench/million_rows.py has the million."""

    def count(rows: int) -> int:
        rule = invariant(MANY[name].format(rows=rows), key=("id",), timeout=timedelta(seconds=100))
        answer = ask(there.databases, replace(rule, count_limit=None))
        assert isinstance(answer, Examined)
        assert answer.complete, answer.failure
        return answer.tallied.counted

    # The ledger's ten thousand keys are there from here on.
    assert count(20_000) == 20_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert count(100_000) == 100_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # kilobytes, of 100 MB that passed
