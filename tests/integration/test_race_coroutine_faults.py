"""What a race says of coroutines that it cannot judge, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool, StaticPool

from holdtrue.errors import Refused
from holdtrue.testing import BarrierDatabase, Limits, RaceReport, Verdict, arace, race, step
from racy import awaited, duplicate, schema

QUICK = Limits(stall=0.15)
OF_OURS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'party'"


@pytest.fixture
def engine(database: BarrierDatabase) -> AsyncEngine:
    """Each checkout is a new connection, of whichever loop."""
    return create_async_engine(
        database.url_for("asyncpg"),
        poolclass=NullPool,
        connect_args={"server_settings": {"application_name": "party"}},
    )


def play(run: Callable[[], object], database: BarrierDatabase, limits: Limits = QUICK) -> RaceReport:
    return race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, limits=limits).play()


def nothing_is_left(database: BarrierDatabase) -> bool:
    """No thread of ours; and no connection of a party, once the server has seen that it was closed."""
    end = time.monotonic() + 10
    while database.control.ask(OF_OURS) != [(0,)] and time.monotonic() < end:
        time.sleep(0.01)
    ours = [one.name for one in threading.enumerate() if one.name.startswith(("party ", "event loop of a race"))]
    return not ours and database.control.ask(OF_OURS) == [(0,)]


def test_a_lock_inside_one_process_is_stalled_and_says_where_it_waits(
    engine: AsyncEngine, database: BarrierDatabase
) -> None:
    report = play(lambda: awaited.wrong_process_lock(engine), database)
    assert report.verdict is Verdict.STALLED
    assert "awaited.py" in report.reason
    assert "wrong_process_lock" in report.reason
    assert "a lock inside one process does not protect two" in report.reason
    assert nothing_is_left(database)


def test_coroutines_that_share_one_connection_are_told_so(database: BarrierDatabase) -> None:
    shared = create_async_engine(database.url_for("psycopg"), poolclass=StaticPool)
    report = play(lambda: awaited.buggy(shared), database)
    assert report.verdict is Verdict.SHARED_CONNECTION
    assert "no StaticPool" in report.reason


@asynccontextmanager
async def unit_of_work(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    async with engine.begin() as connection:
        yield connection


async def in_a_unit_of_work(engine: AsyncEngine) -> None:
    async with unit_of_work(engine) as connection:
        await awaited.read_then_insert(connection)


@pytest.mark.parametrize("code", [awaited.buggy, in_a_unit_of_work])
def test_a_pool_of_one_connection_is_named(
    code: Callable[[AsyncEngine], Awaitable[None]], database: BarrierDatabase
) -> None:
    small = create_async_engine(database.url_for("asyncpg"), pool_size=1, max_overflow=0)
    report = play(lambda: code(small), database)
    assert report.verdict is Verdict.SHARED_CONNECTION, report.show()
    assert "pool_size=2" in report.reason


def test_a_pool_of_asyncpg_of_one_connection_is_named(database: BarrierDatabase) -> None:
    async def test() -> RaceReport:
        async with asyncpg.create_pool(database.libpq_url, min_size=1, max_size=1) as pool:

            async def run() -> None:
                async with pool.acquire() as connection, connection.transaction():
                    if await connection.fetchrow("SELECT id FROM refunds") is None:
                        await connection.execute(awaited.INSERT.replace(":d", "'dsp_1'"))

            return await arace(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, limits=QUICK).play()

    assert asyncio.run(test()).verdict is Verdict.SHARED_CONNECTION


def test_a_thread_that_lost_its_party_is_named_and_to_thread_is_held(database: BarrierDatabase) -> None:
    async def loses() -> None:
        await asyncio.get_running_loop().run_in_executor(None, duplicate.buggy, database.engine)

    async def keeps() -> None:
        await asyncio.to_thread(duplicate.buggy, database.engine)

    lost = play(loses, database)
    assert lost.verdict is Verdict.NOT_REACHED
    assert "asyncio.to_thread" in lost.reason
    assert play(keeps, database).verdict is Verdict.VIOLATED


def test_a_task_that_no_party_started_is_named(engine: AsyncEngine, database: BarrierDatabase) -> None:
    """What else runs on the loop of the test, a heartbeat of the service say."""

    async def test() -> RaceReport:
        beat = asyncio.Event()

        async def heartbeat() -> None:
            while True:
                await beat.wait()
                beat.clear()
                async with engine.connect() as connection:
                    await connection.execute(text("SELECT 1"))

        async def run() -> None:
            beat.set()
            await awaited.buggy(engine)
            await asyncio.sleep(0.05)

        beating = asyncio.create_task(heartbeat())
        report = await arace(a=run, b=run, invariant="SELECT 1 WHERE false", db=database, hold=step(1)).play()
        beating.cancel()
        await asyncio.wait([beating])
        return report

    report = asyncio.run(test())
    assert report.verdict is Verdict.NOT_REACHED, report.show()
    assert "a task that no party started" in report.reason


def test_a_synchronous_engine_on_the_loop_is_named_and_held_where_each_party_has_its_own_loop(
    database: BarrierDatabase,
) -> None:
    async def blocks() -> None:
        duplicate.buggy(database.engine)

    report = play(blocks, database)
    assert report.verdict is Verdict.NOT_REACHED
    assert "blocks the event loop" in report.reason
    assert "duplicate.py" in report.reason
    assert play(lambda: asyncio.run(blocks()), database).verdict is Verdict.VIOLATED


def test_a_loop_that_is_blocked_outside_the_database_is_named(engine: AsyncEngine, database: BarrierDatabase) -> None:
    asleep = threading.Event()

    async def blocks() -> None:
        async with engine.begin() as connection:
            await awaited.read_then_insert(connection)
            asleep.wait(0.8)

    report = race(
        a=lambda: awaited.buggy(engine),
        b=blocks,
        invariant="SELECT 1 WHERE false",
        db=database,
        limits=QUICK,
        hold=step(1),
    ).play()
    assert report.verdict is Verdict.STALLED, report.show()
    assert "B blocks the event loop with synchronous code" in report.reason
    assert "in blocks" in report.reason
    assert nothing_is_left(database)


def test_statements_of_one_party_wait_in_line_and_have_one_trace(database: BarrierDatabase) -> None:
    """Two connections of a party, and two statements at once."""

    async def test() -> list[RaceReport]:
        engine = create_async_engine(database.url_for("asyncpg"), pool_size=6)

        async def look() -> int:
            async with engine.connect() as connection:
                return len((await connection.execute(text("SELECT id FROM disputes"))).all())

        async def run() -> None:
            async with engine.begin() as connection:
                await asyncio.gather(look(), awaited.read_then_insert(connection))
                await look()

        made = [await arace(a=run, b=run, invariant=schema.ONE_SETTLED, db=database).play() for _ in range(3)]
        await engine.dispose()
        return made

    reports = asyncio.run(test())
    assert reports[0].verdict is Verdict.VIOLATED
    alone = [line.what for line in reports[0].judged[0].played.lines if line.party == "A"]
    assert sorted(alone) == sorted(
        [
            "START",
            "SELECT disputes",
            "ROLLBACK",
            "SELECT refunds",
            "INSERT refunds",
            "SELECT disputes",
            "ROLLBACK",
            "COMMIT",
        ]
    )
    assert all(
        [one.played.lines for one in report.judged] == [one.played.lines for one in reports[0].judged]
        for report in reports
    )


def test_a_statement_that_waits_for_its_own_party_lets_the_other_one_go_first(
    engine: AsyncEngine, database: BarrierDatabase
) -> None:
    async def run() -> None:
        async with engine.begin() as first, engine.begin() as second:
            await first.execute(text(awaited.LOCK), duplicate.DISPUTE)
            await asyncio.gather(
                second.execute(text(awaited.LOCK), duplicate.DISPUTE), finish(first), return_exceptions=False
            )

    async def finish(connection: AsyncConnection) -> None:
        await awaited.read_then_insert(connection)
        await connection.commit()

    made = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, hold=step(2))
    assert made.assert_holds().verdict is Verdict.HELD
    assert nothing_is_left(database)


def test_a_task_that_is_not_awaited_belongs_to_its_party(engine: AsyncEngine, database: BarrierDatabase) -> None:
    kept: set[asyncio.Task[None]] = set()

    async def run() -> None:
        async with engine.connect() as connection:
            await connection.execute(text("SELECT 1 FROM disputes"))
        kept.add(asyncio.create_task(awaited.buggy(engine)))

    report = play(run, database)
    assert report.verdict is Verdict.VIOLATED, report.show()
    assert [line.what for line in report.judged[0].played.lines if line.party == "A"] == [
        "START",
        "SELECT disputes",
        "ROLLBACK",
        "SELECT refunds",
        "INSERT refunds",
        "COMMIT",
    ]
    assert all(task.done() for task in kept)


def test_a_time_limit_of_the_code_itself_may_end_a_held_statement(
    engine: AsyncEngine, database: BarrierDatabase
) -> None:
    async def impatient() -> None:
        async with asyncio.timeout(0.5):
            await awaited.buggy(engine)

    async def patient() -> None:
        async with engine.begin() as connection:
            await connection.execute(text("SELECT pg_sleep(1.0)"))

    made = race(a=impatient, b=patient, invariant=schema.ONE_SETTLED, db=database, hold=step(1)).play()
    assert "A  ended with TimeoutError" in made.judged[-1].show() or made.judged[-1].schedule.name != "A"
    assert made.verdict is Verdict.HELD, made.show()
    assert nothing_is_left(database)


def test_a_schedule_that_does_not_end_is_given_up_and_leaves_nothing_behind(
    engine: AsyncEngine, database: BarrierDatabase
) -> None:
    async def waits() -> None:
        async with engine.begin() as connection:
            await connection.execute(text("SELECT 1 FROM refunds"))
            await asyncio.gather(asyncio.Event().wait(), awaited.buggy(engine))

    started = time.monotonic()
    report = play(waits, database, Limits(stall=0.1, deadline=0.6))
    assert report.verdict in (Verdict.TIMEOUT, Verdict.STALLED, Verdict.VIOLATED_IN_SERIES), report.show()
    assert report.verdict is not Verdict.HELD
    assert time.monotonic() - started < 15
    assert nothing_is_left(database)


def test_a_test_that_is_cancelled_leaves_nothing_behind(engine: AsyncEngine, database: BarrierDatabase) -> None:
    begun = threading.Event()

    async def waits() -> None:
        async with engine.begin() as connection:
            await connection.execute(text("SELECT 1 FROM refunds"))
            begun.set()
            await asyncio.Event().wait()

    async def test() -> None:
        made = arace(a=waits, b=waits, invariant=schema.ONE_SETTLED, db=database, limits=Limits(deadline=90))
        playing = asyncio.create_task(made.play())
        async with asyncio.timeout(20):
            while not begun.is_set():
                await asyncio.sleep(0.01)
            playing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await playing
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(test())
    assert nothing_is_left(database)


def test_a_race_of_coroutines_inside_a_loop_has_to_be_awaited(engine: AsyncEngine, database: BarrierDatabase) -> None:
    async def test() -> None:
        with pytest.raises(Refused, match=r"inside a running event loop.*await arace"):
            play(lambda: awaited.buggy(engine), database)

    asyncio.run(test())


def test_a_pool_of_another_loop_is_named(database: BarrierDatabase) -> None:
    kept = create_async_engine(database.url_for("asyncpg"))

    async def warm() -> None:
        async with kept.connect(), kept.connect():
            pass

    loop = asyncio.new_event_loop()
    loop.run_until_complete(warm())
    try:
        report = play(lambda: awaited.buggy(kept), database)
    finally:
        loop.run_until_complete(kept.dispose())
        loop.close()
    assert report.verdict is Verdict.BOTH_FAILED
    assert "made on another event loop" in report.reason


def test_coroutines_race_plain_functions_and_reset_may_be_one(engine: AsyncEngine, database: BarrierDatabase) -> None:
    plain = create_engine(database.url)

    async def reset() -> None:
        async with engine.begin() as connection:
            await connection.execute(text("DELETE FROM refunds"))

    async def fixed() -> None:
        await awaited.right_lock_parent(engine)

    try:
        mixed = race(
            a=lambda: duplicate.buggy(plain), b=lambda: awaited.buggy(engine), invariant=schema.ONE_SETTLED, reset=reset
        ).play()
        right = race(
            a=lambda: duplicate.right_lock_parent(plain), b=fixed, invariant=schema.ONE_SETTLED, db=engine, reset=reset
        ).play()
        with plain.begin() as connection:
            connection.execute(text("DELETE FROM refunds"))
    finally:
        plain.dispose()
    assert (mixed.verdict, right.verdict) == (Verdict.VIOLATED, Verdict.HELD)
