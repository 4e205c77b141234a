"""Behind the real PgBouncer: everything works in transaction mode, and nothing of a run is left for who comes next."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import casebook
from holdtrue.databases import Databases, Examined
from holdtrue.model import Failure, FailureReason, Outcome
from servers.invariants import ask, good, invariant, postgres_config, reason
from servers.pgbouncer import PgBouncer, pooler
from servers.postgres import FreshDatabase, wait_for_replay, wait_until
from servers.stage import Stage

NAME = "holdtrue-pooled"
SLEEPS = "SELECT 1 AS id FROM pg_sleep(60)"
LEAKS = (
    "SELECT 1 AS id, set_config('search_path', 'elsewhere', false), set_config('work_mem', '123kB', false),"
    " set_config('application_name', 'leaked', false), set_config('TimeZone', 'Asia/Tokyo', false),"
    " pg_advisory_lock(42), pg_advisory_lock_shared(7)"
)


@pytest.fixture
def pool(postgres_database: FreshDatabase) -> Iterator[PgBouncer]:
    """With one connection to the server: whoever comes next gets the session that we had."""
    postgres_database.execute(["CREATE SCHEMA tools", "CREATE TABLE t(id int)", "INSERT INTO t VALUES (1)"])
    with pooler(postgres_database, default_pool_size="1") as pool:
        yield pool


@pytest.fixture
def pooled(pool: PgBouncer) -> Iterator[Databases]:
    databases = Databases(environ={}, application_name=NAME)
    databases.configure([postgres_config(pool.url(), timezone="Europe/Berlin", search_path="tools, public")])
    yield databases
    databases.interrupt_all()
    databases.close()


def what_is_left(pool: PgBouncer) -> dict[str, Any]:
    """All that a session can keep, as the next client of the pooler finds it."""
    with pool.connect() as other:

        def rows(text: str) -> list[Any]:
            return other.execute(text.encode()).fetchall()

        return {
            "settings": dict(rows("SELECT name, setting FROM pg_settings")),
            "prepared": rows("SELECT name FROM pg_prepared_statements"),
            "locks": rows("SELECT * FROM pg_locks WHERE locktype = 'advisory'"),
            "cursors": rows("SELECT name FROM pg_cursors"),
            "channels": rows("SELECT pg_listening_channels()"),
            "read only": rows("SHOW transaction_read_only") + rows("SHOW default_transaction_read_only"),
            "isolation": rows("SHOW transaction_isolation"),
        }


def sleeping(pool: PgBouncer) -> int:
    """How many of our statements still run on the server; asked past the pooler."""
    return int(
        pool.database.replica.value(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            f" AND datname = '{pool.database.name}' AND state = 'active'"
        )
    )


def in_background(look: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(look()))
    thread.start()
    return thread, answers


def cancelled(pool: PgBouncer, pooled: Databases) -> None:
    thread, answers = in_background(lambda: ask(pooled, invariant(SLEEPS, timeout=timedelta(seconds=90))))
    wait_until(lambda: sleeping(pool) == 1, "the text runs on the server")
    pooled.interrupt_all()
    thread.join(30)
    assert reason(answers[0]) is FailureReason.INTERRUPTED


def killed(pool: PgBouncer, pooled: Databases) -> None:
    """The whole process dies in the middle of a text."""
    program = (
        "import sys; from datetime import timedelta; sys.path.insert(0, 'tests');"
        "from holdtrue.databases import Databases; from servers.invariants import ask, invariant, postgres_config;"
        "databases = Databases(environ={}, application_name='killed');"
        "databases.configure([postgres_config(sys.argv[1], timezone='Asia/Tokyo', search_path='tools')]);"
        "ask(databases, invariant(sys.argv[2], timeout=timedelta(seconds=4)))"
    )
    root = Path(__file__).parents[2]
    child = subprocess.Popen([sys.executable, "-c", program, pool.url(), SLEEPS], cwd=root)
    try:
        wait_until(lambda: sleeping(pool) == 1, "the text runs on the server")
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait(30)


RUNS: dict[str, Callable[[PgBouncer, Databases], object]] = {
    "good": lambda _, pooled: good(ask(pooled, invariant("SELECT id FROM t"))),
    "failed": lambda _, pooled: reason(ask(pooled, invariant("SELECT id FROM no_such_table"))),
    "timed out": lambda _, pooled: reason(ask(pooled, invariant(SLEEPS, timeout=timedelta(seconds=1)))),
    "cancelled": cancelled,
    "killed": killed,
    "changes its session": lambda _, pooled: good(ask(pooled, invariant(LEAKS))),
    "changes its session and fails": lambda _, pooled: reason(
        ask(pooled, invariant(f"{LEAKS}, 1 / (random() * 0)::int"))
    ),
    "side question failed": lambda _, pooled: ask(
        pooled, invariant("SELECT id FROM t WHERE id < 0", population="SELECT no FROM t")
    ),
}


@pytest.mark.parametrize("run", RUNS)
def test_nothing_of_a_run_is_left_for_the_next_client_of_the_pooler(
    pool: PgBouncer, pooled: Databases, run: str
) -> None:
    """Semantics 3.2, 3.6: settings, limits, search path, zone, names, locks and statements are the run's alone."""
    before = what_is_left(pool)
    assert before["settings"]["statement_timeout"] == "0"
    for _ in range(1 if run == "killed" else 3):
        RUNS[run](pool, pooled)
    wait_until(lambda: sleeping(pool) == 0, "nothing of it goes on on the server")
    assert what_is_left(pool) == before
    answer = good(ask(pooled, invariant("SELECT id, current_setting('TimeZone') FROM t")))
    assert (answer.outcome, answer.tallied.counted) == (Outcome.VIOLATED, 1)


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_the_declared_zone_and_path_hold_behind_a_pooler(postgres_database: FreshDatabase, mode: str) -> None:
    postgres_database.execute(["CREATE SCHEMA tools", "CREATE TABLE tools.only_here(id int)"])
    with pooler(postgres_database, mode) as pool:
        databases = Databases(environ={}, application_name=NAME)
        databases.configure([postgres_config(pool.url(), timezone="Europe/Berlin", search_path="tools")])
        rows: list[Any] = []
        text = "SELECT current_setting('TimeZone') AS zone, current_schemas(false)::text, count(*) FROM only_here"
        for _ in range(3):
            good(ask(databases, invariant(text), also=lambda _: rows.append))
        assert rows == [("Europe/Berlin", "{tools}", "0")] * 3
        databases.close()
        assert what_is_left(pool)["settings"]["TimeZone"] == "UTC"


def test_case_071_prepared_statements_behind_a_transaction_pooler(
    postgres_database: FreshDatabase, tmp_path: Path
) -> None:
    """Six clients, two connections to the server, 25 runs each: none is an error, and none prepares anything."""
    with pooler(postgres_database, default_pool_size="2") as pool:
        stage = Stage(postgres_database, tmp_path)
        try:
            first = stage.postgresql(casebook.case("071"), url=pool.url())
            config = json.dumps({"databases": {casebook.DATABASE: {"replicas": [{"name": "r1", "url": "${URL}"}]}}})
            others = [
                stage.played(casebook.case("071"), "postgresql", config, {"URL": pool.url()}, {}) for _ in range(5)
            ]
            answers: list[Examined | Failure] = []
            threads = [
                threading.Thread(target=lambda one=one: answers.extend(one.look() for _ in range(25)))  # type: ignore[misc]
                for one in (first, *others)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(110)
            assert [answer for answer in answers if good(answer).outcome is not Outcome.HELD] == []
            assert len(answers) == 150
            assert len(pool.show("servers")) <= 2
        finally:
            stage.close()
        assert what_is_left(pool)["prepared"] == []


def test_case_072_the_time_limit_holds_and_no_other_client_ever_sees_it(
    postgres_database: FreshDatabase, tmp_path: Path
) -> None:
    with pooler(postgres_database, default_pool_size="1") as pool:
        stage = Stage(postgres_database, tmp_path)
        try:
            played = stage.postgresql(casebook.case("072"), url=pool.url())
            answer = played.look()
            assert reason(answer) is FailureReason.TIMEOUT
            assert good(answer).outcome is Outcome.ERRORED
            with pool.connect() as fresh:
                assert fresh.execute("SHOW statement_timeout").fetchone() == ("0",)
        finally:
            stage.close()


def test_a_pooler_in_statement_mode_is_refused_in_words(postgres_database: FreshDatabase) -> None:
    with pooler(postgres_database, "statement") as pool:
        databases = Databases(environ={})
        databases.configure([postgres_config(pool.url())])
        failure = ask(databases, invariant())
        assert isinstance(failure, Failure)
        assert failure.reason is FailureReason.REFUSED
        assert "statement mode" in failure.sentence
        databases.close()


def test_a_pooler_without_a_free_connection_is_said_to_have_none(postgres_database: FreshDatabase) -> None:
    with pooler(postgres_database, default_pool_size="1", query_wait_timeout="1") as pool, pool.connect() as other:
        other.execute("BEGIN")
        other.execute("SELECT 1")
        databases = Databases(environ={})
        databases.configure([postgres_config(pool.url())])
        failure = ask(databases, invariant())
        assert isinstance(failure, Failure)
        assert failure.reason is FailureReason.REFUSED
        assert "free connection" in failure.sentence
        databases.close()


def test_a_parameter_that_the_pooler_refuses_is_said(postgres_database: FreshDatabase) -> None:
    with pooler(postgres_database) as pool:
        databases = Databases(environ={})
        databases.configure([postgres_config(pool.url() + "?options=-c%20statement_timeout%3D500")])
        failure = ask(databases, invariant())
        assert isinstance(failure, Failure)
        assert failure.sentence == "connection refused: the pooler does not take a parameter of this URL"
        databases.close()


def test_a_statement_that_somebody_prepared_under_our_name_is_never_executed(postgres_database: FreshDatabase) -> None:
    """Semantics 3.2: what stands in a session that others use as well is not ours."""
    from holdtrue.databases.postgresql_opening import prepare_message

    name = prepare_message().decode().split("(")[0].split()[1]
    with pooler(postgres_database, default_pool_size="1") as pool:
        with pool.connect() as other:
            other.execute(f"PREPARE {name} AS SELECT 1 / 0".encode())
        databases = Databases(environ={})
        databases.configure([postgres_config(pool.url())])
        for _ in range(3):
            assert good(ask(databases, invariant())).outcome is Outcome.HELD
        databases.close()


def test_a_pooled_standby_is_told_from_its_neighbours(postgres_database: FreshDatabase) -> None:
    """Semantics 2.3: position, system and freshness come through the pooler as they are."""
    wait_for_replay(postgres_database.replica)
    with pooler(postgres_database) as pool:
        positions = []
        for url in (postgres_database.standby_url, pool.url()):
            databases = Databases(environ={})
            databases.configure([postgres_config(url)])
            positions.append(good(ask(databases, invariant())).position)
            databases.close()
        straight, through = positions
        assert (through.system, through.timeline, through.role) == (straight.system, straight.timeline, "standby")
        assert through.freshness_proven
