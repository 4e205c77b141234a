"""Asking a real SQLite file: nothing but reading, limits kept, every value as text."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.model import FailureReason, Outcome
from servers.invariants import ask, failed, invariant, sqlite_config
from servers.postgres import wait_until

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'a'), (2, 'b');")
    connection.close()
    return path


@pytest.fixture
def databases(path: Path) -> Iterator[Databases]:
    databases = Databases(environ={})
    databases.configure([sqlite_config(path)])
    yield databases
    databases.close()


def test_a_file_is_read_at_one_snapshot_and_says_that_freshness_is_not_proven(databases: Databases) -> None:
    answer = ask(databases, invariant("SELECT id FROM t"))
    assert isinstance(answer, Examined)
    assert (answer.outcome, answer.tallied.counted) == (Outcome.VIOLATED, 2)
    assert (answer.position.role, answer.position.freshness_proven) == ("file", False)


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM t",
        "INSERT INTO t VALUES (3, 'c') RETURNING id",
        "DROP TABLE t",
        "COMMIT",
        "COMMIT; DELETE FROM t",
        "SELECT 1; DELETE FROM t",
        "ATTACH DATABASE '{other}' AS other",
        "PRAGMA query_only = 0",
        "PRAGMA journal_mode = DELETE",
        "SELECT * FROM pragma_journal_mode('DELETE')",
        "VACUUM INTO '{other}'",
        "SELECT load_extension('x')",
        "SAVEPOINT s",
        "BEGIN IMMEDIATE",
        "CREATE TEMP TABLE x(id)",
        "REINDEX",
        "",
    ],
)
def test_whatever_writes_is_refused_and_nothing_changes(databases: Databases, path: Path, text: str) -> None:
    """Design 3.7: the file is opened read-only and nothing but reading is authorised."""
    other = path.with_name("other.db")
    answer = ask(databases, invariant(text.format(other=other)))
    assert isinstance(answer, Examined)
    assert answer.outcome is Outcome.ERRORED
    assert failed(answer).reason in (FailureReason.WRITES, FailureReason.QUERY)
    assert not other.exists()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)
    connection.close()


def test_a_text_that_was_compiled_for_us_is_not_authorised_for_others(databases: Databases) -> None:
    """The driver keeps compiled statements by their text; one of ours must not pass the guard that way."""
    ask(databases, invariant("SELECT id FROM t"))
    for text in ("BEGIN DEFERRED", "ROLLBACK"):
        assert failed(ask(databases, invariant(text))).reason is FailureReason.WRITES


def test_a_time_limit_ends_the_statement(databases: Databases) -> None:
    answer = ask(databases, invariant(ENDLESS, timeout=timedelta(milliseconds=200)))
    assert failed(answer).reason is FailureReason.TIMEOUT
    assert failed(answer).sentence == "timeout after 0.2 s"
    assert isinstance(ask(databases, invariant("SELECT id FROM t")), Examined)


def test_rows_that_arrived_before_the_time_limit_are_proof(databases: Databases) -> None:
    """Semantics 3.4."""
    # Python's driver is one row ahead: of the rows before the limit it keeps the last one to itself. "At least" stays true.
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0"
    text = f"SELECT id FROM t UNION ALL SELECT * FROM ({endless})"
    answer = ask(databases, invariant(text, timeout=timedelta(milliseconds=300)))
    assert isinstance(answer, Examined)
    assert (answer.outcome, answer.tallied.counted, answer.complete) == (Outcome.VIOLATED, 1, False)


def test_interrupting_stops_the_statement(databases: Databases) -> None:
    answers: list[Any] = []
    rule = invariant(ENDLESS, timeout=timedelta(minutes=5))
    thread = threading.Thread(target=lambda: answers.append(ask(databases, rule)))
    thread.start()
    wait_until(lambda: databases.free_places("db") == 3, "the statement has its place")
    databases.interrupt_all()
    thread.join(10)
    assert not thread.is_alive()
    assert failed(answers[0]).reason is FailureReason.INTERRUPTED


def test_every_storage_class_has_its_text(databases: Databases) -> None:
    rows: list[Any] = []
    text = "SELECT 1 AS a, 1.0 AS b, '1' AS c, x'00ff' AS d, NULL AS e, CAST(x'636166e9' AS TEXT) AS f, 9e999, 0.1, '' AS g"
    answer = ask(databases, invariant(text), also=lambda columns: rows.append)
    assert isinstance(answer, Examined)
    assert rows == [("1", "1.0", "1", "x'00ff'", None, "caf\\xe9 (not valid UTF-8)", "Infinity", "0.1", "")]


def test_a_file_must_be_allowed_and_must_exist(path: Path, tmp_path: Path) -> None:
    databases = Databases(environ={})
    databases.configure([sqlite_config(path, allow_primary=False)])
    assert failed(ask(databases, invariant("SELECT 1 AS id"))).reason is FailureReason.IS_PRIMARY
    absent = tmp_path / "absent.db"
    databases.configure([sqlite_config(absent)])
    assert failed(ask(databases, invariant("SELECT 1 AS id"))).reason is FailureReason.REFUSED
    assert not absent.exists()
    databases.close()


def test_a_file_that_was_replaced_is_read_anew_and_one_that_is_gone_is_not_read_at_all(
    databases: Databases, path: Path, tmp_path: Path
) -> None:
    """Semantics 0: a kept connection would go on reading the file that was there before."""
    text = invariant("SELECT id FROM t WHERE v = 'bad'")
    assert isinstance(held := ask(databases, text), Examined)
    assert held.outcome is Outcome.HELD
    other = tmp_path / "restored.db"
    connection = sqlite3.connect(other)
    connection.executescript("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'bad');")
    connection.close()
    other.replace(path)
    assert isinstance(found := ask(databases, text), Examined)
    assert found.outcome is Outcome.VIOLATED
    path.unlink()
    assert failed(ask(databases, text)).reason is FailureReason.REFUSED


def test_a_file_in_wal_mode_is_read_beside_its_writer(databases: Databases, path: Path) -> None:
    """The demo's service writes while we read; the reader sees the last commit and holds nobody up."""
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO t VALUES (3, 'c')")
    answer = ask(databases, invariant("SELECT id FROM t"))
    assert isinstance(answer, Examined)
    assert answer.tallied.counted == 2
    writer.execute("COMMIT")
    answer = ask(databases, invariant("SELECT id FROM t"))
    assert isinstance(answer, Examined)
    assert answer.tallied.counted == 3
    writer.close()


def test_a_count_limit_says_at_least(databases: Databases) -> None:
    answer = ask(databases, invariant("SELECT id FROM t", count_limit=1))
    assert isinstance(answer, Examined)
    assert (answer.tallied.counted, answer.complete) == (1, False)
    exact = ask(databases, invariant("SELECT id FROM t", count_limit=2))
    assert isinstance(exact, Examined)
    assert (exact.tallied.counted, exact.complete) == (2, True)


def test_an_empty_population_is_no_good_news(databases: Databases) -> None:
    """Semantics 3.1: it turns held into errored, never a count."""
    holds = "SELECT id FROM t WHERE id < 0"
    for population, outcome in (
        ("SELECT count(*) FROM t", Outcome.HELD),
        ("SELECT 1 FROM t LIMIT 1", Outcome.HELD),
        ("SELECT 'x' FROM t", Outcome.HELD),
        ("SELECT count(*) FROM t WHERE id < 0", Outcome.ERRORED),
        ("SELECT 1 FROM t WHERE id < 0", Outcome.ERRORED),
        ("SELECT sum(id) FROM t WHERE id < 0", Outcome.ERRORED),
        ("SELECT absent FROM t", Outcome.ERRORED),
    ):
        answer = ask(databases, invariant(holds, population=population))
        assert isinstance(answer, Examined)
        assert answer.outcome is outcome, population
    violated = ask(databases, invariant("SELECT id FROM t", population="SELECT 0"))
    assert isinstance(violated, Examined)
    assert violated.outcome is Outcome.VIOLATED
