"""Asking another kind of database through SQLAlchemy: DuckDB, which really runs here, and drivers that do not come back."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.databases.other_thread import DriverThread, Late
from holdtrue.model import DatabaseConfig, Dialect, Failure, FailureReason, Freshness, Outcome, ReplicaConfig, Secret
from servers.invariants import ask, failed, invariant
from servers.postgres import FreshDatabase, wait_until

ENDLESS = "SELECT count(*) AS n FROM range(10000000) AS a, range(10000000) AS b WHERE (a.range * b.range) % 7 = 3"
MARKER = "private-4711"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER, v VARCHAR)")
        connection.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    return path


def config(url: str, **settings: Any) -> DatabaseConfig:
    one = DatabaseConfig(
        "db", Dialect.OTHER, (ReplicaConfig("r", Secret(url)),), freshness=Freshness.NONE, allow_primary=True
    )
    return replace(one, **settings)


def asking(url: str, **settings: Any) -> Databases:
    databases = Databases(environ={})
    databases.configure([config(url, **settings)])
    return databases


@pytest.fixture
def databases(path: Path) -> Iterator[Databases]:
    databases = asking(f"duckdb:///{path}?access_mode=READ_ONLY")
    yield databases
    databases.close()


def rows_of(databases: Databases, text: str) -> list[Any]:
    rows: list[Any] = []
    answer = ask(databases, invariant(text, key=()), also=lambda _columns: rows.append)
    assert isinstance(answer, Examined), answer
    assert answer.failure is None, answer.failure
    return rows


def test_a_look_counts_rows_and_says_that_freshness_is_not_proven(databases: Databases) -> None:
    answer = ask(databases, invariant("SELECT id FROM t"))
    assert isinstance(answer, Examined)
    assert (answer.outcome, answer.tallied.counted, answer.complete) == (Outcome.VIOLATED, 2, True)
    assert (answer.position.role, answer.position.freshness_proven, answer.position.lag) == ("unknown", False, None)
    held = ask(databases, invariant("SELECT id FROM t WHERE id > 2"))
    assert isinstance(held, Examined)
    assert held.outcome is Outcome.HELD


def test_a_text_reaches_the_driver_byte_for_byte(databases: Databases) -> None:
    """semantics 1.7, 3.1: no parameters, so that nothing in the text is read as one."""
    found = rows_of(
        databases,
        "SELECT '100%' AS a, ':x %s %(b)s %% ? é' AS \"b:c\", id % 2 AS odd FROM t WHERE v LIKE '%a%' -- ? :x %",
    )
    assert found == [("100%", ":x %s %(b)s %% ? é", "1")]


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg"])
def test_a_driver_whose_own_marks_are_percent_signs_leaves_the_text_alone(
    postgres_database: FreshDatabase, driver: str
) -> None:
    postgres_database.execute(["CREATE TABLE t (id int)", "INSERT INTO t SELECT generate_series(1, 500)"])
    url = postgres_database.primary.url(postgres_database.name).replace("postgresql", f"postgresql+{driver}", 1)
    databases = asking(url)
    found = rows_of(databases, "SELECT id % 7 AS odd, '100% %s :x %(b)s' AS said FROM t WHERE id % 2 = 0 ORDER BY id")
    refused = failed(ask(databases, invariant("SELECT id FROM absent")))
    databases.close()
    assert len(found) == 250
    assert found[0] == ("2", "100% %s :x %(b)s")
    assert (refused.reason, refused.sqlstate) == (FailureReason.QUERY, "42P01")
    left = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    wait_until(lambda: postgres_database.primary.value(left, postgres_database.name) == 0, "no session is left")


def test_every_value_is_text_that_is_equal_in_every_run(databases: Databases) -> None:
    text = """SELECT 'NaN'::DOUBLE, '-inf'::FLOAT, 1.10::DECIMAL(10,2), 'a'::BLOB, TIMESTAMP '2024-01-01 00:00:00.5',
        TIMESTAMPTZ '2024-01-01 00:00:00+05', DATE '2024-02-29', TIME '10:00', INTERVAL 3 DAY, [[1, NULL], [2]],
        {'a': 1.5, 'b': ['é']}, true, NULL, 170141183460469231731687303715884105727::HUGEINT, [DATE '2024-02-29']"""
    assert rows_of(databases, text) == [
        (
            *("NaN", "-Infinity", "1.10", "x'61'", "2024-01-01 00:00:00.500000", "2023-12-31 19:00:00+00:00"),
            *("2024-02-29", "10:00:00", "3 days 00:00:00", "[[1, null], [2]]", '{"a": 1.5, "b": ["é"]}', "true", None),
            *("170141183460469231731687303715884105727", '["2024-02-29"]'),
        )
    ]


def test_equal_names_are_numbered(databases: Databases) -> None:
    seen: list[Any] = []
    rule = invariant("SELECT 1 AS id, 2 AS id", key=("id",))
    ask(databases, rule, also=lambda columns: seen.append([one.name for one in columns]) or (lambda _row: None))
    assert seen == [["id", "id_2"]]


@pytest.mark.parametrize(
    "text", ["DELETE FROM t", "DROP TABLE t", "ATTACH 'x.db'", "COPY t TO 'x.csv'", "PRAGMA version", "", "-- x"]
)
def test_what_is_no_query_never_reaches_the_driver(path: Path, text: str) -> None:
    databases = asking(f"duckdb:///{path}")
    assert failed(ask(databases, invariant(text))).reason in (FailureReason.WRITES, FailureReason.QUERY)
    databases.close()
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_whatever_a_text_does_is_rolled_back(path: Path) -> None:
    """semantics 3.6, where inspection was told to look away: DuckDB takes a second statement, and writes."""
    databases = asking(f"duckdb:///{path}")
    ask(databases, invariant("SELECT 1 AS id; DELETE FROM t"))
    databases.close()
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_the_drivers_own_fence_is_used_where_the_url_asks_for_it(databases: Databases, path: Path) -> None:
    assert failed(ask(databases, invariant("SELECT 1 AS id; DELETE FROM t"))).reason is FailureReason.QUERY


def test_no_session_is_used_twice(path: Path) -> None:
    databases = asking(f"duckdb:///{path}")
    ask(databases, invariant("SELECT 1 AS id; SET VARIABLE kept = 1; SELECT 1 AS id"))
    # The file is free again as soon as the look has ended: somebody else may open it for writing.
    with duckdb.connect(str(path)) as connection:
        connection.execute("INSERT INTO t VALUES (3, 'c')")
    assert rows_of(databases, "SELECT getvariable('kept') AS kept") == [(None,)]
    databases.close()


def test_the_servers_words_are_for_the_callers_terminal_alone(databases: Databases) -> None:
    """semantics 3.5."""
    rule = invariant(f"SELECT CAST('{MARKER}' AS INTEGER) AS id FROM t")
    failure = failed(ask(databases, rule))
    assert (failure.reason, failure.sentence, failure.raw) == (
        FailureReason.QUERY,
        "the database refused the text",
        None,
    )
    raw = databases.look(
        "db",
        time_limit=rule.timeout,
        newest_good=None,
        keep_raw=True,
        examine=lambda look: look.stream(rule.sql, on_columns=lambda _: lambda _: None, count_limit=None),
    )
    assert not isinstance(raw, Failure)
    assert raw.failure is not None
    assert MARKER in (raw.failure.raw or "")


def test_a_time_limit_ends_the_statement(databases: Databases) -> None:
    answer = ask(databases, invariant(ENDLESS, timeout=timedelta(seconds=2)))
    assert failed(answer).reason is FailureReason.TIMEOUT
    assert failed(answer).sentence == "timeout after 2 s"
    assert isinstance(ask(databases, invariant("SELECT id FROM t")), Examined)


def test_rows_that_arrived_before_the_time_limit_are_proof(databases: Databases) -> None:
    """semantics 3.4."""
    seen: list[float] = []

    def slow(_columns: object) -> Any:
        def take(_row: object) -> None:
            if not seen:
                seen.append(time.monotonic())
                wait_until(lambda: time.monotonic() > seen[0] + 3, "the time is up")

        return take

    rule = invariant("SELECT range AS id FROM range(1000000)", timeout=timedelta(seconds=3))
    answer = ask(databases, rule, also=slow)
    assert isinstance(answer, Examined)
    assert (answer.outcome, answer.complete) == (Outcome.VIOLATED, False)
    assert 0 < answer.tallied.counted < 1_000_000


def test_counting_stops_at_count_limit(databases: Databases) -> None:
    answer = ask(databases, replace(invariant("SELECT range AS id FROM range(1000)"), count_limit=10))
    assert isinstance(answer, Examined)
    assert (answer.outcome, answer.tallied.counted, answer.complete) == (Outcome.VIOLATED, 10, False)
    assert failed(answer).reason is FailureReason.COUNT_LIMIT


def test_interrupting_stops_the_statement(databases: Databases) -> None:
    answers: list[Any] = []
    rule = invariant(ENDLESS, timeout=timedelta(minutes=5))
    thread = threading.Thread(target=lambda: answers.append(ask(databases, rule)))
    thread.start()
    wait_until(lambda: databases.free_places("db") == 3, "the statement has its place")
    databases.interrupt_all()
    thread.join(20)
    assert not thread.is_alive()
    assert failed(answers[0]).reason is FailureReason.INTERRUPTED


def test_a_population_is_asked_in_the_same_transaction(databases: Databases) -> None:
    rule = invariant("SELECT id FROM t WHERE id > 2")
    populated = ask(databases, replace(rule, population="SELECT count(*) FROM t"))
    assert isinstance(populated, Examined)
    assert populated.outcome is Outcome.HELD
    for empty in ("SELECT count(*) FROM t WHERE id > 2", "SELECT EXISTS (SELECT 1 FROM t WHERE id > 2)"):
        assert failed(ask(databases, replace(rule, population=empty))).reason is FailureReason.VACUOUS
    filled = ask(databases, replace(rule, population="SELECT EXISTS (SELECT 1 FROM t)"))
    assert isinstance(filled, Examined)
    assert filled.outcome is Outcome.HELD


def test_evidence_says_that_base_rows_are_not_offered(databases: Databases) -> None:
    answer = ask(databases, invariant("SELECT id FROM t"), never_seen=lambda tallied, _complete: tuple(tallied.keys))
    assert isinstance(answer, Examined)
    assert {one.incomplete for one in answer.evidence} == {"base rows are not offered for this kind of database"}


def test_a_database_that_may_be_a_primary_must_be_allowed(path: Path) -> None:
    databases = asking(f"duckdb:///{path}?access_mode=READ_ONLY", allow_primary=False)
    assert failed(ask(databases, invariant("SELECT id FROM t"))).reason is FailureReason.IS_PRIMARY
    databases.close()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("oracle://u@h/d", "no driver for oracle is installed here: pip install oracledb"),
        ("mssql://u@h/d", "no driver for mssql is installed here: pip install pyodbc"),
        ("snowflake://u@h/d", "no driver for snowflake is installed here: pip install snowflake-sqlalchemy"),
        ("nosuch://u@h/d", "no driver for nosuch is installed here: pip install the SQLAlchemy dialect for it"),
        ("no url", "connection refused: the URL of this replica cannot be read"),
        ("duckdb:////absent/folder/x.duckdb?access_mode=READ_ONLY", "connection refused"),
    ],
)
def test_why_no_connection_came_about_is_said_with_its_remedy(url: str, sentence: str) -> None:
    databases = asking(url)
    failure = failed(ask(databases, invariant("SELECT 1 AS id")))
    databases.close()
    assert (failure.reason, failure.sentence) == (FailureReason.REFUSED, sentence)


def test_an_asynchronous_driver_is_refused() -> None:
    failure = failed(ask(asking("postgresql+psycopg_async://u@127.0.0.1:1/d"), invariant("SELECT 1 AS id")))
    assert (failure.reason, failure.sentence) == (
        FailureReason.REFUSED,
        "postgresql+psycopg_async is an asynchronous driver: name one that is not",
    )


def test_a_password_given_apart_is_used_verbatim(monkeypatch: pytest.MonkeyPatch) -> None:
    """semantics 1.7."""
    import sqlalchemy

    seen: list[Any] = []
    real = sqlalchemy.create_engine

    def spying(url: Any, **options: Any) -> Any:
        seen.append(url)
        return real("sqlite://", **options)

    monkeypatch.setattr(sqlalchemy, "create_engine", spying)
    one = config("duckdb://u@h/d")
    one = replace(one, replicas=(replace(one.replicas[0], password=Secret("a:/?#@%20")),))
    databases = Databases(environ={})
    databases.configure([one])
    ask(databases, invariant("SELECT 1 AS id"))
    databases.close()
    assert [url.password for url in seen] == ["a:/?#@%20"]


def test_a_driver_that_does_not_come_back_is_left_behind_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a way to cancel, the connection is abandoned: the run is a timeout, and the place is free again."""
    monkeypatch.setattr("holdtrue.databases.other._CANCELS", ())
    monkeypatch.setattr("holdtrue.databases.other._LEFT_LIMIT", 2)
    monkeypatch.setattr("holdtrue.databases.other_thread._GRACE_SECONDS", 0.05)
    release = threading.Event()
    file = tmp_path / "s.db"
    sqlite3.connect(file).close()
    databases = asking(f"sqlite:///{file}")

    def hang(connection: Any, _record: Any) -> None:
        connection.create_function("hang", 0, lambda: release.wait(60) and 1)

    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    event.listen(Engine, "connect", hang)
    try:
        rule = invariant("SELECT hang() AS id", timeout=timedelta(seconds=2))
        for _ in range(2):
            failure = failed(ask(databases, rule))
            assert failure.reason is FailureReason.TIMEOUT
            assert failure.sentence == "timeout after 2 s; the driver cannot end it, and it may still run there"
        assert databases.free_places("db") == 4
        assert failed(ask(databases, rule)).reason is FailureReason.BUSY
        release.set()
        wait_until(
            lambda: isinstance(ask(databases, invariant("SELECT 1 AS id")), Examined), "what was left behind has ended"
        )
    finally:
        release.set()
        event.remove(Engine, "connect", hang)
        databases.close()


def test_looks_that_are_under_way_are_not_taken_for_ones_that_were_left_behind(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many at once as there are places, whatever the number that may be left behind."""
    monkeypatch.setattr("holdtrue.databases.other._LEFT_LIMIT", 1)
    meanwhile: list[Any] = []
    rule = invariant("SELECT id FROM t")
    also: Any = lambda _columns: lambda _row: meanwhile.append(ask(databases, rule))  # noqa: E731
    assert isinstance(ask(databases, rule, also=also), Examined)
    assert [type(one) for one in meanwhile] == [Examined, Examined]


def test_a_call_that_was_left_behind_takes_no_other_with_it() -> None:
    thread, release, ended = DriverThread("test"), threading.Event(), threading.Event()
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 // 0, time.monotonic() + 10)
    with pytest.raises(Late) as late:
        thread.call(lambda: release.wait(60), time.monotonic() + 0.05)
    assert late.value.left
    with pytest.raises(Late):
        thread.call(lambda: 1, time.monotonic() + 10)
    thread.end(ended.set, 5)
    assert not ended.is_set()
    release.set()
    assert ended.wait(10)
    wait_until(lambda: not thread.alive, "the thread has ended")
