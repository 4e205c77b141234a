"""Asking a real PostgreSQL standby: the text untouched, the transaction read-only, nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from holdtrue.databases import Databases, Examined, Look
from holdtrue.model import FailureReason, Outcome, Position
from servers.invariants import HASHER, ask, failed, good, invariant, postgres_config, primary_config
from servers.postgres import FreshDatabase, started, wait_until

NAME = "holdtrue-under-test"


@pytest.fixture
def standby(postgres_database: FreshDatabase) -> Iterator[Databases]:
    databases = Databases(environ={}, application_name=NAME)
    databases.configure([postgres_config(postgres_database.standby_url)])
    yield databases
    databases.close()


@pytest.fixture
def primary(postgres_database: FreshDatabase) -> Iterator[Databases]:
    databases = Databases(environ={}, application_name=NAME)
    databases.configure([primary_config(postgres_database.primary_url)])
    yield databases
    databases.close()


def sessions(database: FreshDatabase, *, where: str = "true", on: str = "replica") -> int:
    server = database.replica if on == "replica" else database.primary
    ours = f"application_name = '{NAME}' AND datname = '{database.name}'"
    text = f"SELECT count(*) FROM pg_stat_activity WHERE {ours} AND {where}"
    return int(server.value(text))


def test_no_rows_is_held_with_its_position(standby: Databases, postgres_database: FreshDatabase) -> None:
    """Semantics 3: zero is a full result, with duration, replica, lag and position."""
    postgres_database.execute("CREATE TABLE t(id int)")
    answer = good(ask(standby, invariant("SELECT id FROM t")))
    assert (answer.outcome, answer.tallied.counted, answer.complete) == (Outcome.HELD, 0, True)
    position = answer.position
    assert position.role == "standby"
    assert position.lag == timedelta(0)
    assert position.freshness_proven
    assert position.replica == "r1"
    assert position.timeline == 1
    assert position.system == str(postgres_database.value("SELECT system_identifier FROM pg_control_system()"))
    assert position.log_position.count("/") == 1
    assert position.snapshot.count(":") == 2
    assert position.in_progress == ()


def test_rows_are_counted_and_shown_as_server_text(standby: Databases, postgres_database: FreshDatabase) -> None:
    postgres_database.execute(
        ["CREATE TABLE t(id int, b boolean, n numeric(8,3))", "INSERT INTO t VALUES (1, true, 1.5)"]
    )
    rows: list[tuple[Any, ...]] = []
    answer = good(ask(standby, invariant("SELECT id, b, n, NULL FROM t"), also=lambda columns: rows.append))
    assert answer.outcome is Outcome.VIOLATED
    assert rows == [("1", "t", "1.500", None)]


def test_a_band_lists_transactions_that_a_standby_snapshot_does_not(
    standby: Databases, postgres_database: FreshDatabase
) -> None:
    """Semantics 3.2: a standby's snapshot lists nothing in progress; the band does."""
    postgres_database.execute("CREATE TABLE t(id int)")
    with postgres_database.connect(autocommit=False) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
        xid = int(writer.execute("SELECT pg_current_xact_id()::text").fetchone()[0])
        postgres_database.execute("INSERT INTO t VALUES (2)")
        position = good(ask(standby, invariant("SELECT id FROM t"))).position
        assert position.in_progress == (xid,)
        assert position.snapshot.split(":")[2] == ""
        writer.rollback()


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM t",
        "COMMIT; DELETE FROM t",
        "SELECT 1; DELETE FROM t",
        "WITH gone AS (DELETE FROM t RETURNING id) SELECT id FROM gone",
        "SET TRANSACTION READ WRITE",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT nextval('s')",
        "SELECT setval('s', 99)",
        "SELECT id INTO copied FROM t",
        "SELECT id FROM t FOR UPDATE",
        "COPY t TO STDOUT",
        "COPY t TO PROGRAM 'cat > /tmp/holdtrue-escaped'",
        "/* ( */ -- x\n DO $$ BEGIN DELETE FROM t; END $$",
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, 'x')",
        "CREATE TABLE escaped(id int)",
        "EXPLAIN ANALYZE SELECT 1",
        "CALL p()",
        "",
        "-- nothing",
        "SELECT 1\0; DELETE FROM t",
    ],
)
def test_whatever_writes_is_refused_and_nothing_changes(
    primary: Databases, postgres_database: FreshDatabase, text: str
) -> None:
    """Design 3.7, on a primary with a superuser's login: the worst case that read-only in depth must hold for."""
    postgres_database.execute(
        [
            "CREATE TABLE t(id int)",
            "INSERT INTO t VALUES (1), (2)",
            "CREATE SEQUENCE s",
            "CREATE PROCEDURE p() LANGUAGE sql AS 'DELETE FROM t'",
        ]
    )
    before = postgres_database.query(
        "SELECT count(*) FROM pg_class UNION ALL SELECT count(*) FROM pg_largeobject_metadata"
    )
    answer = good(ask(primary, invariant(text)))
    assert answer.outcome is Outcome.ERRORED
    assert failed(answer).reason in (FailureReason.WRITES, FailureReason.QUERY)
    assert postgres_database.value("SELECT count(*) FROM t") == 2
    assert postgres_database.value("SELECT last_value FROM s") == 1
    assert (
        postgres_database.query("SELECT count(*) FROM pg_class UNION ALL SELECT count(*) FROM pg_largeobject_metadata")
        == before
    )


def test_a_session_lock_is_released_with_the_transaction(primary: Databases, postgres_database: FreshDatabase) -> None:
    """Semantics 3.6, after success and after failure."""
    for text in ("SELECT pg_advisory_lock(7)", "SELECT pg_advisory_lock(7), 1 / 0"):
        ask(primary, invariant(text))
        held = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
        held += f" WHERE l.locktype = 'advisory' AND d.datname = '{postgres_database.name}'"
        wait_until(lambda held=held: postgres_database.value(held) == 0, "the lock is released")  # type: ignore[misc]
    assert sessions(postgres_database, on="primary") == 1


@pytest.mark.parametrize(
    ("population", "reason"),
    [
        ("SELECT EXISTS (SELECT 1 FROM t)", None),
        ("SELECT EXISTS (SELECT 1 FROM t WHERE id > 9)", FailureReason.VACUOUS),
    ],
)
def test_a_population_that_is_false_is_empty(
    standby: Databases, postgres_database: FreshDatabase, population: str, reason: FailureReason | None
) -> None:
    """Semantics 3.1: the one row of ``SELECT EXISTS`` comes whatever the data."""
    postgres_database.execute(["CREATE TABLE t(id int)", "INSERT INTO t VALUES (1)"])
    answer = good(ask(standby, invariant("SELECT id FROM t WHERE id > 9", population=population)))
    assert (answer.failure.reason if answer.failure else None) is reason


def test_no_session_is_left_in_a_transaction(standby: Databases, postgres_database: FreshDatabase) -> None:
    """Case 051 and semantics 3.6: after success, error, timeout, count limit and a failing examiner."""
    postgres_database.execute("CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 5000) g")
    ask(standby, invariant("SELECT id FROM t"))
    ask(standby, invariant("SELECT absent FROM t"))
    ask(standby, invariant("SELECT 1 AS id FROM pg_sleep(20)", timeout=timedelta(milliseconds=200)))
    ask(standby, invariant("SELECT id FROM t", count_limit=10))

    def broken(look: Look) -> None:
        raise ValueError("a surprise")

    with pytest.raises(ValueError, match="a surprise"):
        standby.look("db", time_limit=timedelta(seconds=5), newest_good=None, examine=broken)
    wait_until(lambda: sessions(postgres_database, where="state <> 'idle'") == 0, "every session is idle or gone")


def test_rows_that_arrived_before_the_time_limit_are_proof(
    standby: Databases, postgres_database: FreshDatabase
) -> None:
    """Semantics 3.4: violated, at least n, incomplete; and the limit holds while slow rows stream."""
    slow = "pg_sleep(CASE WHEN g > 5 THEN 0.1 ELSE 0 END)"
    text = f"SELECT g AS id, repeat('x', 9000) AS pad, {slow} FROM generate_series(1, 400) g"
    answer = good(ask(standby, invariant(text, timeout=timedelta(seconds=1))))
    assert answer.outcome is Outcome.VIOLATED
    assert not answer.complete
    assert 5 <= answer.tallied.counted < 400
    assert failed(answer).reason is FailureReason.TIMEOUT
    assert failed(answer).sentence == "timeout after 1 s"
    assert failed(answer).sqlstate == "57014"


def test_a_count_limit_says_at_least_and_only_if_there_was_more(
    standby: Databases, postgres_database: FreshDatabase
) -> None:
    """Semantics 3.4: a capped number is never presented as exact, an exact one never as capped."""
    postgres_database.execute("CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 10) g")
    capped = good(ask(standby, invariant("SELECT id FROM t", count_limit=9)))
    assert (capped.outcome, capped.tallied.counted, capped.complete) == (Outcome.VIOLATED, 9, False)
    assert failed(capped).reason is FailureReason.COUNT_LIMIT
    exact = good(ask(standby, invariant("SELECT id FROM t", count_limit=10)))
    assert (exact.outcome, exact.tallied.counted, exact.complete) == (Outcome.VIOLATED, 10, True)


def test_a_tolerated_number_of_rows_before_a_time_limit_is_no_answer(
    standby: Databases, postgres_database: FreshDatabase
) -> None:
    """Semantics 3.4: fewer than tolerated and then cut short is errored, never held."""
    from holdtrue.model import Policy

    text = "SELECT 1 AS id, repeat('x', 9000) UNION ALL SELECT 2, (SELECT 'y' FROM pg_sleep(20))"
    rule = invariant(text, timeout=timedelta(milliseconds=500), policy=Policy(tolerate=5))
    answer = good(ask(standby, rule))
    assert answer.outcome is Outcome.ERRORED


def test_no_text_of_the_server_is_kept_unless_asked_for(standby: Databases) -> None:
    """Semantics 3.5: the server's message carries row values."""
    text = "SELECT ('marker-4711-' || 'value')::int AS id"
    answer = good(ask(standby, invariant(text)))
    failure = failed(answer)
    assert (failure.sqlstate, failure.raw) == ("22P02", None)
    assert "4711" not in repr(answer)
    raw = failed(good(ask(standby, invariant(text), keep_raw=True)))
    assert "marker-4711-value" in str(raw.raw)


def test_the_place_of_an_error_is_kept(standby: Databases) -> None:
    failure = failed(good(ask(standby, invariant("SELECT id FROM absent_table"))))
    assert (failure.sqlstate, failure.position) == ("42P01", 16)
    assert "does not exist" in failure.sentence


def test_a_primary_is_refused_unless_allowed(postgres_database: FreshDatabase) -> None:
    databases = Databases(environ={})
    databases.configure([postgres_config(postgres_database.primary_url)])
    try:
        assert failed(ask(databases, invariant())).reason is FailureReason.IS_PRIMARY
    finally:
        databases.close()


def test_interrupting_cancels_on_the_server(standby: Databases, postgres_database: FreshDatabase) -> None:
    """Case 128: the statement ends on the server, the run is interrupted, no session is left."""
    answers: list[Any] = []
    rule = invariant("SELECT 1 AS id FROM pg_sleep(300)", timeout=timedelta(minutes=5))
    thread = threading.Thread(target=lambda: answers.append(ask(standby, rule)))
    thread.start()
    active = "state = 'active' AND query LIKE '%pg_sleep%'"
    wait_until(lambda: sessions(postgres_database, where=active) == 1, "the statement runs")
    standby.interrupt_all()
    thread.join(10)
    assert not thread.is_alive()
    assert good(answers[0]).outcome is Outcome.ERRORED
    assert failed(answers[0]).reason is FailureReason.INTERRUPTED
    assert sessions(postgres_database, where="state = 'active'") == 0
    standby.close()
    wait_until(lambda: sessions(postgres_database) == 0, "no session of the product is left")


def test_places_are_bounded_and_waiting_for_one_ends(postgres_database: FreshDatabase) -> None:
    databases = Databases(environ={}, application_name=NAME)
    databases.configure([postgres_config(postgres_database.standby_url, concurrency=1)])
    slow = invariant("SELECT 1 AS id FROM pg_sleep(60)", timeout=timedelta(minutes=2))
    thread = threading.Thread(target=lambda: ask(databases, slow))
    try:
        assert databases.free_places("db") == 1
        thread.start()
        wait_until(lambda: databases.free_places("db") == 0, "the place is taken")
        failure = failed(ask(databases, invariant(timeout=timedelta(milliseconds=100))))
        assert failure.reason is FailureReason.BUSY
    finally:
        databases.interrupt_all()
        thread.join(10)
        databases.close()
    assert databases.free_places("db") == 1


def test_runs_never_go_back(standby: Databases, postgres_database: FreshDatabase) -> None:
    """Semantics 2.3: behind the newest good run is passed over, another server is refused until it is accepted."""
    here = good(ask(standby, invariant())).position

    def newest(**changes: Any) -> Position:
        from dataclasses import replace

        return replace(here, **changes)

    assert failed(ask(standby, invariant(), newest_good=newest(log_position="FF/0"))).reason is FailureReason.WENT_BACK
    assert failed(ask(standby, invariant(), newest_good=newest(timeline=9))).reason is FailureReason.WENT_BACK
    assert isinstance(ask(standby, invariant(), newest_good=newest(timeline=0, log_position="")), Examined)
    other = newest(system="12345")
    assert failed(ask(standby, invariant(), newest_good=other)).reason is FailureReason.ANOTHER_SERVER
    assert isinstance(ask(standby, invariant(), newest_good=other, accepted_system=here.system), Examined)


def test_a_replica_that_is_behind_is_passed_over(postgres_database: FreshDatabase) -> None:
    """Semantics 2.3 and design 6: another replica answers, and the state of each is known."""
    databases = Databases(environ={})
    dead = "postgresql://nobody@127.0.0.1:1/none"
    databases.configure([postgres_config(dead, postgres_database.standby_url, dead)])
    try:
        answer = good(ask(databases, invariant()))
        assert answer.position.replica == "r2"
        known = {state.replica: state.up for state in databases.replica_states()}
        assert known["r2"] is True
        assert None in known.values() or False in known.values()
        databases.configure([postgres_config(dead, dead)])
        failure = failed(ask(databases, invariant()))
        assert failure.reason is FailureReason.REFUSED
        assert "r1: " in failure.sentence
        assert "r2: " in failure.sentence
    finally:
        databases.close()


def test_a_paused_replica_is_not_asked(standby: Databases, postgres_database: FreshDatabase) -> None:
    """Semantics 2.2."""
    postgres_database.replica.pause_replay()
    try:
        assert failed(ask(standby, invariant())).reason is FailureReason.REPLAY_PAUSED
    finally:
        postgres_database.replica.resume_replay()
    wait_until(lambda: isinstance(ask(standby, invariant()), Examined), "the replica is asked again")


def test_the_pool_of_an_unchanged_database_survives_a_reload(
    standby: Databases, postgres_database: FreshDatabase
) -> None:
    ask(standby, invariant())
    pids = "SELECT array_agg(pid) FROM pg_stat_activity WHERE application_name = '" + NAME + "'"
    before = postgres_database.replica.value(pids)
    standby.configure([postgres_config(postgres_database.standby_url)])
    ask(standby, invariant())
    assert postgres_database.replica.value(pids) == before
    standby.configure([postgres_config(postgres_database.standby_url, timezone="Europe/Berlin")])
    wait_until(lambda: sessions(postgres_database) == 0, "the former pool is closed")


def test_bytes_that_are_no_utf8_are_shown_as_such_and_count(postgres_database: FreshDatabase) -> None:
    """Design 6: a cell that cannot be decoded is shown as such and still counts."""
    name = postgres_database.name + "_ascii"
    primary = postgres_database.primary
    primary.create_database(name, "ENCODING 'SQL_ASCII' TEMPLATE template0")
    try:
        primary.execute([r"CREATE TABLE t AS SELECT convert_from('\x636166e9', 'SQL_ASCII') AS a, 2 AS b"], name)
        databases = Databases(environ={})
        databases.configure([primary_config(primary.url(name))])
        rows: list[Any] = []
        answer = good(ask(databases, invariant("SELECT a, b FROM t"), also=lambda columns: rows.append))
        databases.close()
        assert answer.tallied.counted == 1
        assert rows == [("caf\\xe9 (not valid UTF-8)", "2")]
    finally:
        primary.drop_database(name)


def test_the_hasher_of_the_tests_is_real() -> None:
    assert HASHER.hash(["1"]) != HASHER.hash(["2"])


def test_a_session_that_forgot_the_prepared_question_is_asked_in_full(postgres_database: FreshDatabase) -> None:
    """Semantics 3.2, behind a transaction pooler: the next transaction may be in a session that prepared nothing."""
    from holdtrue.databases.looks import Limits
    from holdtrue.databases.postgresql import PostgresDriver, PostgresLink

    config = postgres_config(postgres_database.standby_url)
    link = PostgresDriver(NAME).connect(config, config.replicas[0], environ={}, within=timedelta(seconds=10))
    assert isinstance(link, PostgresLink)
    limits = Limits.within(timedelta(seconds=10), timedelta(seconds=10))
    systems = []
    try:
        for _ in range(3):
            assert link.open(limits, config, keep_raw=False) is None
            systems.append(link.position.system)
            assert link.end()
            link._wire.settle()
            link._wire.simple(b"DEALLOCATE ALL", 5.0)
    finally:
        link.close()
    assert len(set(systems)) == 1
    assert systems[0]


def test_a_standby_whose_primary_is_gone_is_cut_off() -> None:
    """Semantics 2.1: no receiver lives, so nothing is known, however equal receive and replay are."""
    with started() as primary:
        replica = primary.standby()
        databases = Databases(environ={})
        databases.configure([postgres_config(replica.url())])
        assert isinstance(ask(databases, invariant()), Examined)
        primary.stop()
        wait_until(
            lambda: replica.value("SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'") == 0,
            "the receiver has gone",
        )
        failure = failed(ask(databases, invariant()))
        assert failure.reason is FailureReason.CUT_OFF
        databases.close()


def test_a_promoted_standby_is_a_failover_on_a_higher_timeline() -> None:
    """Semantics 2.3: the same system, a new timeline; accepted, and going back to the old one is not."""
    with started() as primary:
        replica = primary.standby()
        databases = Databases(environ={})
        databases.configure([postgres_config(replica.url(), allow_primary=True)])
        before = good(ask(databases, invariant())).position
        replica.value("SELECT pg_promote(true, 30)")
        after = good(ask(databases, invariant(), newest_good=before)).position
        assert (after.role, after.timeline, after.system) == ("primary", before.timeline + 1, before.system)
        databases.configure([postgres_config(primary.url(), allow_primary=True)])
        assert failed(ask(databases, invariant(), newest_good=after)).reason is FailureReason.WENT_BACK
        databases.close()
