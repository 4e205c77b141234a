"""A text that is sent along with the opening: the server itself holds it back wherever the look would be refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdtrue.databases import Databases, Examined, Look
from holdtrue.databases.looks import Ahead, Limits
from holdtrue.databases.postgresql import PostgresDriver, PostgresLink
from holdtrue.databases.postgresql_wire import Stopped, Wire
from holdtrue.model import Failure, FailureReason, Freshness, Outcome, Position
from servers.invariants import ask, good, invariant, postgres_config, primary_config, reason
from servers.postgres import FreshDatabase, started, wait_until

NAME = "holdtrue-sends-ahead"
LIMITS = Limits.within(timedelta(seconds=10), timedelta(seconds=10))
RULE = invariant("SELECT id FROM t")


class Sent:
    """Every sending ahead: True where the server went on to the text."""

    def __init__(self) -> None:
        self.times: list[bool] = []


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    sent, really = Sent(), Wire.send_ahead

    def send(*given: Any) -> Any:
        try:
            row = really(*given)
        except Stopped:
            sent.times.append(False)
            raise
        sent.times.append(True)
        return row

    monkeypatch.setattr(Wire, "send_ahead", send)
    return sent


@pytest.fixture
def standby(postgres_database: FreshDatabase) -> Iterator[Databases]:
    postgres_database.execute(["CREATE TABLE t(id int)", "INSERT INTO t VALUES (1), (2)"])
    databases = Databases(environ={}, application_name=NAME)
    databases.configure([postgres_config(postgres_database.standby_url)])
    yield databases
    databases.close()


def scans(database: FreshDatabase) -> int:
    """How often the table was read on the replica, by sessions that have ended: a rolled-back read counts too."""
    replica, name = database.replica, database.name
    wait_until(
        lambda: replica.value(f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}'") == 0,
        "our sessions have ended",
    )
    with replica.connect(name) as connection:
        row = connection.execute("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 't'").fetchone()
    return int(row[0]) if row else 0


def test_from_the_second_look_on_the_text_goes_ahead_and_the_answer_is_the_same(
    standby: Databases, sent: Sent, postgres_database: FreshDatabase
) -> None:
    """Semantics 3.1: executed once; position, rows and count as in two messages."""
    before = scans(postgres_database)
    first = good(ask(standby, RULE))
    assert sent.times == []
    second = good(ask(standby, RULE, newest_good=first.position))
    assert sent.times == [True]
    assert (second.outcome, second.complete, second.tallied.keys) == (Outcome.VIOLATED, True, first.tallied.keys)
    assert second.position.system == first.position.system
    assert second.position.snapshot
    assert second.position.freshness_proven
    standby.close()
    assert scans(postgres_database) - before == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1 AS id; DELETE FROM t", FailureReason.QUERY),
        ("WITH gone AS (DELETE FROM t RETURNING id) SELECT id FROM gone", FailureReason.WRITES),
        ("SELECT id FROM no_such_table", FailureReason.QUERY),
        ("SELECT set_config('transaction_read_only', 'off', false)", FailureReason.WRITES),
        ("SELECT 1 AS id FROM pg_sleep(60)", FailureReason.TIMEOUT),
    ],
)
def test_a_text_sent_ahead_is_one_statement_that_only_reads_within_its_time(
    standby: Databases, sent: Sent, postgres_database: FreshDatabase, text: str, expected: FailureReason
) -> None:
    """Semantics 3.2, 3.4: the protocol refuses a second statement, the transaction a write, the limit holds."""
    good(ask(standby, RULE))
    assert reason(ask(standby, invariant(text, timeout=timedelta(seconds=1)))) is expected
    assert sent.times == [True]
    assert good(ask(standby, RULE)).tallied.counted == 2
    assert postgres_database.value("SELECT count(*) FROM t") == 2


def test_what_is_no_query_is_never_sent(standby: Databases, sent: Sent) -> None:
    good(ask(standby, RULE))
    assert reason(ask(standby, invariant("COMMIT; DELETE FROM t"))) is FailureReason.WRITES
    assert sent.times == []


def test_on_a_paused_replica_the_text_is_not_begun_and_not_sent_again(
    standby: Databases, sent: Sent, postgres_database: FreshDatabase
) -> None:
    """Semantics 2.2: refused exactly as in two messages; one error in the server's log and no more."""
    good(ask(standby, RULE))
    postgres_database.replica.pause_replay()
    try:
        answers = [ask(standby, RULE) for _ in range(3)]
    finally:
        postgres_database.replica.resume_replay()
    assert [reason(one) for one in answers] == [FailureReason.REPLAY_PAUSED] * 3
    assert sent.times == [False]
    wait_until(lambda: isinstance(ask(standby, RULE), Examined), "the replica is asked again")
    sent.times.clear()
    good(ask(standby, RULE))
    assert sent.times == [True]


def test_a_replica_behind_the_newest_good_run_does_not_begin_the_text(
    standby: Databases, sent: Sent, postgres_database: FreshDatabase
) -> None:
    """Semantics 2.3: it is passed over; nothing of it was read."""
    position = good(ask(standby, RULE)).position
    newest = replace(position, log_position="FFFF/0")
    assert reason(ask(standby, RULE, newest_good=newest)) is FailureReason.WENT_BACK
    assert sent.times == [False]
    standby.close()
    assert scans(postgres_database) == 1


@pytest.mark.parametrize("changed", [{"system": "1"}, {"timeline": 7}])
def test_a_text_waits_where_the_former_run_was_elsewhere(
    standby: Databases, sent: Sent, changed: dict[str, Any]
) -> None:
    """Semantics 2.3: another system or timeline is judged before anything is asked."""
    position = good(ask(standby, RULE)).position
    answer = ask(standby, RULE, newest_good=replace(position, **changed))
    expected = FailureReason.ANOTHER_SERVER if "system" in changed else FailureReason.WENT_BACK
    assert reason(answer) is expected
    assert sent.times == []


@pytest.fixture
def link(postgres_database: FreshDatabase) -> Iterator[PostgresLink]:
    postgres_database.execute(["CREATE TABLE t(id int)", "INSERT INTO t VALUES (1), (2)"])
    config = postgres_config(postgres_database.standby_url)
    made = PostgresDriver(NAME).connect(config, config.replicas[0], environ={}, within=timedelta(seconds=10))
    assert isinstance(made, PostgresLink)
    assert made.open(LIMITS, config, keep_raw=False) is None
    assert made.end()
    yield made
    made.close()


def test_another_server_on_the_same_connection_does_not_begin_the_text(
    link: PostgresLink, sent: Sent, postgres_database: FreshDatabase
) -> None:
    """Semantics 2.3, behind a proxy: the next transaction may be on a server that started at another time."""
    config = postgres_config(postgres_database.standby_url)
    system = link.position.system
    link._system = ("1700000000.000000", "another")
    assert link.open(LIMITS, config, keep_raw=False, ahead=Ahead("SELECT id FROM t")) is None
    assert sent.times == [False]
    assert link.position.system == system
    assert link.end()
    link.close()
    assert scans(postgres_database) == 0


def test_a_session_that_forgot_the_question_does_not_begin_the_text_and_is_not_sent_to_again(
    link: PostgresLink, sent: Sent, postgres_database: FreshDatabase
) -> None:
    """Semantics 3.2, behind a transaction pooler: the next transaction may be in a session that prepared nothing."""
    config = postgres_config(postgres_database.standby_url)
    assert link.open(LIMITS, config, keep_raw=False) is None
    assert link.end()
    link._wire.settle()
    link._wire.simple(b"DEALLOCATE ALL", 5.0)
    for _ in range(2):
        assert link.open(LIMITS, config, keep_raw=False, ahead=Ahead("SELECT id FROM t")) is None
        assert link.position.system
        assert link.end()
    assert sent.times == [False]
    link.close()
    assert scans(postgres_database) == 0


def test_a_text_that_nobody_reads_is_thrown_away_and_the_connection_stays_clean(
    link: PostgresLink, sent: Sent, postgres_database: FreshDatabase
) -> None:
    """Semantics 3.6."""
    config = postgres_config(postgres_database.standby_url)
    text = "SELECT g AS id FROM generate_series(1, 5000000) g"
    for _ in range(2):
        assert link.open(LIMITS, config, keep_raw=False, ahead=Ahead(text)) is None
        usable = link.end()
        if not usable:
            return
    rows: list[Any] = []
    assert link.open(LIMITS, config, keep_raw=False, ahead=Ahead("SELECT id FROM t")) is None
    assert link.stream("SELECT id FROM t", on_columns=lambda _: rows.append, count_limit=None).complete
    assert rows == [("1",), ("2",)]
    assert link.end()


def test_another_text_than_the_announced_one_is_an_error_of_ours(
    link: PostgresLink, postgres_database: FreshDatabase
) -> None:
    config = postgres_config(postgres_database.standby_url)
    assert link.open(LIMITS, config, keep_raw=False, ahead=Ahead("SELECT id FROM t")) is None
    with pytest.raises(RuntimeError):
        link.stream("SELECT 1", on_columns=lambda _: lambda _row: None, count_limit=None)


def test_a_replica_that_was_promoted_does_not_begin_the_text_and_is_no_replica_any_more(sent: Sent) -> None:
    """Semantics 2.1: a primary is not asked, however the connection was used before."""
    with started() as primary:
        replica = primary.standby()
        databases = Databases(environ={})
        databases.configure([postgres_config(replica.url())])
        good(ask(databases, invariant()))
        replica.value("SELECT pg_promote(true, 30)")
        assert reason(ask(databases, invariant())) is FailureReason.IS_PRIMARY
        assert sent.times == [False]
        databases.close()


@pytest.mark.parametrize("freshness", [Freshness.NONE, Freshness.STREAMING])
def test_a_primary_that_may_be_asked_is_sent_to_as_well(
    sent: Sent, postgres_database: FreshDatabase, freshness: Freshness
) -> None:
    databases = Databases(environ={})
    databases.configure([primary_config(postgres_database.primary_url, freshness=freshness)])
    newest: Position | None = None
    for _ in range(3):
        newest = good(ask(databases, invariant(), newest_good=newest)).position
    assert sent.times == [True, True]
    databases.close()


def test_rows_sent_ahead_leave_the_transaction_open_for_what_follows(standby: Databases, sent: Sent) -> None:
    """Semantics 3.1: population and evidence follow in the same transaction and snapshot."""

    def examine(look: Look) -> tuple[Any, Any]:
        streamed = look.stream(RULE.sql, on_columns=lambda _: lambda _row: None, count_limit=None)
        return streamed.returned, look.ask("SELECT count(*) FROM t", limit=1)

    for _ in range(2):
        answer = standby.look("db", time_limit=timedelta(seconds=10), newest_good=None, examine=examine, ahead=RULE.sql)
        assert not isinstance(answer, Failure)
        returned, counted = answer
        assert returned == 2
        assert counted.rows == (("2",),)
    assert sent.times == [True]
