"""Rows that settle and rows that are waived, on each kind of database (semantics 4.1, 5.1, 5.4)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.model import DatabaseConfig, Failure, FailureReason, Outcome, Settle, Waiver
from servers.invariants import ask, invariant, mysql_config, postgres_config, sqlite_config
from servers.mariadb import FreshMariadb
from servers.postgres import FreshDatabase

AFTER = timedelta(minutes=10)
ZONE = "America/New_York"
RULE = invariant(
    "SELECT id, at FROM t ORDER BY id", key=("id",), settle=Settle("at", AFTER, 3 * AFTER), columns=frozenset({"id"})
)


@contextmanager
def opened(config: DatabaseConfig) -> Iterator[Databases]:
    databases = Databases(environ={})
    databases.configure([config])
    try:
        yield databases
    finally:
        databases.close()


def parts(answer: Examined | Failure) -> tuple[Outcome, int, int, int]:
    assert isinstance(answer, Examined), answer
    tallied = answer.tallied
    assert tallied.returned == tallied.counted + tallied.settling + tallied.waived
    return answer.outcome, tallied.counted, tallied.settling, tallied.waived


def failed(answer: Examined | Failure) -> Failure:
    assert isinstance(answer, Examined), answer
    assert answer.outcome is Outcome.ERRORED
    assert answer.failure is not None
    return answer.failure


@pytest.mark.parametrize("type_name", ["timestamptz", "timestamp"])
def test_on_a_standby_young_rows_settle_and_old_ones_count(postgres_database: FreshDatabase, type_name: str) -> None:
    """Semantics 5.1: a time without zone is read in the declared zone of the database, here one far from UTC."""
    postgres_database.execute(
        f"SET timezone TO '{ZONE}';"
        f"CREATE TABLE t(id int, at {type_name});"
        "INSERT INTO t VALUES (1, now() - interval '1 minute'), (2, now() - interval '11 minutes'), (3, NULL),"
        " (4, 'infinity'), (5, '-infinity'), (6, now() + interval '1 hour'), (7, now())",
    )
    with opened(postgres_config(postgres_database.standby_url, timezone=ZONE)) as databases:
        assert parts(ask(databases, RULE, timezone=ZONE)) == (Outcome.VIOLATED, 5, 2, 0)
        postgres_database.execute("DELETE FROM t WHERE id NOT IN (1, 7)")
        assert parts(ask(databases, RULE, timezone=ZONE)) == (Outcome.HELD, 0, 2, 0)
        wrong = replace(RULE, settle=Settle("id", AFTER, AFTER))
        assert failed(ask(databases, wrong)).reason is FailureReason.SHAPE
        missing = replace(RULE, settle=Settle("created_at", AFTER, AFTER))
        assert "created_at" in failed(ask(databases, missing)).sentence


@pytest.mark.parametrize("type_name", ["datetime(6)", "timestamp(6) NULL"])
def test_on_mariadb_young_rows_settle_and_old_ones_count(mariadb_database: FreshMariadb, type_name: str) -> None:
    """Semantics 5.1: DATETIME has no zone, TIMESTAMP comes in the session's; a zero date is no date, and counts."""
    mariadb_database.execute(
        [
            "SET SESSION sql_mode = ''",
            "SET SESSION time_zone = '-05:00'",
            f"CREATE TABLE t(id int PRIMARY KEY, at {type_name})",
            "INSERT INTO t VALUES (1, now(6) - interval 1 minute), (2, now(6) - interval 11 minute), (3, NULL)",
            "INSERT INTO t VALUES (4, '0000-00-00 00:00:00')",
        ]
    )
    with opened(mysql_config(mariadb_database.replica_url)) as databases:
        zone = "Etc/GMT+5" if type_name.startswith("datetime") else "UTC"
        assert parts(ask(databases, RULE, timezone=zone)) == (Outcome.VIOLATED, 3, 1, 0)
        wrong = replace(RULE, settle=Settle("id", AFTER, AFTER))
        assert failed(ask(databases, wrong)).reason is FailureReason.SHAPE


def test_on_sqlite_the_texts_of_times_are_read(tmp_path: Path) -> None:
    """Semantics 5.1: what CURRENT_TIMESTAMP writes, and what programs write; a number is no time."""
    file = tmp_path / "shop.db"
    now = datetime.now(UTC)
    old = now - 2 * AFTER
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE t(id INTEGER, at TEXT)")
        connection.execute("INSERT INTO t VALUES (0, CURRENT_TIMESTAMP)")
        texts = [now.isoformat(), f"{now:%Y-%m-%dT%H:%M:%SZ}", old.isoformat(), f"{old:%Y-%m-%d %H:%M:%S}", None]
        connection.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(texts, 1)))
    connection.close()
    with opened(sqlite_config(file)) as databases:
        assert parts(ask(databases, RULE)) == (Outcome.VIOLATED, 3, 3, 0)
        wrong = replace(RULE, settle=Settle("id", AFTER, AFTER))
        assert failed(ask(databases, wrong)).reason is FailureReason.SHAPE


def test_a_waiver_compares_with_the_servers_own_text(postgres_database: FreshDatabase) -> None:
    """Semantics 5.4: as PostgreSQL writes it, whatever the type of the key."""
    postgres_database.execute(
        "CREATE TABLE t(id numeric, ok bool, day date, mail text);"
        "INSERT INTO t VALUES (1.50, true, '2026-11-29', 'a@example.com'), (1.5, true, '2026-11-29', 'a@example.com')",
    )
    key = (("day", "2026-11-29"), ("id", "1.50"), ("mail", "a@example.com"), ("ok", "t"))
    waiver = Waiver(key, "agreed", datetime.now(UTC) + timedelta(days=1))
    rule = invariant("SELECT * FROM t", key=("id", "ok", "day", "mail"), waive=(waiver,))
    with opened(postgres_config(postgres_database.standby_url)) as databases:
        assert parts(ask(databases, rule)) == (Outcome.VIOLATED, 1, 0, 1)
        postgres_database.execute("DELETE FROM t WHERE id::text = '1.5'")
        assert parts(ask(databases, rule)) == (Outcome.HELD, 0, 0, 1)
        over = replace(rule, waive=(replace(waiver, until=datetime.now(UTC) - timedelta(seconds=1)),))
        assert parts(ask(databases, over)) == (Outcome.VIOLATED, 1, 0, 0)
