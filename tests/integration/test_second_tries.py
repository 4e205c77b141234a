"""One more try elsewhere, and limits that hold, witnessed by the servers' own lists of what is at work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from holdtrue.databases import Databases, Examined, Look, examine_invariant
from holdtrue.model import Failure, FailureReason, Invariant, Outcome
from servers.invariants import HASHER, ask, invariant, mysql_config, postgres_config
from servers.mariadb import FreshMariadb
from servers.postgres import PostgresStandby, Topology, wait_for_replay, wait_until
from servers.sickness import HOUR, NAME, RULE, SLEEP, at_work, good, of

# One more try elsewhere.


@contextmanager
def asleep(databases: Databases, servers: Topology, rule: Invariant) -> Iterator[tuple[list[Any], PostgresStandby]]:
    """Within: one look sleeps on one of both standbys, which is told; its answer when it has ended."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ask(databases, rule)))
    thread.start()
    sleeping = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}' AND wait_event = 'PgSleep'"
    try:
        wait_until(lambda: servers.first.value(sleeping) + servers.second.value(sleeping) == 1, "the look sleeps")
        yield answers, servers.first if servers.first.value(sleeping) else servers.second
        thread.join(60)
        assert not thread.is_alive()
    finally:
        databases.interrupt_all()
        thread.join(30)


def other_than(servers: Topology, one: PostgresStandby) -> tuple[PostgresStandby, str]:
    return (servers.second, "r2") if one is servers.first else (servers.first, "r1")


END = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = '{NAME}'"


def test_a_session_that_was_ended_is_followed_by_an_answer_of_the_other_replica(servers: Topology, opened: Any) -> None:
    """Semantics 2.4, 57P01: once more, elsewhere, within the run's time."""
    databases = opened(of(servers.first, servers.second))
    # On the second try the text finds what it waits for.
    text = "SELECT 1 AS id WHERE CASE WHEN EXISTS (SELECT FROM t) THEN false ELSE pg_sleep(60) IS NULL END"
    with asleep(databases, servers, invariant(text, timeout=timedelta(minutes=2))) as (answers, where):
        other, name = other_than(servers, where)
        servers.primary.execute("INSERT INTO t VALUES (1)", "sick")
        wait_for_replay(other)
        assert where.value(END) is True
    answer = good(answers[0])
    assert (answer.outcome, answer.position.replica) == (Outcome.HELD, name)


def test_a_replica_that_restarts_in_the_middle_of_a_run_is_followed_by_the_other(
    servers: Topology, opened: Any
) -> None:
    """Semantics 2.4, 57P01 or a broken connection, then refused ones."""
    databases = opened(of(servers.first, servers.second))
    text = "SELECT 1 AS id WHERE CASE WHEN EXISTS (SELECT FROM t) THEN false ELSE pg_sleep(60) IS NULL END"
    with asleep(databases, servers, invariant(text, timeout=timedelta(minutes=2))) as (answers, where):
        other, name = other_than(servers, where)
        servers.primary.execute("INSERT INTO t VALUES (1)", "sick")
        wait_for_replay(other)
        where.stop()
    try:
        assert good(answers[0]).position.replica == name
        for _ in range(3):
            assert good(ask(databases, RULE)).position.replica == name
    finally:
        where.start()
        where.wait_streaming()
        wait_for_replay(where)


def test_a_crash_that_ends_every_session_is_followed_by_the_other_replica(servers: Topology, opened: Any) -> None:
    """Semantics 2.4, 57P02: one session was killed, and the server ends all others; it is asked again once it recovered."""
    databases = opened(of(servers.first, servers.second))
    text = "SELECT 1 AS id WHERE CASE WHEN EXISTS (SELECT FROM t) THEN false ELSE pg_sleep(60) IS NULL END"
    with asleep(databases, servers, invariant(text, timeout=timedelta(minutes=2))) as (answers, where):
        other, name = other_than(servers, where)
        servers.primary.execute("INSERT INTO t VALUES (1)", "sick")
        wait_for_replay(other)
        where.crash()
    answer = good(answers[0])
    assert (answer.outcome, answer.position.replica) == (Outcome.HELD, name)
    servers.cascaded.wait_streaming()
    assert good(ask(opened(of(where)), RULE)).tallied.counted == 1


@pytest.mark.parametrize(
    ("rows", "outcome"), [("", Outcome.ERRORED), ("SELECT 1 AS id, pg_sleep(0) UNION ALL ", Outcome.VIOLATED)]
)
def test_rows_that_came_before_a_crash_are_proof_and_none_is_no_answer(
    servers: Topology, opened: Any, rows: str, outcome: Outcome
) -> None:
    """Semantics 0, 2.4, 3.4, 57P02: of one replica alone; nothing turns green, and what is proven is not asked again."""
    databases = opened(of(servers.second))
    with asleep(databases, servers, invariant(f"{rows}SELECT 2 AS id, pg_sleep(60)", timeout=HOUR)) as (answers, where):
        where.crash()
    answer = answers[0]
    failure = answer if isinstance(answer, Failure) else answer.failure
    assert failure.reason in (FailureReason.LOST, FailureReason.REFUSED)
    if isinstance(answer, Examined):
        assert (answer.outcome, answer.complete) == (outcome, False)
        assert answer.tallied.counted == (1 if rows else 0)
    else:
        assert not rows


def test_a_recovery_conflict_is_followed_by_an_answer_of_the_other_replica(servers: Topology, opened: Any) -> None:
    """Semantics 2.4, 40001, case 079 with two replicas: only the first cancels its queries for replay's sake."""
    databases = opened(of(servers.first, servers.second))
    text = "SELECT id FROM t WHERE CASE WHEN EXISTS (SELECT FROM done) THEN false ELSE pg_sleep(60) IS NULL END"
    servers.execute(["CREATE TABLE done(id int)", "INSERT INTO t SELECT generate_series(1, 1000)"], "sick")
    try:
        with asleep(databases, servers, invariant(text, timeout=timedelta(minutes=2))) as (answers, where):
            other, name = other_than(servers, where)
            servers.primary.execute("INSERT INTO done VALUES (1)", "sick")
            wait_for_replay(other)
            where.configure(max_standby_streaming_delay="0")
            servers.primary.execute(["DELETE FROM t", "VACUUM (TRUNCATE false) t"], "sick")
        answer = good(answers[0])
        assert (answer.outcome, answer.position.replica) == (Outcome.HELD, name)
        where.reset()
    finally:
        for standby in (servers.first, servers.second):
            standby.reset()
        servers.execute("DROP TABLE done", "sick")


def test_a_dropped_database_is_a_conflict_that_no_replica_mends(servers: Topology, opened: Any) -> None:
    """Semantics 2.4, 57P04: replay ends the sessions; the second try finds no such database, and nothing turns green."""
    servers.primary.create_database("doomed")
    urls = [one.url("doomed") for one in (servers.first, servers.second)]
    databases = opened(postgres_config(*urls))
    with asleep(databases, servers, invariant(SLEEP, timeout=timedelta(minutes=2))) as (answers, _):
        servers.primary.drop_database("doomed")
        wait_for_replay(servers.first)
        wait_for_replay(servers.second)
    failure = answers[0] if isinstance(answers[0], Failure) else answers[0].failure
    assert failure.reason in (FailureReason.REFUSED, FailureReason.CONFLICT, FailureReason.LOST)
    assert "database" in failure.sentence
    assert not isinstance(answers[0], Examined) or answers[0].outcome is Outcome.ERRORED


def test_there_is_one_more_try_and_no_third(servers: Topology, opened: Any) -> None:
    """Semantics 2.4: whoever ends every session is not asked for ever."""
    databases = opened(of(servers.first, servers.second))
    looks: list[str] = []

    def examine(look: Look) -> Examined | Failure:
        looks.append(look.position.replica)
        server = servers.first if look.position.replica == "r1" else servers.second
        server.value(END)
        return examine_invariant(look, invariant("SELECT id FROM t"), hasher=HASHER)

    answer = databases.look("db", time_limit=timedelta(seconds=30), newest_good=None, examine=examine)
    failure = answer if isinstance(answer, Failure) else answer.failure
    assert failure is not None
    assert failure.reason is FailureReason.LOST
    assert sorted(looks) == ["r1", "r2"]


# Limits hold, and nothing goes on on the server.


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 AS id FROM pg_sleep(300)",
        "SELECT g AS id, pg_sleep(0.05) FROM generate_series(1, 100000) g",
        "SELECT count(*) AS id FROM generate_series(1, 1000000000) g",
        "SELECT id FROM locked",
    ],
)
def test_a_limit_holds_and_nothing_is_left_at_work_on_the_server(servers: Topology, opened: Any, text: str) -> None:
    """Issue: limits hold against sleeping, slow rows, long computing and lock waits; the server's own list is the witness."""
    databases = opened(of(servers.first))
    servers.execute(["DROP TABLE IF EXISTS locked", "CREATE TABLE locked(id int)"], "sick")
    with servers.primary.connect("sick", autocommit=False) as migration:
        migration.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
        migration.execute("SELECT pg_switch_wal()")
        held = "SELECT count(*) FROM pg_locks WHERE relation = 'locked'::regclass AND granted"
        wait_until(lambda: servers.first.value(held, "sick") == 1, "the lock is replayed")
        answer = ask(databases, invariant(text, timeout=timedelta(seconds=1)))
        migration.rollback()
    failure = answer if isinstance(answer, Failure) else answer.failure
    assert failure is not None
    assert failure.reason in (FailureReason.TIMEOUT, FailureReason.LOCK_WAIT)
    wait_until(lambda: at_work(servers.first) == 0, "nothing is left at work on the server")
    assert good(ask(databases, RULE)).outcome is Outcome.HELD


@pytest.mark.parametrize("text", ["SELECT SLEEP(300) AS id", "SELECT BENCHMARK(100000000000, MD5('x')) AS id"])
def test_a_limit_holds_and_nothing_is_left_at_work_on_mariadb(
    mariadb_database: FreshMariadb, opened: Any, text: str
) -> None:
    databases = opened(mysql_config(mariadb_database.replica_url))
    answer = ask(databases, invariant(text, timeout=timedelta(seconds=1)))
    failure = answer if isinstance(answer, Failure) else answer.failure
    assert failure is not None
    assert failure.reason is FailureReason.TIMEOUT
    left = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'holdtrue' AND COMMAND = 'Query'"
    wait_until(lambda: mariadb_database.replica.value(left) == 0, "nothing is left at work on the server")
