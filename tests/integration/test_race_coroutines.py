"""Coroutines raced through asynchronous engines: every fix judged rightly, each time alike (semantics 9.4, 9.5)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, event, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from holdtrue.errors import Refused
from holdtrue.model import Incident, TableRows
from holdtrue.testing import (
    BarrierDatabase,
    BarrierFailed,
    FrozenIncident,
    NotWired,
    RaceReport,
    Verdict,
    arace,
    race,
    replay,
)
from racy import awaited, schema
from servers.postgres import PostgresPrimary

REPEATS = 3
Code = Callable[[AsyncEngine], Awaitable[None]]


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


def traces(report: RaceReport) -> list[object]:
    """All that happened. Where a wait is inferred (SQLite), a statement that takes long may look like one."""
    return [
        (one.schedule.name, one.verdict, [line for line in one.played.lines if "(inferred)" not in line.what])
        for one in report.judged
    ]


def play(
    code: Code, database: BarrierDatabase, driver: str, prepare: Callable[[AsyncEngine], None] | None = None
) -> RaceReport:
    """The same race, and again, from a plain test: all traces are alike."""
    engine = create_async_engine(database.url_for(driver))
    if prepare is not None:
        prepare(engine)

    async def run() -> None:
        await code(engine)

    reports = [race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database).play() for _ in range(REPEATS)]
    assert all(traces(one) == traces(reports[0]) for one in reports)
    return reports[0]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
@pytest.mark.parametrize("code", awaited.RIGHT, ids=lambda code: code.__name__)
def test_a_right_fix_in_coroutines_holds_at_every_boundary(
    code: Code, driver: str, plain: BarrierDatabase, with_unique_index: BarrierDatabase
) -> None:
    report = play(code, with_unique_index if code in awaited.NEEDS_UNIQUE else plain, driver)
    assert report.verdict is Verdict.HELD, report.show()
    assert {one.schedule.name for one in report.judged} >= {"AB", "BA", "A1", "B1"}


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
@pytest.mark.parametrize("code", awaited.WRONG, ids=lambda code: code.__name__)
def test_a_bug_or_a_wrong_fix_in_coroutines_is_found(code: Code, driver: str, plain: BarrierDatabase) -> None:
    report = play(code, plain, driver)
    assert report.verdict is Verdict.VIOLATED, report.show()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_the_bug_in_coroutines_is_found_at_every_boundary(driver: str, plain: BarrierDatabase) -> None:
    engine = create_async_engine(plain.url_for(driver), poolclass=NullPool)
    found = []
    try:
        for schedule in ("A1", "A2", "B1", "B2"):
            replay.ask_for(schedule)
            made = race(
                a=lambda: awaited.buggy(engine), b=lambda: awaited.buggy(engine), invariant=schema.ONE_SETTLED, db=plain
            )
            found.append((schedule, made.play().verdict))
    finally:
        replay.ask_for("")
    assert found == [(schedule, Verdict.VIOLATED) for schedule in ("A1", "A2", "B1", "B2")]


def test_coroutines_over_aiosqlite_are_found_and_held_where_the_lock_is_taken_first() -> None:
    def build(url: str) -> None:
        with contextlib.closing(sqlite3.connect(make_url(url).database or "")) as connection:
            connection.executescript(";".join((schema.SQLITE, *schema.ROWS)))

    def at_once(engine: AsyncEngine) -> None:
        """What SQLAlchemy's documentation gives: a transaction that begins, and takes the lock then."""

        @event.listens_for(engine.sync_engine, "connect")
        def _connect(connection: Any, _record: object) -> None:
            connection.isolation_level = None

        @event.listens_for(engine.sync_engine, "begin")
        def _begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    database = BarrierDatabase("sqlite", build, lambda: "")
    try:
        buggy = play(awaited.buggy, database, "aiosqlite")
        fixed = play(awaited.buggy, database, "aiosqlite", at_once)
    finally:
        database.close()
    assert (buggy.verdict, fixed.verdict) == (Verdict.VIOLATED, Verdict.HELD)


def test_a_race_is_awaited_on_the_loop_of_its_test(plain: BarrierDatabase) -> None:
    """The engine's pool belongs to that loop, and is of use before and after."""

    async def test(engine: AsyncEngine) -> list[RaceReport]:
        async def bug() -> None:
            await awaited.buggy(engine)

        async def fix() -> None:
            await awaited.right_lock_parent(engine)

        factory = asyncio.get_running_loop().get_task_factory()
        reports = [await arace(a=run, b=run, invariant=schema.ONE_SETTLED, db=plain).play() for run in (bug, fix)]
        await awaited.right_lock_parent(engine)
        await engine.dispose()
        assert asyncio.get_running_loop().get_task_factory() is factory
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return reports

    buggy, right = asyncio.run(test(create_async_engine(plain.url_for("asyncpg"))))
    plain.control.set_back()
    assert (buggy.verdict, right.verdict) == (Verdict.VIOLATED, Verdict.HELD)


def test_an_incident_is_replayed_with_coroutines_from_a_plain_test_and_on_the_loop_of_its_test(
    plain: BarrierDatabase,
) -> None:
    settled = [(number, "dsp_1", "40.00", "settled") for number in ("3", "4")]
    incident = FrozenIncident(
        Incident(
            id="one_7",
            invariant="one_settled_refund_per_dispute",
            database="payments",
            engine="postgresql",
            sql=schema.ONE_SETTLED,
            returns="rows",
            seed=(TableRows("disputes", ("id", "account_id", "amount_eur"), (("dsp_1", "acc_1", "40.00"),)),),
            observed=(TableRows("refunds", ("id", "dispute_id", "amount_eur", "state"), tuple(settled)),),
        )
    )
    seen = []

    async def pre_image(db: BarrierDatabase) -> None:
        async with db.async_engine.connect() as connection:
            seen.append((await connection.exec_driver_sql("SELECT count(*) FROM refunds")).scalar())

    async def fixed(db: BarrierDatabase) -> None:
        await awaited.right_lock_parent(db.async_engine)

    async def buggy(db: BarrierDatabase) -> None:
        await awaited.buggy(db.async_engine)

    async def unwired(db: BarrierDatabase) -> None:
        raise NotWired("wire run_a to the code that wrote refunds 3")

    async def test() -> None:
        assert "held in" in (await incident.acheck(fixed, fixed, plain, pre_image=pre_image)).reason
        with pytest.raises(BarrierFailed) as found:
            await incident.acheck(buggy, buggy, plain)
        assert found.value.verdict is Verdict.VIOLATED
        with pytest.raises(Refused, match=r"await incident\.acheck"):
            incident.check(buggy, buggy, plain)

    assert "held in" in incident.check(fixed, fixed, plain, pre_image=pre_image).reason
    with pytest.raises(NotWired, match="wire run_a"):
        incident.check(unwired, buggy, plain)
    asyncio.run(test())
    assert set(seen) == {0}
