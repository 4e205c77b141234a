"""Races of more than two parties, on a real server."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, text

from holdtrue.testing import BarrierDatabase, Race, Verdict, race, replay
from racy import duplicate, schema, table
from servers.postgres import PostgresPrimary

AT_MOST_TWO = "SELECT dispute_id, count(*) FROM refunds WHERE state = 'settled' GROUP BY dispute_id HAVING count(*) > 2"
LOCK = "SELECT id FROM disputes WHERE id = :d FOR UPDATE"


def at_most_two(engine: Engine, *, lock: bool) -> None:
    """Two may be settled; a third only where three calls overlap."""
    with engine.begin() as connection:
        if lock:
            connection.execute(text(LOCK), duplicate.DISPUTE)
        if len(connection.execute(text(duplicate.SETTLED), duplicate.DISPUTE).all()) < 2:
            connection.execute(text(duplicate.INSERT), duplicate.DISPUTE)


def three(code: Callable[[], None], database: BarrierDatabase) -> Race:
    return race(a=code, b=code, c=code, invariant=AT_MOST_TWO, db=database)


def test_what_needs_three_parties_is_not_found_with_two_and_found_with_three(database: BarrierDatabase) -> None:
    def run() -> None:
        at_most_two(database.engine, lock=False)

    two = race(a=run, b=run, invariant=AT_MOST_TWO, db=database).assert_holds()
    assert two.verdict is Verdict.HELD
    report = three(run, database).play()
    assert report.verdict is Verdict.VIOLATED
    assert [one.schedule.name for one in report.judged] == ["ABC", "ACB", "BAC", "BCA", "CAB", "CBA", "A1.BC"]
    assert "A is held after its step 1, B, then C run whole, then A" in report.show()
    assert [f"{line.party} {line.what}" for line in report.judged[-1].played.lines if line.what == "COMMIT"] == [
        "B COMMIT",
        "C COMMIT",
        "A COMMIT",
    ]


def test_a_lock_holds_three_parties_in_every_order_each_time_by_the_same_trace(database: BarrierDatabase) -> None:
    """Of two that wait for one lock the server would choose: so where B waits for A, A goes on, and C does not start."""

    def run() -> None:
        at_most_two(database.engine, lock=True)

    seen = []
    for _ in range(3):
        report = three(run, database).assert_holds()
        seen.append([(one.schedule.name, one.played.lines) for one in report.judged])
    assert all(one == seen[0] for one in seen)
    names = {one.schedule.name for one in report.judged}
    assert {"ABC", "CBA", "A1.BC", "A1.CB", "B2.AC", "C3.BA"} <= names
    first = next(one for one in report.judged if one.schedule.name == "A1.BC")
    lines = [f"{line.party} {line.what}" for line in first.played.lines]
    assert lines.index("B waits for A (the server says)") < lines.index("A COMMIT") < lines.index("C START")


@pytest.mark.parametrize("row", [table.RIGHT[1], table.RIGHT[-1]], ids=str)
def test_two_parties_that_would_wait_for_one_lock_leave_nothing_to_the_server_to_choose(
    row: table.Row, postgres_primary: PostgresPrimary
) -> None:
    """An index and a serializable transaction: each time the same trace of each schedule."""
    made = BarrierDatabase("postgresql", schema.build_unique if row.unique else schema.build, postgres_primary.url)
    try:
        reports = [
            race(**dict.fromkeys("abc", lambda: row.code(made.engine)), invariant=row.rule, db=made).assert_holds()
            for _ in range(3)
        ]
    finally:
        made.close()
    traces = {tuple((one.schedule.name, one.played.lines) for one in report.judged) for report in reports}
    assert len(traces) == 1


def test_one_schedule_of_three_parties_can_be_played_alone(database: BarrierDatabase) -> None:
    def run() -> None:
        at_most_two(database.engine, lock=False)

    try:
        replay.ask_for("B1.CA")
        report = three(run, database).play()
    finally:
        replay.ask_for("")
    assert report.verdict is Verdict.VIOLATED
    assert [one.schedule.name for one in report.judged] == ["B1.CA"]


@pytest.mark.parametrize("wrong", [{"d": print}, {"c": print, "limit": print}, {"limit": print}])
def test_an_argument_that_is_no_next_party_is_refused(
    wrong: dict[str, Callable[[], None]], database: BarrierDatabase
) -> None:
    with pytest.raises(TypeError, match="takes the parties a, b, c"):
        race(a=print, b=print, invariant=AT_MOST_TWO, db=database, **wrong)
