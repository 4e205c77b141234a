"""Every right fix holds and every wrong one is found, on a real server, each time alike (semantics 9.4, 9.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine

from holdtrue.testing import BarrierDatabase, Race, RaceReport, Verdict, race
from racy import duplicate, lost_update, schema
from servers.postgres import PostgresPrimary

REPEATS = 5
Code = Callable[[Engine], None]


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


def two_of(code: Code, database: BarrierDatabase, rule: str) -> Race:
    return race(a=lambda: code(database.engine), b=lambda: code(database.engine), invariant=rule, db=database)


def traces(report: RaceReport) -> list[object]:
    return [(one.schedule.name, one.verdict, one.played.lines) for one in report.judged]


@pytest.mark.parametrize(
    ("code", "rule"),
    [(code, schema.ONE_SETTLED) for code in duplicate.RIGHT] + [(code, schema.BALANCE) for code in lost_update.RIGHT],
    ids=lambda one: f"{one.__module__}.{one.__name__}" if callable(one) else "",
)
def test_a_right_fix_holds_at_every_boundary_each_time_by_the_same_trace(
    code: Code, rule: str, plain: BarrierDatabase, with_unique_index: BarrierDatabase
) -> None:
    database = with_unique_index if code in duplicate.NEEDS_UNIQUE else plain
    seen = []
    for _ in range(REPEATS):
        report = two_of(code, database, rule).assert_holds()
        seen.append(traces(report))
    assert report.verdict is Verdict.HELD
    assert {one.schedule.name for one in report.judged} >= {"AB", "BA", "A1", "B1"}
    assert all(one == seen[0] for one in seen)


@pytest.mark.parametrize(
    ("code", "rule"),
    [(code, schema.ONE_SETTLED) for code in duplicate.WRONG] + [(code, schema.BALANCE) for code in lost_update.WRONG],
    ids=lambda one: f"{one.__module__}.{one.__name__}" if callable(one) else "",
)
def test_a_bug_or_a_wrong_fix_is_found_each_time_by_the_same_trace(
    code: Code, rule: str, plain: BarrierDatabase
) -> None:
    seen = []
    for _ in range(REPEATS):
        report = two_of(code, plain, rule).play()
        assert report.verdict is Verdict.VIOLATED
        seen.append(traces(report))
    assert all(one == seen[0] for one in seen)


def test_a_lock_inside_one_process_is_stalled_and_says_where_it_waits(plain: BarrierDatabase) -> None:
    """It protects nothing with two workers: inconclusive, so it fails."""
    report = two_of(duplicate.wrong_thread_lock, plain, schema.ONE_SETTLED).play()
    assert report.verdict is Verdict.STALLED
    assert "duplicate.py" in report.reason
    assert "a lock inside one process does not protect two" in report.reason
