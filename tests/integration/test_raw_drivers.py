"""Code without SQLAlchemy is held by its driver: bugs are found at every boundary, right fixes hold, each time alike."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import psycopg
import psycopg2
import pytest

from holdtrue.testing import BarrierDatabase, RaceReport, Verdict, race, step
from racy import schema
from racy.raw import Raw
from servers.postgres import PostgresPrimary

REPEATS = 2
DRIVERS = ("psycopg", "psycopg2", "sqlite3")


@pytest.fixture(scope="module")
def on_postgresql(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", schema.build, postgres_primary.url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def on_sqlite() -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("sqlite", schema.build, lambda: "")
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
