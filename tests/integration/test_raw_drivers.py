"""Code without SQLAlchemy is held by its driver: bugs are found at every boundary, right fixes hold, each time alike."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import psycopg2
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from holdtrue.testing import BarrierDatabase, RaceReport, Verdict, race, step
from racy import duplicate, schema
from racy.raw import Raw
from servers.postgres import PostgresPrimary

REPEATS = 2
NOT_EXISTS = (
    "INSERT INTO refunds (dispute_id, amount_eur, state) SELECT 'dsp_1', 40, 'settled' "
    "WHERE NOT EXISTS (SELECT 1 FROM refunds WHERE dispute_id = 'dsp_1' AND state = 'settled')"
)
DRIVERS = ("psycopg", "psycopg2", "sqlite3")


@pytest.fixture(scope="module")
def on_postgresql(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", schema.build, postgres_primary.url)
    yield made
    made.close()


@pytest.fixture(params=DRIVERS)
def place(request: pytest.FixtureRequest) -> tuple[Raw, BarrierDatabase]:
    database: BarrierDatabase
    if request.param == "sqlite3":
        database = request.getfixturevalue("on_sqlite")
        file = database.sqlalchemy_url.database or ""
        return Raw(lambda: sqlite3.connect(file), "?", "BEGIN IMMEDIATE"), database
    database = request.getfixturevalue("on_postgresql")
    driver = {"psycopg": psycopg, "psycopg2": psycopg2}[request.param]
    return Raw(lambda: driver.connect(database.libpq_url)), database


def played_often(code: Callable[[], None], database: BarrierDatabase, rule: str, hold: int | None) -> RaceReport:
    seen = []
    for _ in range(REPEATS):
        point = None if hold is None else step(hold)
        report = race(a=code, b=code, invariant=rule, db=database, hold=point).play()
        # What SQLite does not say is inferred from time, and so a line of it comes or does not.
        said = [[line for line in one.played.lines if "(inferred)" not in line.what] for one in report.judged]
        seen.append([(one.schedule.name, one.verdict, lines) for one, lines in zip(report.judged, said, strict=True)])
    assert all(one == seen[0] for one in seen)
    return report


@pytest.mark.parametrize(
    ("bug", "rule", "held"),
    [("duplicate", schema.ONE_SETTLED, one) for one in (1, 2)]
    + [("lost_update", schema.BALANCE, one) for one in (1, 2, 3)],
)
def test_a_bug_is_found_at_every_boundary_each_time_by_the_same_trace(
    bug: str, rule: str, held: int, place: tuple[Raw, BarrierDatabase]
) -> None:
    raw, database = place
    report = played_often(getattr(raw, bug), database, rule, held)
    assert report.verdict is Verdict.VIOLATED, report.show()


@pytest.mark.parametrize(
    ("fix", "rule"),
    [
        ("duplicate_behind_a_lock", schema.ONE_SETTLED),
        ("update_behind_a_lock", schema.BALANCE),
        ("atomic_update", schema.BALANCE),
    ],
)
def test_a_right_fix_holds_at_every_boundary_each_time_by_the_same_trace(
    fix: str, rule: str, place: tuple[Raw, BarrierDatabase]
) -> None:
    raw, database = place
    report = played_often(getattr(raw, fix), database, rule, None)
    assert report.verdict is Verdict.HELD, report.show()
    assert {one.schedule.name for one in report.judged} >= {"AB", "BA", "A1", "A2", "B1", "B2"}


def test_a_lone_statement_is_held_before_the_commit_that_the_driver_leaves_to_the_server(
    place: tuple[Raw, BarrierDatabase],
) -> None:
    """Without that, ``INSERT … WHERE NOT EXISTS`` in autocommit would hold in every schedule, and be wrong."""
    raw, database = place

    def alone() -> Any:
        connection = raw.open()
        if isinstance(connection, sqlite3.Connection):
            connection.isolation_level = None
        else:
            connection.autocommit = True
        return connection

    report = played_often(replace(raw, open=alone).lone_duplicate, database, schema.ONE_SETTLED, None)
    steps = [line.what for line in report.judged[0].played.lines if line.party == "A"]
    assert steps == ["START", "INSERT refunds", "COMMIT"]
    # SQLite has one writer at a time: there the second one waits, and sees the first one's row.
    assert report.verdict is (Verdict.HELD if database.dialect == "sqlite" else Verdict.VIOLATED), report.show()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_lone_statement_of_an_engine_in_autocommit_is_held_before_its_commit(
    driver: str, on_postgresql: BarrierDatabase
) -> None:
    url = on_postgresql.sqlalchemy_url.set(drivername=f"postgresql+{driver}")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")

    def both() -> None:
        duplicate.wrong_not_exists(engine)

    def failing() -> None:
        with engine.connect() as connection, pytest.raises(DBAPIError):
            connection.execute(text("INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('none', 1, 'failed')"))
        duplicate.wrong_not_exists(engine)

    try:
        for code in (both, failing):
            report = race(a=code, b=code, invariant=schema.ONE_SETTLED, db=on_postgresql).play()
            assert report.verdict is Verdict.VIOLATED, report.show()
        steps = [line.what for line in report.judged[0].played.lines if line.party == "A"]
        assert steps[0:2] == ["START", "INSERT refunds"]
        assert steps[3:] == ["ROLLBACK", "INSERT refunds", "COMMIT"]
        assert "(23503)" in steps[2]
    finally:
        engine.dispose()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_a_lone_statement_of_coroutines_in_autocommit_is_held_before_its_commit(
    driver: str, on_postgresql: BarrierDatabase
) -> None:
    async def run() -> None:
        engine = create_async_engine(on_postgresql.url_for(driver), isolation_level="AUTOCOMMIT", poolclass=NullPool)
        async with engine.connect() as connection:
            await connection.run_sync(lambda sync: sync.execute(text(NOT_EXISTS)))

    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=on_postgresql).play()
    assert report.verdict is Verdict.VIOLATED, report.show()
    steps = [line.what for line in report.judged[0].played.lines if line.party == "A"]
    assert steps[:3] == ["START", "INSERT refunds", "COMMIT"]
