"""The field's cases about drivers and replicas, from YAML to a judged run, on real PostgreSQL and SQLite."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import casebook
from holdtrue.databases import Examined
from holdtrue.model import Failure, FailureReason, Outcome
from servers.postgres import FreshDatabase, started, wait_for_replay, wait_until
from servers.stage import NAME, Stage


@pytest.fixture
def stage(postgres_database: FreshDatabase, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(postgres_database, tmp_path)
    yield stage
    stage.close()


def test_case_062_every_type_is_the_servers_own_text(stage: Stage) -> None:
    played = stage.postgresql(casebook.case("062"), columns=None)
    assert played.run().tallied.counted == 1
    shown = dict(zip(played.columns, played.rows[0], strict=True))
    assert shown["n"] == "12345678901234.5600"
    assert shown["b"] == "\\x00ff27"
    assert shown["a"] == "{1,NULL,3}"
    assert shown["j"] == '{"k": [1, 1.10, null]}'
    assert shown["js"] == '{"k":1,"k":2}'
    assert shown["e"] == ""
    assert shown["ttz"] == "10:00:00+05:30"
    assert None not in played.rows[0]
    json.loads(json.dumps(played.rows), parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise AssertionError(constant)


def test_case_063_not_a_number_and_infinity_are_text(stage: Stage) -> None:
    played = stage.postgresql(casebook.case("063"))
    played.run()
    assert played.rows == [("1", "NaN", "NaN"), ("2", "Infinity", "-Infinity")]
    played = stage.sqlite(casebook.case("063"))
    played.run()
    assert played.rows == [("1", "Infinity", "-Infinity"), ("2", "Infinity", "0.0")]


def test_case_073_the_first_run_after_the_sessions_were_killed_succeeds(stage: Stage) -> None:
    played = stage.postgresql(casebook.case("073"))
    assert played.run().tallied.counted == 1
    kill = f"SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = '{NAME}'"
    assert stage.database.replica.value(kill) == 1
    for _ in range(2):
        assert played.run().tallied.counted == 1


def test_case_073_a_restarted_server_is_found_again_without_a_restart_of_ours(stage: Stage) -> None:
    with started() as primary:
        case = casebook.case("073")
        primary.execute(list(case.setup_sql("postgresql")))
        config = {"replicas": [{"name": "r1", "url": "${URL}"}], "allow_primary": True}
        played = stage.played(
            case, "postgresql", json.dumps({"databases": {casebook.DATABASE: config}}), {"URL": primary.url()}, {}
        )
        assert played.run().tallied.counted == 1
        primary.stop()
        during = played.look()
        assert isinstance(during, Failure)
        assert during.reason is FailureReason.REFUSED
        primary.start()
        assert played.run().tallied.counted == 1


PASSWORD = "p@ss:w/o#rd?%41&x=1 {y} 'z'"


def test_case_074_a_password_may_have_any_character(stage: Stage) -> None:
    case = casebook.case("074")
    role = f"login_{stage.database.name}"
    doubled = PASSWORD.replace("'", "''")
    stage.database.primary.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{doubled}' IN ROLE pg_monitor")
    wait_for_replay(stage.database.replica)
    address = f"127.0.0.1:{stage.database.replica.port}/{stage.database.name}"
    try:
        apart = {"name": "r1", "url": f"postgresql://{role}@{address}", "password": "${WORD}"}
        inside = {"name": "r1", "url": f"postgresql://{role}:${{ENCODED}}@{address}"}
        environ = {"WORD": PASSWORD, "ENCODED": quote(PASSWORD, safe="")}
        for replica in (apart, inside):
            config = json.dumps({"databases": {casebook.DATABASE: {"replicas": [replica]}}})
            played = stage.played(case, "postgresql", config, environ, {})
            assert played.run().outcome is Outcome.HELD
            wrong = stage.played(case, "postgresql", config, {"WORD": "wrong", "ENCODED": "wrong"}, {}).look()
            assert isinstance(wrong, Failure)
            assert wrong.sentence == "connection refused: wrong user or password"
            played.databases.close()
        broken = stage.played(
            case, "postgresql", config.replace("${ENCODED}", "${BROKEN}"), {"BROKEN": PASSWORD}, {}
        ).look()
        assert isinstance(broken, Failure)
        assert "w/o" not in repr(broken)
    finally:
        stage.database.primary.execute(f"DROP ROLE {role}")


def test_case_077_a_locked_file_is_busy_and_not_violated(stage: Stage) -> None:
    played = stage.sqlite(casebook.case("077"), timeout="300ms")
    writer = sqlite3.connect(stage.folder / "cases.db", isolation_level=None)
    try:
        writer.execute("BEGIN EXCLUSIVE")
        answer = played.look()
        assert isinstance(answer, Failure)
        assert answer.reason is FailureReason.BUSY
        writer.execute("ROLLBACK")
        assert played.run().outcome is Outcome.HELD
    finally:
        writer.close()


def test_case_078_the_declared_zone_decides_and_instants_stay_different(stage: Stage) -> None:
    played = stage.postgresql(casebook.case("078"))
    assert played.run().tallied.counted == 2
    assert sorted(row[1] or "" for row in played.rows) == ["2024-10-27 02:30:00+01", "2024-10-27 02:30:00+02"]
    assert {row[2] for row in played.rows} == {"2024-10-27 02:30:00"}


def test_case_079_a_recovery_conflict_is_tried_once_more_and_is_never_good_news(stage: Stage) -> None:
    """Semantics 2.4: the second attempt, after the conflicting replay, gives the answer."""
    replica = stage.database.replica
    case = casebook.case("079")
    sql = case.sql("postgresql").replace("pg_sleep(6)", "pg_sleep(50)")
    played = stage.postgresql(case, timeout="60s", sql=sql)
    replica.configure(max_standby_streaming_delay="0")
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(played.look()))
    try:
        thread.start()
        active = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}' AND wait_event = 'PgSleep'"
        wait_until(lambda: replica.value(active) == 1, "the query runs on the standby")
        before = replica.value(
            "SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = current_database()",
            stage.database.name,
        )
        # Without truncation, whose lock would be a second conflict.
        stage.database.primary.execute(["DELETE FROM conf", "VACUUM (TRUNCATE false) conf"], stage.database.name)
        thread.join(20)
        assert not thread.is_alive()
        conflicts = "SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = current_database()"
        wait_until(lambda: replica.value(conflicts, stage.database.name) > before, "the standby cancelled the query")
        assert isinstance(answers[0], Examined)
        assert (answers[0].outcome, answers[0].tallied.counted) == (Outcome.HELD, 0)
    finally:
        thread.join(20)
        replica.reset()


def test_case_081_an_idle_primary_is_no_lag(stage: Stage) -> None:
    """Nothing was written for longer than max_lag, yet receive = replay on a living link is lag 0."""
    case = casebook.case("081")
    impatient = casebook.Case({**case.raw, "invariant": {**case.raw["invariant"], "max_replica_lag": "50ms"}})
    played = stage.postgresql(impatient)
    age = "SELECT now() - pg_last_xact_replay_timestamp() > interval '50 ms'"
    wait_until(lambda: stage.database.replica.value(age) is True, "the last commit is older than max_lag")
    examined = played.run()
    assert (examined.outcome, examined.position.lag) == (Outcome.HELD, timedelta(0))
