"""An effect that lands after its caller gave up and the work was done again, on a real server (semantics 9.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine, text

from holdtrue.errors import Refused
from holdtrue.testing import (
    BarrierDatabase,
    BarrierFailed,
    FrozenIncident,
    Verdict,
    checkpoint,
    late_effect,
    race,
    replay,
)
from racy import duplicate, late, schema
from racy.promoted import TWO_REFUNDS
from servers.postgres import PostgresPrimary

PLAYED = """
    A  START
    A  SELECT refunds
    A  COMMIT
    A  its caller gives up: TimeoutError
    B  START
    B  SELECT refunds
    B  COMMIT
    B  checkpoint ask_provider
    B  INSERT refunds
    B  COMMIT
    A  its effect lands now
    A  checkpoint ask_provider
    A  INSERT refunds
    A  COMMIT
"""


@pytest.fixture(scope="module")
def plain(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", schema.build, postgres_primary.url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def unique(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", schema.build_unique, postgres_primary.url)
    yield made
    made.close()


def two(code: Callable[[Engine], None], database: BarrierDatabase) -> dict[str, Callable[[], None]]:
    return {"a": lambda: code(database.engine), "b": lambda: code(database.engine)}


def test_an_effect_that_lands_late_breaks_the_rule_and_the_schedule_says_how(plain: BarrierDatabase) -> None:
    made = race(**two(late.buggy, plain), invariant=schema.ONE_SETTLED, db=plain, hold=late_effect("ask_provider"))
    with pytest.raises(BarrierFailed) as found:
        made.assert_holds()
    assert found.value.verdict is Verdict.VIOLATED
    shown = str(found.value)
    assert "schedule late: A is held at checkpoint ask_provider, its caller gives up, B whole, then A's effect" in shown
    assert PLAYED in shown
    assert shown.endswith("--holdtrue-schedule late")


def test_what_refuses_the_second_one_holds_and_the_schedule_can_be_played_alone(unique: BarrierDatabase) -> None:
    try:
        replay.ask_for("late")
        report = race(
            **two(late.right, unique), invariant=schema.ONE_SETTLED, db=unique, hold=late_effect("ask_provider")
        ).assert_holds()
    finally:
        replay.ask_for("")
    assert [one.schedule.name for one in report.judged] == ["late"]
    assert "the database refused one party" in report.reason


def test_what_the_caller_does_about_its_timeout_is_played_before_the_second_call(plain: BarrierDatabase) -> None:
    plan = late_effect("ask_provider", on_timeout=lambda: late.mark_failed(plain.engine))
    report = race(**two(late.buggy, plain), invariant=schema.ONE_SETTLED, db=plain, hold=plan).play()
    assert report.verdict is Verdict.VIOLATED
    lines = [f"{line.party}  {line.what}" for line in report.judged[-1].played.lines]
    told, failed = lines.index("A  its caller gives up: TimeoutError"), lines.index("A's caller  INSERT refunds")
    assert told < failed < lines.index("B  START") < lines.index("A  its effect lands now")


def test_a_caller_that_hears_of_the_timeout_itself_goes_on_before_the_effect_lands(plain: BarrierDatabase) -> None:
    """It tries again, by itself, and then the first attempt lands after all: no second party is needed for that."""
    plan = late_effect("ask_provider", effect=lambda: late.provider(plain.engine))
    report = race(**two(late.ask_and_retry, plain), invariant=schema.ONE_SETTLED, db=plain, hold=plan).play()
    assert report.verdict is Verdict.VIOLATED
    lines = [f"{line.party}  {line.what}" for line in report.judged[-1].played.lines]
    first, again = (place for place, one in enumerate(lines) if one == "A  checkpoint ask_provider")
    assert lines[first - 1] == "A  its caller gives up: TimeoutError"
    assert first < again < lines.index("A  INSERT refunds") < lines.index("B  START")
    assert lines[lines.index("A  its effect lands now") :] == [
        "A  its effect lands now",
        "A's effect  START",
        "A's effect  INSERT refunds",
        "A's effect  COMMIT",
    ]


def test_a_coroutine_hears_of_the_timeout_where_it_awaits_its_checkpoint(plain: BarrierDatabase) -> None:
    heard: list[str] = []

    async def call() -> None:
        try:
            await checkpoint("ask_provider")
        except TimeoutError as error:
            heard.append(str(error))
        async with plain.async_engine.begin() as connection:
            await connection.execute(text(duplicate.INSERT), duplicate.DISPUTE)

    plan = late_effect("ask_provider", effect=lambda: late.provider(plain.engine))
    report = race(a=call, b=call, invariant="SELECT 1 WHERE false", db=plain, hold=plan).assert_holds()
    assert heard == ["ask_provider took too long"]
    assert [one.schedule.name for one in report.judged] == ["AB", "BA", "late"]


def test_only_one_of_the_two_ways_to_be_late_can_be_asked_for() -> None:
    with pytest.raises(Refused, match="not both"):
        late_effect("ask_provider", on_timeout=print, effect=print)


def test_code_without_that_checkpoint_was_not_tested(plain: BarrierDatabase) -> None:
    plan = late_effect("ask_provider")
    report = race(**two(duplicate.right_lock_parent, plain), invariant=schema.ONE_SETTLED, db=plain, hold=plan).play()
    assert report.verdict is Verdict.NOT_REACHED
    assert report.reason == "A never came to stand at checkpoint ask_provider, so no effect was late"


def test_an_effect_that_nobody_waited_for_does_not_land(plain: BarrierDatabase) -> None:
    """Else the rule would be broken by what the code never did."""
    for plan in (
        late_effect("ask_provider", effect=lambda: late.provider(plain.engine)),
        late_effect("ask_provider", on_timeout=lambda: late.provider(plain.engine)),
    ):
        report = race(
            **two(duplicate.right_lock_parent, plain), invariant=schema.ONE_SETTLED, db=plain, hold=plan
        ).play()
        assert report.verdict is Verdict.NOT_REACHED


def test_an_incident_plays_it_besides_its_sweep(plain: BarrierDatabase, unique: BarrierDatabase) -> None:
    def right(db: BarrierDatabase) -> None:
        late.right(db.engine)

    def by_lock(db: BarrierDatabase) -> None:
        duplicate.right_lock_parent(db.engine)

    incident = FrozenIncident(replace(TWO_REFUNDS, id="one_8"))
    report = incident.check(right, right, unique, also=late_effect("ask_provider"))
    assert [one.schedule.name for one in report.judged][-2:] == ["B4", "late"]
    with pytest.raises(BarrierFailed, match="never came to stand at checkpoint") as found:
        incident.check(by_lock, by_lock, plain, also=late_effect("ask_provider"))
    assert found.value.verdict is Verdict.NOT_REACHED
