"""The rarer answers of a server under the step scheduler (semantics 9.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import create_engine

from holdtrue.testing import BarrierDatabase, RaceReport, Verdict, race
from racy import edges, schema
from servers.postgres import PostgresPrimary

REPEATS = 10
Work = Callable[[], None]


def build(url: str) -> None:
    schema.build(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in edges.TABLES.split(";"):
            if statement.strip():
                connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.fixture(scope="module")
def database(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", build, postgres_primary.url)
    yield made
    made.close()


def always(a: Work, b: Work, rule: str, database: BarrierDatabase, repeats: int = REPEATS) -> RaceReport:
    """The report that each of the repeats came to, by the same traces."""
    reports = [race(a=a, b=b, invariant=rule, db=database).play() for _ in range(repeats)]
    seen = {
        tuple((one.schedule.name, one.verdict, one.played.lines, one.played.conflicts) for one in report.judged)
        for report in reports
    }
    assert len(seen) == 1, reports[0].show()
    return reports[0]


def lines(report: RaceReport, schedule: str) -> list[str]:
    found = next(one for one in report.judged if one.schedule.name == schedule)
    return [f"{line.party} {line.what}" for line in found.played.lines]


def test_a_deadlock_is_broken_by_the_server_its_victim_is_recorded_and_the_rule_judges(
    database: BarrierDatabase,
) -> None:
    """Which of the two is the victim is for the server's clocks to say: one of them, and always one."""
    for _ in range(5):
        report = race(
            a=lambda: edges.lock_both(database.engine, "refunds", "credit_log"),
            b=lambda: edges.lock_both(database.engine, "credit_log", "refunds"),
            invariant=schema.ONE_SETTLED,
            db=database,
        ).play()
        assert report.verdict is Verdict.HELD, report.show()
        (deadlocked,) = (one for one in report.judged if one.schedule.name == "A1")
        assert deadlocked.played.conflicts == ("DeadlockDetected (40P01)",)
        assert lines(report, "A1")[:7] == [
            "A START",
            "A LOCK",
            "B START",
            "B LOCK",
            "B LOCK",
            "B waits for A (the server says)",
            "A LOCK",
        ]
        victims = [one for one in lines(report, "A1") if one.endswith("! DeadlockDetected (40P01)")]
        assert len(victims) == 1


def test_rows_that_are_locked_are_skipped_and_nobody_waits(database: BarrierDatabase) -> None:
    def run(*, skip_locked: bool) -> Work:
        return lambda: edges.take_a_job(database.engine, skip_locked=skip_locked)

    report = always(run(skip_locked=True), run(skip_locked=True), edges.NO_JOB_TWICE, database)
    assert report.verdict is Verdict.HELD, report.show()
    assert not any(one.played.blocked or one.played.conflicts for one in report.judged)
    assert always(run(skip_locked=False), run(skip_locked=False), edges.NO_JOB_TWICE, database).verdict is (
        Verdict.VIOLATED
    )


def test_who_refuses_to_wait_is_refused(database: BarrierDatabase) -> None:
    def run() -> None:
        edges.refuse_to_wait(database.engine)

    report = always(run, run, schema.ONE_SETTLED, database)
    assert report.verdict is Verdict.HELD, report.show()
    assert "B ! LockNotAvailable (55P03)" in lines(report, "A1")


def test_a_deferred_constraint_is_waited_for_at_commit(database: BarrierDatabase) -> None:
    def run() -> None:
        edges.settle(database.engine)

    report = race(a=run, b=run, invariant=edges.ONE_SETTLEMENT, db=database).play()
    assert report.verdict is Verdict.HELD, report.show()
    assert lines(report, "A1")[4:7] == ["B COMMIT", "B waits for A (the server says)", "A COMMIT"]
    assert "B ! UniqueViolation (23505)" in lines(report, "A1")
    always(run, run, edges.ONE_SETTLEMENT, database)


def test_without_a_transaction_the_bug_is_found_too(database: BarrierDatabase) -> None:
    def run() -> None:
        edges.in_autocommit(database.engine)

    assert always(run, run, schema.ONE_SETTLED, database).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(("level", "verdict"), [("REPEATABLE READ", Verdict.VIOLATED), ("SERIALIZABLE", Verdict.HELD)])
def test_write_skew_is_found_and_what_prevents_it_holds(
    level: str, verdict: Verdict, database: BarrierDatabase
) -> None:
    report = always(
        lambda: edges.leave(database.engine, "ada", level),
        lambda: edges.leave(database.engine, "bob", level),
        edges.SOMEBODY_ON_CALL,
        database,
    )
    assert report.verdict is verdict, report.show()


def test_code_that_breaks_in_series_claims_no_race(database: BarrierDatabase) -> None:
    def run() -> None:
        edges.careless(database.engine)

    report = always(run, run, schema.ONE_SETTLED, database, repeats=3)
    assert report.verdict is Verdict.VIOLATED_IN_SERIES
    assert [one.schedule.name for one in report.judged] == ["AB"]
    assert "no race is claimed" in report.reason
