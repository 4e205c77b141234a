"""Parties that leave without asking the database while another one is held: what kept them out is no fix (semantics 9.5)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import asyncpg
import psycopg
import psycopg2.pool
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import TimeoutError

from holdtrue.testing import BarrierDatabase, BarrierFailed, FrozenIncident, RaceReport, Verdict, arace, race
from racy import schema
from racy.promoted import TWO_REFUNDS
from servers.postgres import PostgresPrimary

Work = Callable[[], object]
READ = "SELECT count(*) FROM refunds WHERE dispute_id = 'dsp_1'"
WRITE = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'settled')"
KEPT = "without asking the database while another party was held"


class BusyError(Exception):
    """The code's own word for it."""


@pytest.fixture(scope="module")
def plain(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", schema.build, postgres_primary.url)
    yield made
    made.close()


def refunding(engine: Engine) -> Work:
    """Reads, and inserts if there is none: the bug."""

    def run() -> None:
        with engine.begin() as connection:
            if not connection.scalar(text(READ)):
                connection.execute(text(WRITE))

    return run


def without_waiting(work: Work, *, says: bool = True, patience: float = -1) -> Work:
    lock = threading.Lock()

    def run() -> None:
        if not lock.acquire(blocking=patience > 0, timeout=patience):
            if says:
                raise BusyError
            return
        try:
            work()
        finally:
            lock.release()

    return run


def unless_in_flight(work: Work) -> Work:
    flying: set[str] = set()

    def run() -> None:
        if "dsp_1" in flying:
            return
        flying.add("dsp_1")
        try:
            work()
        finally:
            flying.discard("dsp_1")

    return run


def played(a: Work, b: Work, database: BarrierDatabase, **options: object) -> RaceReport:
    return race(a=a, b=b, invariant=schema.ONE_SETTLED, db=database, **options).play()  # type: ignore[arg-type]


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_a_lock_of_the_process_that_is_not_waited_for_is_stalled(dialect: str, request: pytest.FixtureRequest) -> None:
    database = request.getfixturevalue("plain" if dialect == "postgresql" else "on_sqlite")
    for wrapped in (
        without_waiting(refunding(database.engine)),
        without_waiting(refunding(database.engine), says=False),
        without_waiting(refunding(database.engine), patience=0.05),
        unless_in_flight(refunding(database.engine)),
    ):
        report = played(wrapped, wrapped, database)
        assert report.verdict is Verdict.STALLED, report.show()
        assert KEPT in report.reason
        assert "schedule A1" in report.show()


def test_so_it_is_where_the_server_holds(plain: BarrierDatabase) -> None:
    wrapped = without_waiting(refunding(plain.engine))
    report = played(wrapped, wrapped, plain, hold="server")
    assert report.verdict is Verdict.STALLED, report.show()
    assert f"B ended with BusyError {KEPT}" in report.reason


def test_an_incident_says_so_too(plain: BarrierDatabase) -> None:
    run = without_waiting(refunding(plain.engine))
    with pytest.raises(BarrierFailed, match=KEPT) as found:
        FrozenIncident(TWO_REFUNDS).check(lambda _db: run(), lambda _db: run(), plain)
    assert found.value.verdict is Verdict.STALLED


def test_a_lock_that_all_processes_share_is_allowed(plain: BarrierDatabase) -> None:
    wrapped = without_waiting(refunding(plain.engine))
    for hold in (None, "server"):
        report = played(wrapped, wrapped, plain, external_lock=True, hold=hold)
        assert report.verdict is Verdict.HELD, report.show()


def by_psycopg2(pools: list[psycopg2.pool.ThreadedConnectionPool], database: BarrierDatabase) -> Work:
    def run() -> None:
        if not pools:  # connections that were opened before the first schedule are not seen
            pools.append(psycopg2.pool.ThreadedConnectionPool(1, 1, database.libpq_url))
        connection = pools[0].getconn()
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(READ)
                if not cursor.fetchall()[0][0]:
                    cursor.execute(WRITE)
        finally:
            pools[0].putconn(connection)

    return run


def by_asyncpg(pool: asyncpg.Pool) -> Work:
    async def run() -> None:
        async with pool.acquire(timeout=0.1) as connection, connection.transaction():
            if not await connection.fetchval(READ):
                await connection.execute(WRITE)

    return run


@pytest.fixture
def of_one(plain: BarrierDatabase) -> Iterator[Engine]:
    engine = create_engine(plain.url, pool_size=1, max_overflow=0, pool_timeout=0.1)
    yield engine
    engine.dispose()


def is_one_connection(report: RaceReport) -> bool:
    return report.verdict is Verdict.SHARED_CONNECTION and "the pool has too few" in report.reason


def test_a_pool_of_one_that_gives_up_is_one_connection_for_both(plain: BarrierDatabase, of_one: Engine) -> None:
    run = refunding(of_one)
    report = played(run, run, plain)
    assert is_one_connection(report), report.show()


def test_so_is_one_of_psycopg2(plain: BarrierDatabase) -> None:
    pools: list[psycopg2.pool.ThreadedConnectionPool] = []
    run = by_psycopg2(pools, plain)
    try:
        report = played(run, run, plain)
        assert is_one_connection(report), report.show()
    finally:
        for one in pools:
            one.closeall()


def test_so_is_one_of_asyncpg(plain: BarrierDatabase) -> None:
    async def play() -> RaceReport:
        async with asyncpg.create_pool(plain.libpq_url, min_size=1, max_size=1) as pool:
            run = by_asyncpg(pool)
            return await arace(a=run, b=run, invariant=schema.ONE_SETTLED, db=plain).play()

    report = asyncio.run(play())
    assert is_one_connection(report), report.show()


def test_a_pool_that_gives_up_unheard_is_stalled(plain: BarrierDatabase, of_one: Engine) -> None:
    """A framework that makes an answer of every error leaves nothing of it."""
    work = refunding(of_one)

    def run() -> None:
        with suppress(TimeoutError):
            work()

    report = played(run, run, plain)
    assert report.verdict is Verdict.STALLED, report.show()
    assert "a pool with no connection left" in report.reason


def test_a_memory_that_outlives_the_set_back_is_no_lock(plain: BarrierDatabase) -> None:
    """In A1 party B finds what it remembers, and would alone too."""
    done: list[int] = []
    work = refunding(plain.engine)

    def run() -> None:
        if len(done) < 5:
            done.append(1)
            work()

    report = played(run, run, plain)
    assert report.verdict is Verdict.BOTH_FAILED, report.show()
    assert "asked the database nothing in schedule A1, nor alone when it was played again" in report.reason


def claiming(database: BarrierDatabase) -> Work:
    """The first of two transactions claims the dispute, and who finds it claimed leaves: a right fix."""

    def run() -> None:
        with closing(psycopg.connect(database.libpq_url)) as connection:
            with connection.transaction():
                claimed = connection.execute("UPDATE disputes SET amount_eur = 0 WHERE amount_eur > 0").rowcount
            if claimed:
                with connection.transaction():
                    connection.execute(WRITE)

    return run


def test_who_asks_the_database_sees_the_new_state_and_leaves_is_not_accused(plain: BarrierDatabase) -> None:
    for hold in (None, "server"):
        report = played(claiming(plain), claiming(plain), plain, hold=hold)
        assert report.verdict is Verdict.HELD, report.show()
