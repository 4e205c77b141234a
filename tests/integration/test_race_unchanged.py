"""Races in which no party changes a row have raced nothing, unless that is a fix at work (semantics 0, 9.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from sqlalchemy import create_engine, text

from holdtrue.testing import BarrierDatabase, BarrierFailed, FrozenIncident, RaceReport, Verdict, race, replay, step
from racy import duplicate, schema
from racy.promoted import TWO_REFUNDS
from servers.postgres import PostgresPrimary

Work = Callable[[], object]
ANY = "SELECT 1 WHERE false"
ELSEWHERE = "UPDATE accounts SET version = version + 1 WHERE id = 'of another test'"
ONCE = "UPDATE accounts SET version = version + 1 WHERE id = 'acc_1'"
FUNCTIONS = """
CREATE FUNCTION book(d text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM disputes WHERE id = d FOR UPDATE;
  IF NOT EXISTS (SELECT 1 FROM refunds WHERE dispute_id = d) THEN
    INSERT INTO refunds (dispute_id, amount_eur, state) VALUES (d, 40, 'settled');
  END IF;
  RETURN 1;
END $$;
CREATE FUNCTION borrow() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  UPDATE accounts SET credit_balance_eur = credit_balance_eur - 1;
  UPDATE accounts SET credit_balance_eur = credit_balance_eur + 1;
  RETURN 1;
END $$;
CREATE PROCEDURE step() LANGUAGE sql AS 'UPDATE accounts SET version = version + 1';
CREATE TABLE clicks (id int);
CREATE FUNCTION clicked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN UPDATE accounts SET version = version + 1; RETURN NULL; END $$;
CREATE TRIGGER clicked BEFORE INSERT ON clicks FOR EACH ROW EXECUTE FUNCTION clicked();
"""


def build(url: str) -> None:
    schema.build(url)
    engine = create_engine(url)
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            connection.exec_driver_sql(FUNCTIONS)
    engine.dispose()


@pytest.fixture(scope="module")
def plain(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", build, postgres_primary.url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def on_sqlite() -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("sqlite", build, lambda: "")
    yield made
    made.close()


def sent(*texts: str) -> Callable[[BarrierDatabase], Work]:
    """A party that sends these in one transaction, through SQLAlchemy."""

    def of(database: BarrierDatabase) -> Work:
        def run() -> None:
            with database.engine.begin() as connection:
                for one in texts:
                    connection.execute(text(one))

        return run

    return of


def never_committed(database: BarrierDatabase) -> Work:
    def run() -> None:
        with database.engine.connect() as connection:
            connection.execute(text(ONCE))

    return run


def by(connect: Callable[..., Any], sql: str = ELSEWHERE) -> Callable[[BarrierDatabase], Work]:
    def of(database: BarrierDatabase) -> Work:
        def run() -> None:
            with closing(connect(database.libpq_url)) as connection:
                connection.cursor().execute(sql)
                connection.commit()

        return run

    return of


def by_asyncpg(method: str, sql: str) -> Callable[[BarrierDatabase], Work]:
    def of(database: BarrierDatabase) -> Work:
        async def run() -> None:
            connection = await asyncpg.connect(database.libpq_url)
            try:
                await getattr(connection, method)(sql)
            finally:
                await connection.close()

        return run

    return of


def by_psycopg_awaited(database: BarrierDatabase) -> Work:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(database.libpq_url) as connection:
            await connection.execute(ELSEWHERE)

    return run


def by_engine_awaited(database: BarrierDatabase) -> Work:
    async def run() -> None:
        async with database.async_engine.begin() as connection:
            await connection.execute(text(ELSEWHERE))

    return run


def played(a: Work, b: Work, database: BarrierDatabase, rule: str = ANY, **options: Any) -> RaceReport:
    return race(a=a, b=b, invariant=rule, db=database, **options).play()


def is_accused(report: RaceReport) -> bool:
    accused = report.verdict is Verdict.BOTH_FAILED
    assert not accused or "no party changed a row" in report.reason
    return accused


@pytest.mark.parametrize(
    "code",
    [
        sent("SELECT id FROM accounts"),
        sent("SELECT id FROM accounts FOR UPDATE", ELSEWHERE),
        sent("INSERT INTO accounts VALUES ('acc_1', 0, 0) ON CONFLICT DO NOTHING"),
        sent("DELETE FROM refunds"),
        never_committed,
        by(psycopg.connect),
        by(psycopg2.connect),
        by_psycopg_awaited,
        by_engine_awaited,
        by_asyncpg("execute", ELSEWHERE),
        by_asyncpg("fetchrow", f"{ELSEWHERE} RETURNING id"),
    ],
)
def test_parties_that_never_change_a_row_have_tested_nothing(
    code: Callable[[BarrierDatabase], Work], plain: BarrierDatabase
) -> None:
    report = played(code(plain), code(plain), plain)
    assert report.verdict is Verdict.BOTH_FAILED, report.show()
    assert "no party changed a row, in series neither, so nothing was tested (do the calls find" in report.reason
    assert "schedule AB" in report.show()


@pytest.mark.parametrize("code", [sent(ELSEWHERE), sent("SELECT 1 FROM accounts"), never_committed])
def test_nor_have_they_on_sqlite(code: Callable[[BarrierDatabase], Work], on_sqlite: BarrierDatabase) -> None:
    report = played(code(on_sqlite), code(on_sqlite), on_sqlite)
    assert is_accused(report), report.show()


def remembering(database: BarrierDatabase, calls: int, *, reads: bool) -> Work:
    """It does its work so many times, and takes it for done from then on."""
    done: list[int] = []
    work = sent("SELECT id FROM accounts FOR UPDATE", ONCE)(database)
    look = sent("SELECT id FROM accounts FOR UPDATE")(database)

    def run() -> None:
        if len(done) >= calls:
            if reads:
                look()
            return
        work()
        done.append(1)

    return run


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize(("calls", "schedule"), [(1, "BA"), (2, "BA"), (4, "A1"), (6, "A2")])
def test_a_memory_of_the_process_that_outlives_the_set_back_is_named(
    *, calls: int, schedule: str, reads: bool, plain: BarrierDatabase
) -> None:
    run = remembering(plain, calls, reads=reads)
    report = played(run, run, plain)
    assert report.verdict is Verdict.BOTH_FAILED, report.show()
    assert report.reason.startswith(
        f"no party changed a row in schedule {schedule}, nor in series when that was played again, though they did in AB"
    )
    assert "clear it in reset=" in report.reason
    assert f"schedule {schedule}:" in report.show()


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("party", ["a", "b"])
def test_one_party_that_remembers_is_named_though_the_other_goes_on(
    *, party: str, reads: bool, plain: BarrierDatabase
) -> None:
    works = {one: sent("SELECT id FROM accounts FOR UPDATE", ONCE)(plain) for one in "ab"}
    works[party] = remembering(plain, 2, reads=reads)
    report = played(works["a"], works["b"], plain)
    assert report.verdict is Verdict.BOTH_FAILED, report.show()
    says = f"changed rows in schedule {'AB' if party == 'a' else 'BA'}, and"
    if not reads:  # it is silent while the other one is held
        says = f"asked the database nothing in schedule {'B1' if party == 'a' else 'A1'}, nor alone"
    assert report.reason.startswith(f"party {party.upper()} {says}")
    assert "remembers what was set back" in report.reason


def test_a_schedule_that_is_played_alone_is_no_pass_either(plain: BarrierDatabase) -> None:
    try:
        for name in ("AB", "A1"):
            replay.ask_for(name)
            assert is_accused(played(sent(ELSEWHERE)(plain), sent(ELSEWHERE)(plain), plain))
            held = played(sent(ONCE)(plain), sent(ONCE)(plain), plain)
            assert held.verdict is Verdict.HELD, held.show()
    finally:
        replay.ask_for("")


def test_an_incident_names_such_a_memory_too(plain: BarrierDatabase) -> None:
    done: list[int] = []

    def run(db: BarrierDatabase) -> None:
        if len(done) < 4:
            duplicate.right_lock_parent(db.engine)
            done.append(1)

    incident = FrozenIncident(replace(TWO_REFUNDS, id="one_9"))
    with pytest.raises(BarrierFailed, match="no party changed a row in schedule BA") as found:
        incident.check(run, run, plain)
    assert found.value.verdict is Verdict.BOTH_FAILED


MAKES = sent("INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'failed')")
TAKES = sent("DELETE FROM refunds")
BORROWS = sent(
    "UPDATE accounts SET credit_balance_eur = credit_balance_eur - 1",
    "UPDATE accounts SET credit_balance_eur = credit_balance_eur + 1",
)


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
@pytest.mark.parametrize(("a", "b"), [(MAKES, TAKES), (TAKES, MAKES), (BORROWS, BORROWS)])
def test_rows_that_are_changed_and_changed_back_were_changed(
    a: Callable[[BarrierDatabase], Work],
    b: Callable[[BarrierDatabase], Work],
    dialect: str,
    request: pytest.FixtureRequest,
) -> None:
    database = request.getfixturevalue("plain" if dialect == "postgresql" else "on_sqlite")
    report = played(a(database), b(database), database, hold=step(1))
    assert report.verdict is Verdict.HELD, report.show()


@pytest.mark.parametrize(
    "texts",
    [
        ("SELECT book('dsp_1')",),
        ("SELECT borrow()",),
        ("CALL step()",),
        ("INSERT INTO clicks SELECT 1",),
        ("WITH one AS (UPDATE accounts SET version = version + 1 RETURNING id) SELECT 1 FROM one WHERE false",),
        ("MERGE INTO accounts a USING (SELECT 1) o ON true WHEN MATCHED THEN UPDATE SET version = version + 1",),
        ("CREATE TABLE IF NOT EXISTS more (id int)", "DROP TABLE IF EXISTS more"),
        ("DO $$ BEGIN UPDATE accounts SET version = version + 1; END $$",),
        ("TRUNCATE refunds",),
    ],
    ids=lambda texts: " ".join(texts[0].split()[:2]),
)
def test_what_changes_rows_without_a_count_of_its_driver_goes_on_to_hold(
    texts: tuple[str, ...], plain: BarrierDatabase
) -> None:
    """Where it cannot be known whether a row was changed, nobody is accused."""
    report = played(sent(*texts)(plain), sent(*texts)(plain), plain)
    assert report.verdict is Verdict.HELD, report.show()


def test_rows_that_are_copied_go_on_to_hold(plain: BarrierDatabase) -> None:
    def run() -> None:
        with psycopg.connect(plain.libpq_url) as connection, connection.cursor() as cursor:
            with cursor.copy("COPY credit_log (account_id, amount_eur) FROM STDIN") as copy:
                copy.write_row(("acc_1", 1))
            cursor.execute("DELETE FROM credit_log")

    report = played(run, run, plain)
    assert report.verdict is Verdict.HELD, report.show()


def test_a_memory_before_a_function_of_the_server_is_named_too(plain: BarrierDatabase) -> None:
    calls: list[int] = []
    book = sent("SELECT book('dsp_1')")(plain)

    def run() -> None:
        calls.append(1)
        if len(calls) <= 8:
            book()

    report = played(run, run, plain)
    assert report.verdict is not Verdict.HELD, report.show()
    assert "remembers what was set back" in report.reason


def test_who_is_kept_from_its_work_by_a_lock_that_it_does_not_wait_for_is_no_fault(plain: BarrierDatabase) -> None:
    """A reader that locks, and a worker that skips what is locked: in A1 nobody changes a row."""
    reads = sent("SELECT id FROM accounts FOR UPDATE", "SELECT 1")(plain)
    works = sent(
        "UPDATE accounts SET version = version + 1"
        " WHERE id = (SELECT id FROM accounts WHERE version = 0 LIMIT 1 FOR UPDATE SKIP LOCKED)"
    )(plain)
    report = played(reads, works, plain)
    assert report.verdict is Verdict.HELD, report.show()
    assert any(not one.changed for one in report.judged)


def test_a_login_that_may_not_read_every_table_is_told_of_those_that_it_may(plain: BarrierDatabase) -> None:
    with plain.engine.begin() as connection:
        connection.exec_driver_sql("CREATE ROLE clerk LOGIN PASSWORD 'c'; GRANT SELECT, UPDATE ON accounts TO clerk")
    url = plain.sqlalchemy_url.set(drivername="postgresql", username="clerk", password="c")
    clerk = url.render_as_string(hide_password=False)

    def through(sql: str) -> RaceReport:
        def run() -> None:
            with psycopg.connect(clerk) as connection:
                connection.execute(sql.encode())

        return race(a=run, b=run, invariant=ANY, reset=lambda: None, db=clerk).play()

    try:
        assert is_accused(through(ELSEWHERE))
        held = through(ONCE)
        assert held.verdict is Verdict.HELD, held.show()
    finally:
        with plain.engine.begin() as connection:
            connection.exec_driver_sql("DROP OWNED BY clerk; DROP ROLE clerk")


def test_where_the_server_holds_a_write_of_no_row_is_no_change(plain: BarrierDatabase) -> None:
    def through(sql: str) -> Work:
        return by(psycopg.connect, sql)(plain)

    report = played(through(ELSEWHERE), through(ELSEWHERE), plain, hold="server")
    assert is_accused(report), report.show()
    never = "INSERT INTO accounts VALUES ('acc_1', 0, 0) ON CONFLICT DO NOTHING"
    assert is_accused(played(through(never), through(never), plain, hold="server"))
    for sql in (ONCE, "SELECT borrow()", "SELECT book('dsp_1')"):
        report = played(through(sql), through(sql), plain, hold="server")
        assert report.verdict is Verdict.HELD, report.show()
