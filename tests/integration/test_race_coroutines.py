"""Coroutines raced through asynchronous engines: every fix judged rightly, each time alike (semantics 9.4, 9.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from holdtrue.testing import BarrierDatabase, RaceReport, Verdict, arace, race
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
    return [(one.schedule.name, one.verdict, one.played.lines) for one in report.judged]


def play(code: Code, database: BarrierDatabase, driver: str) -> RaceReport:
    """The same race, and again, from a plain test: all traces are alike."""
    engine = create_async_engine(database.url_for(driver))

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
