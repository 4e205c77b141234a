"""Races of more than two parties, on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, text

from holdtrue.testing import BarrierDatabase, Race, Verdict, race, replay
from racy import duplicate, schema
from servers.postgres import PostgresPrimary

AT_MOST_TWO = "SELECT dispute_id, count(*) FROM refunds WHERE state = 'settled' GROUP BY dispute_id HAVING count(*) > 2"
LOCK = "SELECT id FROM disputes WHERE id = :d FOR UPDATE"


@pytest.fixture(scope="module")
def database(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", schema.build, postgres_primary.url)
    yield made
    made.close()


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
    """B and C both wait; each is said to wait for the one that has to move."""

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
    waits = [f"{line.party} {line.what}" for line in first.played.lines if line.what.startswith("waits")]
    assert waits == ["B waits for A (the server says)", "C waits for A (the server says)"]


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
