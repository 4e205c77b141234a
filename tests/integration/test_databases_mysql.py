"""`holdtrue.databases` on a real MariaDB primary with a real replica."""

from __future__ import annotations

import contextlib
import resource
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pymysql
import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.model import DatabaseConfig, Failure, FailureReason, Outcome
from servers.invariants import ask, failed, good, invariant, mysql_config
from servers.mariadb import FreshMariadb, MariadbServer
from servers.postgres import wait_until

SECOND = timedelta(seconds=1)
NAME = "holdtrue-mysql"
Ask = Callable[..., Any]


def opened(*configs: DatabaseConfig) -> Databases:
    databases = Databases(environ={}, application_name=NAME)
    databases.configure(list(configs))
    return databases


@pytest.fixture
def shop(mariadb_database: FreshMariadb) -> FreshMariadb:
    """Two rows on primary and replica."""
    mariadb_database.execute(
        ["CREATE TABLE t(id int PRIMARY KEY, note text)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')"]
    )
    return mariadb_database


@pytest.fixture
def databases(mariadb_database: FreshMariadb) -> Iterator[Databases]:
    databases = opened(mysql_config(mariadb_database.replica_url))
    yield databases
    databases.interrupt_all()
    databases.close()


def sessions(server: MariadbServer, where: str = "1 = 1") -> int:
    """Sessions of Holdtrue's login."""
    text = f"SELECT count(*) FROM information_schema.processlist WHERE user = 'holdtrue' AND {where}"
    return int(server.value(text))


def test_rows_are_counted_on_a_replica_with_its_position_and_lag(databases: Databases, shop: FreshMariadb) -> None:
    """Semantics 2.1, 2.3."""
    answer = good(ask(databases, invariant("SELECT id FROM t")))
    assert (answer.outcome, answer.tallied.counted, answer.complete) == (Outcome.VIOLATED, 2, True)
    position = answer.position
    assert (position.role, position.lag, position.freshness_proven) == ("standby", timedelta(0), True)
    assert position.log_position == shop.primary.value("SELECT @@gtid_binlog_pos")
    assert position.system == "mariadb:domain 0"
    held = good(ask(databases, invariant("SELECT id FROM t WHERE id > 9")))
    assert (held.outcome, held.tallied.counted) == (Outcome.HELD, 0)
    assert sessions(shop.replica) == 1


def test_the_text_reaches_the_server_byte_for_byte_and_alone(databases: Databases, shop: FreshMariadb) -> None:
    """Semantics 3.1, 3.2: percent signs and colons are no parameters; a second statement is refused by the protocol."""
    sql = "SELECT id FROM t WHERE note LIKE '%a%' AND '%s :x %(y)s' <> 'ü' -- 100 %"
    shop.replica.execute(["SET GLOBAL log_output = 'FILE'", "SET GLOBAL general_log = ON"])
    try:
        assert good(ask(databases, invariant(sql))).tallied.counted == 1
    finally:
        shop.replica.execute("SET GLOBAL general_log = OFF")
    log = (shop.replica.log_file.parent / "general.log").read_text(encoding="utf-8", errors="replace")
    assert log.count(f"Query\t{sql}\n") == 1
    failure = failed(ask(databases, invariant("SELECT id FROM t; SELECT 2")))
    assert (failure.reason, failure.sqlstate) == (FailureReason.QUERY, "42000")


ESCAPES = [
    "CREATE TABLE escaped(x int)",
    "TRUNCATE TABLE t",
    "DROP TABLE t",
    "DELETE FROM t",
    "SELECT 1 INTO OUTFILE '/tmp/holdtrue-escaped'",
    "SELECT 1 INTO DUMPFILE '/tmp/holdtrue-escaped'",
    "SELECT 1 /*! INTO OUTFILE '/tmp/holdtrue-escaped' */",
    "SELECT id FROM t FOR UPDATE",
    "SELECT id FROM t LOCK IN SHARE MODE",
    "SET SESSION TRANSACTION READ WRITE",
    "SET TRANSACTION READ WRITE",
    "BEGIN NOT ATOMIC SET SESSION TRANSACTION READ WRITE; DELETE FROM t; END",
    "EXECUTE IMMEDIATE 'DELETE FROM t'",
    "CALL emptied()",
    "SELECT emptied_by_function() AS id",
    "SELECT NEXT VALUE FOR numbers AS id",
    "HANDLER t OPEN",
    "LOCK TABLES t WRITE",
    "FLUSH TABLES",
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE t",
    "DO SLEEP(0)",
]


def test_nothing_but_reading_passes_even_for_a_login_that_may_do_everything(mariadb_database: FreshMariadb) -> None:
    """Semantics 3.2: a read-only session, where a read-only transaction alone lets DDL commit and succeed."""
    shop = mariadb_database
    shop.execute(
        [
            "CREATE TABLE t(id int PRIMARY KEY)",
            "INSERT INTO t VALUES (1)",
            "CREATE SEQUENCE numbers",
            "CREATE PROCEDURE emptied() DELETE FROM t",
            "CREATE FUNCTION emptied_by_function() RETURNS int BEGIN DELETE FROM t; RETURN 1; END",
        ]
    )
    before = (shop.primary.query("SHOW TABLES", shop.name), shop.primary.value("SELECT @@gtid_binlog_pos"))
    databases = opened(mysql_config(shop.primary.url(shop.name, "admin"), allow_primary=True))
    try:
        for sql in ESCAPES:
            failure = failed(ask(databases, invariant(sql)))
            assert failure.reason is FailureReason.WRITES, (sql, failure)
            assert good(ask(databases, invariant("SELECT id FROM t"))).tallied.counted == 1, sql
    finally:
        databases.close()
    assert (shop.primary.query("SHOW TABLES", shop.name), shop.primary.value("SELECT @@gtid_binlog_pos")) == before


def test_the_session_itself_refuses_to_define_tables(mariadb_database: FreshMariadb) -> None:
    """What the inspection would miss: the statements of the opening, and then DDL past it."""
    from holdtrue.databases.mysql_opening import BEGIN, READ_ONLY

    with contextlib.closing(mariadb_database.primary.connect(mariadb_database.name)) as connection:
        cursor = connection.cursor()
        for statement in (READ_ONLY, BEGIN):
            cursor.execute(statement)
        for statement in ("CREATE TABLE esc(x int)", "DROP TABLE IF EXISTS esc", "CREATE USER nobody_at_all"):
            with pytest.raises(pymysql.err.OperationalError, match="READ ONLY"):
                cursor.execute(statement)


def test_nothing_of_a_session_outlives_its_look(databases: Databases, shop: FreshMariadb) -> None:
    """Semantics 3.3, 3.6: locks survive a rollback, limits and variables a pool; the connection is kept all the same."""
    assert good(ask(databases, invariant("SELECT GET_LOCK('kept', 0) AS id FROM t WHERE id = 1"))).tallied.counted == 1
    assert shop.replica.value("SELECT IS_FREE_LOCK('kept')") == 1
    ask(databases, invariant("SELECT @left := 7 AS id FROM t"))
    assert good(ask(databases, invariant("SELECT id FROM t WHERE @left IS NOT NULL"))).outcome is Outcome.HELD
    quick = invariant("SELECT id FROM t WHERE SLEEP(0.6) = 0", timeout=0.5 * SECOND)
    assert failed(ask(databases, quick)).reason is FailureReason.TIMEOUT
    patient = invariant("SELECT id FROM t WHERE id = 1 AND SLEEP(0.6) = 0", timeout=5 * SECOND)
    assert good(ask(databases, patient)).complete
    assert sessions(shop.replica) == 1
    wait_until(
        lambda: shop.replica.value("SELECT count(*) FROM information_schema.innodb_trx") == 0, "no transaction is open"
    )


def test_a_time_limit_ends_the_statement_on_the_server(databases: Databases, shop: FreshMariadb) -> None:
    """Semantics 3.3."""
    slow = "SELECT a.seq AS id FROM seq_1_to_100000000 a JOIN seq_1_to_100000000 b WHERE a.seq * b.seq = -1"
    answer = good(ask(databases, invariant(slow, timeout=SECOND)))
    failure = failed(answer)
    assert (failure.reason, failure.sentence) == (FailureReason.TIMEOUT, "timeout after 1 s")
    assert answer.statement < timedelta(seconds=4)
    wait_until(lambda: sessions(shop.replica, "command = 'Query'") == 0, "nothing of ours runs")


def test_the_limit_holds_while_slow_rows_stream_and_what_arrived_counts(
    databases: Databases, shop: FreshMariadb
) -> None:
    """Semantics 3.3, 3.4: rows wide enough that the server sends each one at once."""
    slow = "SELECT seq AS id, REPEAT('x', 100000) AS wide FROM seq_1_to_1000 WHERE SLEEP(0.05) = 0"
    answer = good(ask(databases, invariant(slow, timeout=SECOND)))
    assert failed(answer).reason is FailureReason.TIMEOUT
    assert (answer.outcome, answer.complete) == (Outcome.VIOLATED, False)
    assert 1 <= answer.tallied.counted < 30


def test_the_watchdog_cancels_on_the_server_where_the_servers_limit_does_not(
    databases: Databases, shop: FreshMariadb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Semantics 3.3: KILL QUERY from a second connection."""
    from holdtrue.databases import mysql_opening

    monkeypatch.setattr(mysql_opening, "_limit", lambda flavour, limit: "SESSION max_statement_time = 0")
    answer = good(ask(databases, invariant("SELECT id FROM t WHERE SLEEP(20) = 0", timeout=SECOND)))
    assert failed(answer).sentence == "timeout after 1 s"
    assert answer.statement < timedelta(seconds=4)
    wait_until(lambda: sessions(shop.replica) == 0, "the cancelled session is gone")
    assert good(ask(databases, invariant("SELECT id FROM t"))).tallied.counted == 2


def test_a_value_that_an_interrupted_function_gives_is_no_good_news(databases: Databases, shop: FreshMariadb) -> None:
    """BENCHMARK ends with a value when its time is up, instead of an error: such an end proves nothing."""
    sql = "SELECT id FROM t WHERE id = 1 AND BENCHMARK(2000000000, MD5('a')) = 1"
    answer = good(ask(databases, invariant(sql, timeout=SECOND)))
    assert answer.outcome is Outcome.ERRORED
    assert failed(answer).reason is FailureReason.TIMEOUT


def test_a_wait_for_a_lock_is_told_apart_from_a_slow_query(shop: FreshMariadb) -> None:
    databases = opened(mysql_config(shop.primary_url, allow_primary=True))
    with contextlib.closing(shop.primary.connect(shop.name)) as migration:
        migration.cursor().execute("LOCK TABLES t WRITE")
        try:
            failure = failed(ask(databases, invariant("SELECT id FROM t", timeout=3 * SECOND)))
            assert (failure.reason, failure.sqlstate) == (FailureReason.LOCK_WAIT, "HY000")
        finally:
            migration.cursor().execute("UNLOCK TABLES")
    assert good(ask(databases, invariant("SELECT id FROM t"))).tallied.counted == 2
    databases.close()


def test_a_run_is_interrupted_on_the_server(databases: Databases, shop: FreshMariadb) -> None:
    answers: list[Examined | Failure] = []
    thread = threading.Thread(
        target=lambda: answers.append(
            ask(databases, invariant("SELECT id FROM t WHERE SLEEP(20) = 0", timeout=60 * SECOND))
        )
    )
    thread.start()
    wait_until(lambda: sessions(shop.replica, "state = 'User sleep'") == 1, "the statement runs")
    databases.interrupt_all()
    thread.join(20)
    assert not thread.is_alive()
    assert failed(answers[0]).reason is FailureReason.INTERRUPTED
    wait_until(lambda: sessions(shop.replica, "command = 'Query'") == 0, "nothing of ours runs")


def test_a_session_that_was_killed_is_made_anew(databases: Databases, shop: FreshMariadb) -> None:
    """Semantics 2.4."""
    assert good(ask(databases, invariant("SELECT id FROM t"))).tallied.counted == 2
    (number,) = shop.replica.query("SELECT id FROM information_schema.processlist WHERE user = 'holdtrue'")[0]
    shop.replica.execute(f"KILL {number}")
    assert good(ask(databases, invariant("SELECT id FROM t"))).tallied.counted == 2


def test_a_session_killed_at_work_is_asked_once_more_and_rows_that_arrived_are_proof(shop: FreshMariadb) -> None:
    """Semantics 2.4, 3.4."""
    databases = opened(mysql_config(shop.replica_url))
    answers: list[Examined | Failure] = []
    sql = "SELECT seq AS id, REPEAT('x', 100000) AS wide FROM seq_1_to_1000 WHERE seq < 4 OR SLEEP(20) = 0"
    seen = threading.Event()

    def also(columns: Any) -> Any:
        return lambda row: seen.set()

    thread = threading.Thread(
        target=lambda: answers.append(ask(databases, invariant(sql, timeout=30 * SECOND), also=also))
    )
    thread.start()
    assert seen.wait(20)
    wait_until(lambda: sessions(shop.replica, "state = 'User sleep'") == 1, "the statement sleeps")
    (number,) = shop.replica.query("SELECT id FROM information_schema.processlist WHERE user = 'holdtrue'")[0]
    shop.replica.execute(f"KILL {number}")
    thread.join(20)
    assert not thread.is_alive()
    answer = good(answers[0])
    assert (answer.outcome, answer.complete, failed(answer).reason) == (Outcome.VIOLATED, False, FailureReason.LOST)
    assert answer.tallied.counted >= 1
    databases.close()


def test_counting_stops_at_the_limit_and_the_snapshot_is_still_good(databases: Databases, shop: FreshMariadb) -> None:
    """Semantics 3.4."""
    answer = good(ask(databases, invariant("SELECT seq AS id FROM seq_1_to_10000000", count_limit=10)))
    assert (answer.tallied.counted, answer.complete, failed(answer).reason) == (10, False, FailureReason.COUNT_LIMIT)
    many = invariant("SELECT 20000 AS n", returns="count", rows_sql="SELECT seq AS id FROM seq_1_to_20000", key=("id",))
    from holdtrue.model import Returns

    noted = good(ask(databases, replace(many, returns=Returns.COUNT)))
    assert noted.rows_note == "rows_sql disagrees: it returned at least 10000 rows where the text counted 20000"


def test_population_is_asked_in_the_same_snapshot(databases: Databases, shop: FreshMariadb) -> None:
    """Semantics 3.1."""
    nothing = "SELECT id FROM t WHERE id > 9"
    held = good(ask(databases, invariant(nothing, population="SELECT count(*) FROM t")))
    assert held.outcome is Outcome.HELD
    vacuous = good(ask(databases, invariant(nothing, population="SELECT count(*) FROM t WHERE id > 9")))
    assert failed(vacuous).reason is FailureReason.VACUOUS
    broken = good(ask(databases, invariant(nothing, population="SELECT absent FROM t")))
    assert failed(broken).reason is FailureReason.POPULATION


def test_many_rows_pass_through_without_being_kept(databases: Databases, shop: FreshMariadb) -> None:
    """Rows stream: what 300,000 of them need is what a few need."""
    ask(databases, invariant("SELECT seq AS id FROM seq_1_to_1000"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wide = "SELECT seq AS id, REPEAT('x', 1000) AS wide FROM seq_1_to_300000"
    answer = good(ask(databases, invariant(wide, key=("id",), timeout=100 * SECOND)))
    assert (answer.tallied.counted, answer.complete) == (300_000, True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # kilobytes, of 300 MB that passed


def test_the_servers_message_is_not_kept_but_for_the_callers_own_terminal(
    databases: Databases, shop: FreshMariadb
) -> None:
    """Semantics 3.5."""
    sql = "SELECT id FROM t WHERE EXTRACTVALUE('<a/>', '~private-4711') = 1"
    failure = failed(ask(databases, invariant(sql)))
    assert failure.raw is None
    assert "4711" not in repr(failure)
    wrong = invariant("SELECT id FROM t WHERE id = (SELECT 'private-4711' UNION SELECT 2)")
    assert "4711" not in repr(failed(ask(databases, wrong)))
    assert "4711" in (failed(ask(databases, invariant(sql), keep_raw=True)).raw or "")
