"""Fixes that wait by trying again, of which the server knows nothing (semantics 9.5), on a real server."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from holdtrue.testing import BarrierDatabase, Limits, RaceReport, Verdict, race
from racy import duplicate, schema

LIMITS = Limits(deadline=3.0)
PAUSE = 0.02


def refund(connection: Connection) -> None:
    if not connection.execute(text(duplicate.SETTLED), duplicate.DISPUTE).all():
        connection.execute(text(duplicate.INSERT), duplicate.DISPUTE)


def polling(database: BarrierDatabase, *, times: int) -> None:
    """Tries for a lock that all processes share; after so many times it goes on without."""
    with database.engine.connect() as connection:
        for _ in range(times):
            if connection.scalar(text("SELECT pg_try_advisory_lock(7)")):
                break
            connection.commit()
            time.sleep(PAUSE)
        refund(connection)
        connection.commit()
        connection.execute(text("SELECT pg_advisory_unlock(7)"))
        connection.commit()


def without_waiting(database: BarrierDatabase) -> None:
    while True:
        with suppress(OperationalError), database.engine.begin() as connection:
            connection.execute(text("SELECT id FROM disputes WHERE id = :d FOR UPDATE NOWAIT"), duplicate.DISPUTE)
            refund(connection)
            return
        time.sleep(PAUSE)


def play(code: Callable[[], None], database: BarrierDatabase, limits: Limits = LIMITS) -> RaceReport:
    return race(a=code, b=code, invariant=schema.ONE_SETTLED, db=database, limits=limits).play()


@pytest.mark.parametrize(
    ("code", "refused"),
    [(lambda db: polling(db, times=10_000), ""), (without_waiting, " (LockNotAvailable (55P03))")],
    ids=["try_advisory_lock", "nowait"],
)
def test_a_fix_that_tries_again_holds_and_is_shown_in_few_lines(
    database: BarrierDatabase, code: Callable[[BarrierDatabase], None], refused: str
) -> None:
    report = play(lambda: code(database), database)
    assert report.verdict is Verdict.HELD, report.show()
    assert f"one party tried again until the other went on{refused}" in report.reason
    shown = next(one for one in report.judged if one.schedule.name == "A1").show()
    assert "B  tries again; A goes on" in shown
    assert shown.count("\n") < 60


def test_one_that_gives_up_trying_and_goes_on_is_found(database: BarrierDatabase) -> None:
    report = play(lambda: polling(database, times=12), database, Limits())
    assert report.verdict is Verdict.VIOLATED, report.show()
