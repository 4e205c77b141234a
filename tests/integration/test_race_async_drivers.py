"""Coroutines without SQLAlchemy, through asyncpg and psycopg: every fix judged rightly, each time alike (semantics 9.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg import sql

from holdtrue.testing import BarrierDatabase, Limits, RaceReport, Verdict, arace, race, replay
from racy import awaited_asyncpg, awaited_psycopg, schema
from servers.postgres import PostgresPrimary

REPEATS = 3
MODULES = (awaited_asyncpg, awaited_psycopg)
NEEDS_UNIQUE = awaited_asyncpg.NEEDS_UNIQUE | awaited_psycopg.NEEDS_UNIQUE
Code = Callable[[str], Awaitable[None]]
LOGGED = ["account_id", "amount_eur"]


def named(code: Code) -> str:
    return f"{code.__module__}.{code.__name__}"


@pytest.fixture(scope="module")
def plain(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    database = BarrierDatabase("postgresql", schema.build, postgres_primary.url)
    yield database
    database.close()


@pytest.fixture(scope="module")
def with_unique_index(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    database = BarrierDatabase("postgresql", schema.build_unique, postgres_primary.url)
    yield database
    database.close()


def play(code: Code, database: BarrierDatabase) -> RaceReport:
    """The same race, and again: all traces are alike."""
    reports = [
        race(
            a=lambda: code(database.libpq_url),
            b=lambda: code(database.libpq_url),
            invariant=schema.ONE_SETTLED,
            db=database,
        ).play()
        for _ in range(REPEATS)
    ]
    first, *others = [
        [(one.schedule.name, one.verdict, one.played.lines) for one in report.judged] for report in reports
    ]
    assert all(one == first for one in others)
    return reports[0]


@pytest.mark.parametrize("code", [code for module in MODULES for code in module.RIGHT], ids=named)
def test_a_right_fix_over_a_driver_alone_holds(
    code: Code, plain: BarrierDatabase, with_unique_index: BarrierDatabase
) -> None:
    report = play(code, with_unique_index if code in NEEDS_UNIQUE else plain)
    assert report.verdict is Verdict.HELD, report.show()
    assert {one.schedule.name for one in report.judged} >= {"AB", "BA", "A1", "B1"}


@pytest.mark.parametrize("code", [code for module in MODULES for code in module.WRONG], ids=named)
def test_a_bug_or_a_wrong_fix_over_a_driver_alone_is_found(code: Code, plain: BarrierDatabase) -> None:
    report = play(code, plain)
    assert report.verdict is Verdict.VIOLATED, report.show()


@pytest.fixture
def pooled(plain: BarrierDatabase) -> Callable[[Callable[[Any], Awaitable[None]]], RaceReport]:
    """Plays two of a call that takes a pool of asyncpg, on the loop of that pool."""

    def play_pooled(code: Callable[[Any], Awaitable[None]]) -> RaceReport:
        async def test() -> RaceReport:
            async with asyncpg.create_pool(plain.libpq_url, min_size=2, max_size=4) as pool:
                run = partial(code, pool)
                return await arace(a=run, b=run, invariant=schema.ONE_SETTLED, db=plain).play()

        return asyncio.run(test())

    return play_pooled


def lines(report: RaceReport) -> list[str]:
    """What A did in series."""
    return [line.what for line in report.judged[0].played.lines if line.party == "A"]


def test_a_pool_may_hand_one_connection_to_both_and_its_own_questions_are_no_boundaries(
    pooled: Callable[..., RaceReport],
) -> None:
    async def run(pool: asyncpg.Pool) -> None:
        async with pool.acquire() as connection, connection.transaction():
            await awaited_asyncpg.read_then_insert(connection)

    report = pooled(run)
    assert report.verdict is Verdict.VIOLATED, report.show()
    assert lines(report) == ["START", "SELECT refunds", "INSERT refunds", "COMMIT"]


def test_every_way_to_send_a_statement_through_asyncpg_is_held(pooled: Callable[..., RaceReport]) -> None:
    async def run(pool: asyncpg.Pool) -> None:
        async with pool.acquire() as connection:
            prepared = await connection.prepare("SELECT id FROM disputes WHERE id = $1")
            async with connection.transaction():
                await prepared.fetchval("dsp_1")
                assert [row["id"] async for row in connection.cursor("SELECT id FROM accounts")] == ["acc_1"]
                await (await connection.cursor("SELECT id FROM disputes")).fetch(1)
                async with connection.transaction():
                    await connection.fetchval("SELECT 1")
                await connection.copy_records_to_table("credit_log", records=[("acc_1", 1)], columns=LOGGED)
                await connection.executemany(
                    "INSERT INTO credit_log (account_id, amount_eur) VALUES ($1, 1)", [["acc_1"]]
                )
            transaction = connection.transaction()
            await transaction.start()
            await connection.fetch("SELECT id FROM refunds")
            await transaction.rollback()

    report = pooled(run)
    assert report.verdict is Verdict.HELD, report.show()
    assert lines(report) == [
        "START",
        "SELECT disputes",
        "SELECT accounts",
        "SELECT disputes",
        "SELECT",
        "COPY credit_log",
        "INSERT credit_log",
        "COMMIT",
        "SELECT refunds",
        "ROLLBACK",
    ]


def test_every_way_to_send_a_statement_through_psycopg_is_held(plain: BarrierDatabase) -> None:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(plain.libpq_url) as connection:
            async with connection.transaction(), connection.cursor() as cursor:
                await cursor.executemany("INSERT INTO credit_log (account_id, amount_eur) VALUES (%s, 1)", [["acc_1"]])
                assert [row async for row in cursor.stream(b"SELECT id FROM accounts")] == [("acc_1",)]
                async with cursor.copy("COPY credit_log (account_id, amount_eur) FROM STDIN") as copy:
                    await copy.write_row(("acc_1", 1))
                async with connection.transaction():
                    await cursor.execute(sql.SQL("SELECT 1 FROM {}").format(sql.Identifier("disputes")))
            async with connection.cursor("named") as named:
                await named.execute("SELECT id FROM refunds")
            await connection.rollback()

    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=plain).play()
    assert report.verdict is Verdict.HELD, report.show()
    assert lines(report) == [
        "START",
        "INSERT credit_log",
        "SELECT accounts",
        "COPY credit_log",
        "SELECT disputes",
        "COMMIT",
        "SELECT refunds",
        "ROLLBACK",
    ]


def test_one_connection_for_both_parties_is_named(plain: BarrierDatabase) -> None:
    async def test() -> RaceReport:
        shared = await psycopg.AsyncConnection.connect(plain.libpq_url)

        async def run() -> None:
            await awaited_psycopg.read_then_insert(shared)
            await shared.commit()

        report = await arace(a=run, b=run, invariant=schema.ONE_SETTLED, db=plain, limits=Limits(stall=0.2)).play()
        await shared.close()
        return report

    report = asyncio.run(test())
    assert report.verdict is Verdict.SHARED_CONNECTION, report.show()
    assert "open a connection in each call" in report.reason


def test_a_party_may_be_nothing_but_a_call_of_its_driver_and_the_database_is_found_without_being_named(
    plain: BarrierDatabase,
) -> None:
    async def reset() -> None:
        async with awaited_asyncpg.connected(plain.libpq_url) as connection:
            await connection.execute("DELETE FROM refunds")

    async def test() -> RaceReport:
        async with asyncpg.create_pool(plain.libpq_url, min_size=2, max_size=4) as pool:
            text = awaited_asyncpg.NOT_EXISTS
            made = arace(
                a=lambda: pool.execute(text), b=lambda: pool.execute(text), invariant=schema.ONE_SETTLED, reset=reset
            )
            return await made.play()

    report = asyncio.run(test())
    assert report.verdict is Verdict.VIOLATED, report.show()
    asyncio.run(reset())


def test_the_drivers_are_their_own_again_after_each_race(plain: BarrierDatabase) -> None:
    def methods() -> list[object]:
        return [
            vars(owner).get(name)
            for owner, names in (
                (asyncpg.Connection, "execute executemany fetch fetchval reset _cleanup"),
                (psycopg.AsyncConnection, "commit rollback close"),
                (psycopg.AsyncCursor, "execute executemany stream copy"),
                (psycopg.AsyncTransaction, "__aexit__"),
            )
            for name in names.split()
        ]

    before = methods()
    play(awaited_asyncpg.buggy, plain)
    assert methods() == before


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_bug_is_found_at_every_boundary(module: ModuleType, plain: BarrierDatabase) -> None:
    found = []
    try:
        for schedule in ("A1", "A2", "B1", "B2"):
            replay.ask_for(schedule)
            made = race(
                a=lambda: module.buggy(plain.libpq_url),
                b=lambda: module.buggy(plain.libpq_url),
                invariant=schema.ONE_SETTLED,
                db=plain,
            )
            found.append((schedule, made.play().verdict))
    finally:
        replay.ask_for("")
    assert found == [(schedule, Verdict.VIOLATED) for schedule in ("A1", "A2", "B1", "B2")]
