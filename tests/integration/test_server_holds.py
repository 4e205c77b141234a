"""``hold="server"``: parties in processes of their own, with no hook of ours in them, are held by PostgreSQL itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import psycopg2
import pytest

from holdtrue.errors import Refused, SettingsRefused
from holdtrue.testing import BarrierDatabase, LeftOpen, Limits, RaceReport, Verdict, race, replay
from racy import schema
from racy.raw import Raw
from racy.worker import Worker, command
from servers.postgres import PostgresPrimary

TIMES = 5
TESTS = Path(__file__).parents[1]
OURS = (
    "SELECT count(*) FROM pg_namespace WHERE nspname = 'holdtrue_hold'"
    " UNION ALL SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal"
    " UNION ALL SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
)


@pytest.fixture(scope="module")
def with_unique_index(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", schema.build_unique, postgres_primary.url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def workers(database: BarrierDatabase) -> Iterator[tuple[Worker, Worker]]:
    both = (Worker(database.libpq_url), Worker(database.libpq_url))
    yield both
    for one in both:
        one.stop()


@pytest.fixture(scope="module")
def workers_elsewhere(with_unique_index: BarrierDatabase) -> Iterator[tuple[Worker, Worker]]:
    both = (Worker(with_unique_index.libpq_url), Worker(with_unique_index.libpq_url))
    yield both
    for one in both:
        one.stop()


def often(both: tuple[Worker, Worker], code: str, rule: str, database: BarrierDatabase) -> list[RaceReport]:
    return [
        race(a=lambda: both[0].do(code), b=lambda: both[1].do(code), invariant=rule, db=database, hold="server").play()
        for _ in range(TIMES)
    ]


def traces(report: RaceReport) -> list[object]:
    return [(one.schedule.name, one.verdict, one.played.lines) for one in report.judged]


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("duplicate", schema.ONE_SETTLED),
        ("duplicate_unless_it_is_there", schema.ONE_SETTLED),
        ("duplicate_behind_a_lock_of_the_process", schema.ONE_SETTLED),
        ("lost_update", schema.BALANCE),
    ],
)
def test_a_bug_between_processes_is_found_each_time_by_the_same_trace(
    code: str, rule: str, database: BarrierDatabase, workers: tuple[Worker, Worker]
) -> None:
    """A lock inside one process protects nothing from the other one, and here it shows."""
    reports = often(workers, code, rule, database)
    assert [one.verdict for one in reports] == [Verdict.VIOLATED] * TIMES, reports[0].show()
    assert all(traces(one) == traces(reports[0]) for one in reports)
    assert database.control.ask(OURS) == [(0,)] * 3, "nothing of the triggers stays"


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("duplicate_behind_a_lock", schema.ONE_SETTLED),
        ("update_behind_a_lock", schema.BALANCE),
        ("atomic_update", schema.BALANCE),
    ],
)
def test_a_right_fix_between_processes_holds_each_time_by_the_same_trace(
    code: str, rule: str, database: BarrierDatabase, workers: tuple[Worker, Worker]
) -> None:
    reports = often(workers, code, rule, database)
    assert [one.verdict for one in reports] == [Verdict.HELD] * TIMES, reports[0].show()
    assert all(traces(one) == traces(reports[0]) for one in reports)
    held = [one for one in reports[0].judged if one.schedule.name in ("A1", "B1")]
    assert len(held) == 2
    assert all(one.played.reached for one in held)
    if code != "atomic_update":
        assert all("waits for" in str(one.played.lines) for one in held)


def test_a_right_fix_by_a_unique_index_holds_each_time(
    with_unique_index: BarrierDatabase, workers_elsewhere: tuple[Worker, Worker]
) -> None:
    reports = often(workers_elsewhere, "duplicate_or_nothing", schema.ONE_SETTLED, with_unique_index)
    assert [one.verdict for one in reports] == [Verdict.HELD] * TIMES, reports[0].show()


def test_a_party_may_be_a_function_that_runs_a_process(database: BarrierDatabase) -> None:
    def run() -> None:
        subprocess.run(command(database.libpq_url, "lost_update"), cwd=TESTS, check=True, timeout=30)

    report = race(a=run, b=run, invariant=schema.BALANCE, db=database, hold="server").play()
    assert report.verdict is Verdict.VIOLATED
    assert report.show().splitlines()[1:-1] == [
        "  schedule A1: A is held by the server before UPDATE accounts, B runs whole, then A",
        "    A  START",
        "    A  is held before UPDATE accounts",
        "    B  START",
        "    A  UPDATE accounts",
    ]


def test_code_of_this_process_whose_connections_were_opened_before_can_be_held_too(database: BarrierDatabase) -> None:
    opened = [psycopg2.connect(database.libpq_url) for _ in range(2)]

    class Kept:
        def __init__(self, number: int) -> None:
            self.number = number

        def close(self) -> None:
            """Stay open."""

        def __getattr__(self, name: str) -> object:
            return getattr(opened[self.number], name)

    try:
        report = race(
            a=Raw(lambda: Kept(0)).duplicate,
            b=Raw(lambda: Kept(1)).duplicate,
            invariant=schema.ONE_SETTLED,
            db=database,
            hold="server",
        ).play()
    finally:
        for one in opened:
            one.close()
    assert report.verdict is Verdict.VIOLATED


def test_a_lock_inside_one_process_is_stalled_where_both_run_in_it(database: BarrierDatabase) -> None:
    run = Raw(lambda: psycopg.connect(database.libpq_url)).duplicate_behind_a_lock_of_the_process
    limits = Limits(stall=0.1)
    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, hold="server", limits=limits).play()
    assert report.verdict is Verdict.STALLED, report.show()
    assert "a lock inside one process does not protect two" in report.reason


def test_one_schedule_can_be_played_alone(database: BarrierDatabase, workers: tuple[Worker, Worker]) -> None:
    try:
        replay.ask_for("B1")
        (report, *_) = often(workers, "duplicate_behind_a_lock", schema.ONE_SETTLED, database)
        assert [one.schedule.name for one in report.judged] == ["B1"]
        replay.ask_for("B7")
        (report, *_) = often(workers, "duplicate_behind_a_lock", schema.ONE_SETTLED, database)
        assert report.verdict is Verdict.NOT_REACHED
        assert "there is no schedule B7" in report.reason
    finally:
        replay.ask_for("")


@pytest.mark.parametrize(
    ("work", "verdict", "says"),
    [
        (lambda: None, Verdict.NOT_REACHED, "wrote nothing in this database"),
        (lambda: 1 / 0, Verdict.BOTH_FAILED, "A with ZeroDivisionError"),
    ],
    ids=["idle", "failing"],
)
def test_parties_that_do_nothing_have_tested_nothing(
    work: Callable[[], object], verdict: Verdict, says: str, database: BarrierDatabase
) -> None:
    report = race(a=work, b=work, invariant=schema.ONE_SETTLED, db=database, hold="server").play()
    assert report.verdict is verdict
    assert says in report.reason


def test_a_party_that_only_reads_cannot_be_held(database: BarrierDatabase) -> None:
    def read() -> None:
        with psycopg.connect(database.libpq_url) as connection:
            connection.execute("SELECT * FROM refunds")

    write = Raw(lambda: psycopg.connect(database.libpq_url)).duplicate_behind_a_lock
    report = race(a=read, b=write, invariant=schema.ONE_SETTLED, db=database, hold="server").play()
    assert report.verdict is Verdict.NOT_REACHED
    assert "party A wrote nothing in this database" in report.reason


def test_a_party_that_does_not_come_again_is_no_pass(database: BarrierDatabase) -> None:
    raw = Raw(lambda: psycopg.connect(database.libpq_url))
    calls = []

    def once() -> None:
        calls.append(1)
        if len(calls) < 3:  # in the two series
            raw.duplicate_behind_a_lock()

    report = race(
        a=once, b=raw.duplicate_behind_a_lock, invariant=schema.ONE_SETTLED, db=database, hold="server"
    ).play()
    assert report.verdict is Verdict.NOT_REACHED
    assert "did not come to stand by the server before INSERT refunds" in report.reason


def test_a_transaction_that_is_left_open_is_no_pass(database: BarrierDatabase) -> None:
    kept = []

    def run() -> None:
        connection = psycopg.connect(database.libpq_url)
        kept.append(connection)
        connection.execute("INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'settled')")

    try:
        with pytest.raises(LeftOpen, match="left a transaction open"):
            race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, hold="server").play()
    finally:
        for one in kept:
            one.close()
    assert database.control.ask(OURS) == [(0,)] * 3


def test_a_schedule_that_does_not_end_is_a_timeout_and_leaves_nothing_behind(database: BarrierDatabase) -> None:
    raw = Raw(lambda: psycopg.connect(database.libpq_url))

    def slow() -> None:
        raw.atomic_update()
        with psycopg.connect(database.libpq_url) as connection:
            connection.execute("SELECT pg_sleep(1)")

    limits = Limits(deadline=0.3)
    report = race(a=slow, b=slow, invariant=schema.BALANCE, db=database, hold="server", limits=limits).play()
    assert report.verdict is Verdict.TIMEOUT
    assert database.control.ask(OURS) == [(0,)] * 3


def test_another_database_than_postgresql_is_refused(tmp_path: Path) -> None:
    made = race(a=print, b=print, invariant="SELECT 1", reset=print, db=f"sqlite:///{tmp_path}/x.db", hold="server")
    with pytest.raises(Refused, match="is for PostgreSQL"):
        made.play()


def test_a_login_that_may_not_make_triggers_is_told_so(
    database: BarrierDatabase, postgres_primary: PostgresPrimary
) -> None:
    url = database.sqlalchemy_url
    with postgres_primary.connect(url.database or "") as connection:
        connection.execute("CREATE ROLE visitor LOGIN PASSWORD 'v'")
        try:
            visitor = url.set(username="visitor", password="v")
            made = race(
                a=print, b=print, invariant="SELECT 1", reset=print, db=visitor.render_as_string(False), hold="server"
            )
            with pytest.raises(SettingsRefused, match="this login may not"):
                made.play()
        finally:
            connection.execute("DROP ROLE visitor")
