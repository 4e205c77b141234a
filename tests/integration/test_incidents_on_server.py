"""Incidents whose runs are processes of their own, with no hook of ours in them, held by PostgreSQL itself (semantics 9.5)."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from holdtrue.errors import Refused
from holdtrue.testing import BarrierDatabase, BarrierFailed, FrozenIncident, RaceReport, Verdict, late_effect
from racy import schema
from racy.promoted import TWO_REFUNDS
from racy.worker import command

TESTS = Path(__file__).parents[1]
INCIDENT = FrozenIncident(TWO_REFUNDS)
Run = Callable[[BarrierDatabase], object]


def process(code: str) -> Run:
    def run(db: BarrierDatabase) -> None:
        subprocess.run(command(db.libpq_url, code), cwd=TESTS, check=True, timeout=30)

    return run


def sends(sql: str) -> Run:
    def run(db: BarrierDatabase) -> None:
        with psycopg.connect(db.libpq_url) as connection:
            connection.execute(sql.encode())

    return run


def test_a_bug_between_processes_is_found_by_the_server(database: BarrierDatabase) -> None:
    with pytest.raises(BarrierFailed) as found:
        INCIDENT.check(process("duplicate"), process("duplicate"), database, hold="server")
    assert found.value.verdict is Verdict.VIOLATED
    assert "A is held by the server before INSERT refunds" in str(found.value)


def test_a_right_fix_between_processes_holds_also_where_the_test_awaits_it(database: BarrierDatabase) -> None:
    run = process("duplicate_behind_a_lock")

    async def awaited() -> RaceReport:
        return await INCIDENT.acheck(run, run, database, hold="server")

    report = asyncio.run(awaited())
    assert report.verdict is Verdict.HELD
    assert "one party waited for the other in the database" in report.reason
    assert database.control.ask("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal") == [(0,)]


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (lambda _db: None, "run_a wrote nothing in this database, so the server could not hold it"),
        (sends("SELECT 1"), "run_a wrote nothing in this database"),
        (sends("UPDATE refunds SET state = 'settled'"), "run_a alone changed nothing in accounts, disputes, refunds"),
        (process("no_such_code"), None),
    ],
    ids=["nothing", "reads", "no_row", "fails"],
)
def test_a_run_that_does_nothing_alone_is_no_pass(run: Run, says: str | None, database: BarrierDatabase) -> None:
    with pytest.raises(BarrierFailed) as found:
        INCIDENT.check(run, run, database, hold="server")
    assert found.value.verdict in (Verdict.NOT_REACHED, Verdict.BOTH_FAILED)
    if says is not None:
        assert says in str(found.value)


def test_another_engine_and_another_plan_beside_it_are_refused(database: BarrierDatabase) -> None:
    with pytest.raises(Refused, match="plays no other schedules"):
        INCIDENT.check(print, print, database, hold="server", also=late_effect("charge"))
    on_sqlite = BarrierDatabase("sqlite", schema.build, lambda: "")
    incident = FrozenIncident(replace(TWO_REFUNDS, engine="sqlite"))
    try:
        with pytest.raises(Refused, match='hold="server" is for PostgreSQL'):
            incident.check(print, print, on_sqlite, hold="server")
    finally:
        on_sqlite.close()
