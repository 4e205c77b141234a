"""Functions, procedures and blocks of the server in a transaction of their own are held before its COMMIT (semantics 9.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import asyncpg
import psycopg
import psycopg2
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from holdtrue.testing import BarrierDatabase, RaceReport, Verdict, race
from racy import schema
from servers.postgres import PostgresPrimary

Work = Callable[[], object]
READS = "SELECT id FROM disputes"
FUNCTION = "SELECT refund_once('dsp_1')"
SETTLES = (
    "INSERT INTO refunds (dispute_id, amount_eur, state) SELECT %s, 40, 'settled'"
    " WHERE NOT EXISTS (SELECT 1 FROM refunds)"
)
ROUTINES = """
CREATE FUNCTION refund_once(d text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM refunds WHERE dispute_id = d) THEN
    INSERT INTO refunds (dispute_id, amount_eur, state) VALUES (d, 40, 'settled');
  END IF;
  RETURN 1;
END $$;
CREATE PROCEDURE refund(d text) LANGUAGE plpgsql AS $$ BEGIN PERFORM refund_once(d); END $$;
CREATE PROCEDURE refund_and_commit(d text) LANGUAGE plpgsql AS $$ BEGIN PERFORM refund_once(d); COMMIT; END $$;
CREATE FUNCTION is_open(d text) RETURNS boolean LANGUAGE sql
  AS $$ SELECT NOT EXISTS (SELECT 1 FROM refunds WHERE dispute_id = d) $$;
"""


def build(url: str) -> None:
    schema.build(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(ROUTINES)
    engine.dispose()


@pytest.fixture(scope="module")
def database(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", build, postgres_primary.url)
    yield made
    made.close()


def by_psycopg(sql: str, url: BarrierDatabase) -> Work:
    def run() -> None:
        with psycopg.connect(url.libpq_url, autocommit=True) as connection:
            connection.execute(READS)
            connection.execute(sql.encode())

    return run


def by_psycopg2(sql: str, url: BarrierDatabase) -> Work:
    def run() -> None:
        with closing(psycopg2.connect(url.libpq_url)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute(READS)
            cursor.execute(sql)

    return run


def by_an_engine(sql: str, url: BarrierDatabase) -> Work:
    engine = create_engine(url.url, isolation_level="AUTOCOMMIT", poolclass=NullPool)

    def run() -> None:
        with engine.connect() as connection:
            connection.execute(text(READS))
            connection.execute(text(sql))

    return run


def by_asyncpg(sql: str, url: BarrierDatabase) -> Work:
    async def run() -> None:
        connection = await asyncpg.connect(url.libpq_url)
        try:
            await connection.fetch(READS)
            await connection.fetchval(sql)
        finally:
            await connection.close()

    return run


def by_psycopg_awaited(sql: str, url: BarrierDatabase) -> Work:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(url.libpq_url, autocommit=True) as connection:
            await connection.execute(READS)
            await connection.execute(sql.encode())

    return run


def played(run: Work, url: BarrierDatabase) -> RaceReport:
    return race(a=run, b=run, invariant=schema.ONE_SETTLED, db=url).play()


def steps(report: RaceReport) -> list[str]:
    """Of A; an engine rolls back what it gives back, whatever it was."""
    lines = [line.what for line in report.judged[0].played.lines if line.party == "A"]
    return [what for what in lines if what != "ROLLBACK"]


@pytest.mark.parametrize("through", [by_psycopg, by_psycopg2, by_an_engine, by_asyncpg, by_psycopg_awaited])
def test_a_function_that_reads_and_writes_is_held_before_its_commit(
    through: Callable[[str, BarrierDatabase], Work], database: BarrierDatabase
) -> None:
    report = played(through(FUNCTION, database), database)
    assert report.verdict is Verdict.VIOLATED, report.show()
    assert steps(report) == ["START", "SELECT disputes", "SELECT", "COMMIT"]


@pytest.mark.parametrize("sql", ["CALL refund('dsp_1')", "DO $$ BEGIN PERFORM refund_once('dsp_1'); END $$"])
def test_so_is_a_procedure_and_a_block(sql: str, database: BarrierDatabase) -> None:
    for through in (by_psycopg, by_an_engine):
        report = played(through(sql, database), database)
        assert report.verdict is Verdict.VIOLATED, report.show()


def many_by_psycopg(url: BarrierDatabase) -> Work:
    def run() -> None:
        with psycopg.connect(url.libpq_url, autocommit=True) as connection:
            connection.cursor().executemany(SETTLES, [("dsp_1",)])

    return run


def many_by_psycopg2(url: BarrierDatabase) -> Work:
    def run() -> None:
        with closing(psycopg2.connect(url.libpq_url)) as connection:
            connection.autocommit = True
            connection.cursor().executemany(SETTLES, [("dsp_1",)])

    return run


def procedure_by_psycopg2(url: BarrierDatabase) -> Work:
    def run() -> None:
        with closing(psycopg2.connect(url.libpq_url)) as connection:
            connection.autocommit = True
            connection.cursor().callproc("refund_once", ["dsp_1"])

    return run


@pytest.mark.parametrize("through", [many_by_psycopg, many_by_psycopg2, procedure_by_psycopg2])
def test_so_are_many_rows_at_once_and_a_function_by_its_name(
    through: Callable[[BarrierDatabase], Work], database: BarrierDatabase
) -> None:
    report = played(through(database), database)
    assert report.verdict is Verdict.VIOLATED, report.show()


@pytest.mark.parametrize("through", [by_psycopg, by_psycopg2, by_an_engine, by_asyncpg, by_psycopg_awaited])
def test_a_function_that_only_reads_has_no_commit_to_be_held_at(
    through: Callable[[str, BarrierDatabase], Work], database: BarrierDatabase
) -> None:
    run, write = through("SELECT is_open('dsp_1')", database), through(FUNCTION, database)
    report = race(a=run, b=write, invariant=schema.ONE_SETTLED, db=database).play()
    assert report.verdict is Verdict.HELD, report.show()
    assert steps(report) == ["START", "SELECT disputes", "SELECT"]


@pytest.mark.parametrize("through", [by_psycopg, by_psycopg2, by_an_engine, by_asyncpg, by_psycopg_awaited])
def test_a_procedure_that_ends_transactions_itself_cannot_be_held_and_is_no_pass(
    through: Callable[[str, BarrierDatabase], Work], database: BarrierDatabase
) -> None:
    report = played(through("CALL refund_and_commit('dsp_1')", database), database)
    assert report.verdict is Verdict.NOT_REACHED, report.show()
    assert "CALL ends transactions itself" in report.reason
    assert 'hold="server"' in report.reason


def test_a_lone_statement_in_a_pipeline_cannot_be_held_and_is_no_pass(database: BarrierDatabase) -> None:
    def run() -> None:
        with psycopg.connect(database.libpq_url, autocommit=True) as connection, connection.pipeline():
            connection.execute(FUNCTION)

    report = played(run, database)
    assert report.verdict is Verdict.NOT_REACHED, report.show()
    assert "inside a pipeline" in report.reason
