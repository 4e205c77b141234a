"""Every right fix holds and every wrong one is found, at every boundary, on a real server, each time alike (semantics 9.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holding import hold_at_every_boundary, setting_back
from holdtrue.testing import BarrierDatabase, Limits, RaceReport, Verdict, race
from racy import schema, table
from servers.postgres import PostgresPrimary

REPEATS = 50
Stand = tuple[BarrierDatabase, Callable[[], None]]


@pytest.fixture(scope="module")
def plain(postgres_primary: PostgresPrimary) -> Iterator[Stand]:
    database = BarrierDatabase("postgresql", schema.build, postgres_primary.url)
    with setting_back(database) as set_back:
        yield database, set_back
    database.close()


@pytest.fixture(scope="module")
def with_unique_index(postgres_primary: PostgresPrimary) -> Iterator[Stand]:
    database = BarrierDatabase("postgresql", schema.build_unique, postgres_primary.url)
    with setting_back(database) as set_back:
        yield database, set_back
    database.close()


@pytest.fixture
def stand(request: pytest.FixtureRequest, plain: Stand, with_unique_index: Stand) -> Stand:
    """The database that the row of this test wants."""
    return with_unique_index if request.getfixturevalue("row").unique else plain


def whole_race(row: table.Row, stand: Stand, limits: Limits | None = None) -> RaceReport:
    database, set_back = stand

    def run() -> None:
        row.code(database.engine)

    return race(a=run, b=run, invariant=row.rule, db=database, reset=set_back, limits=limits).play()


@pytest.mark.parametrize("role", ["A", "B"])
@pytest.mark.parametrize("row", [*table.BUGS, *table.RIGHT, *table.WRONG], ids=str)
def test_each_boundary_breaks_the_rule_always_or_never_by_one_trace(row: table.Row, role: str, stand: Stand) -> None:
    cells = hold_at_every_boundary(row, *stand, role=role, repeats=REPEATS, limits=None)
    assert [cell.broken for cell in cells] == [REPEATS * broken for broken in row.broken]
    assert {verdict for cell in cells for verdict in cell.verdicts} <= {Verdict.VIOLATED, Verdict.HELD}
    assert [len(cell.traces) for cell in cells] == [1] * len(cells)


@pytest.mark.parametrize("row", table.RIGHT, ids=str)
def test_the_whole_race_of_a_right_fix_holds(row: table.Row, stand: Stand) -> None:
    report = whole_race(row, stand)
    assert report.verdict is Verdict.HELD, report.show()
    assert {one.schedule.name for one in report.judged} >= {"AB", "BA", "A1", "B1"}


@pytest.mark.parametrize("row", [*table.BUGS, *table.WRONG], ids=str)
def test_the_whole_race_of_a_bug_or_a_wrong_fix_is_violated(row: table.Row, stand: Stand) -> None:
    assert whole_race(row, stand).verdict is Verdict.VIOLATED


@pytest.mark.parametrize("role", ["A", "B"])
@pytest.mark.parametrize("row", [table.STALLED], ids=str)
def test_a_lock_inside_one_process_is_stalled_at_each_boundary_always(row: table.Row, role: str, stand: Stand) -> None:
    """It protects nothing with two workers: inconclusive, so it fails."""
    cells = hold_at_every_boundary(row, *stand, role=role, repeats=REPEATS, limits=Limits(stall=0.015))
    assert [cell.verdicts for cell in cells] == [[Verdict.STALLED] * REPEATS for _ in row.broken]


@pytest.mark.parametrize("row", [table.STALLED], ids=str)
def test_what_is_stalled_says_where_it_waits(row: table.Row, stand: Stand) -> None:
    report = whole_race(row, stand, Limits(stall=0.05))
    assert report.verdict is Verdict.STALLED
    assert "duplicate.py" in report.reason
    assert "a lock inside one process does not protect two" in report.reason
