"""Functions led through an order of their steps, on a real server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncEngine

from holdtrue.errors import Refused
from holdtrue.testing import (
    BarrierDatabase,
    BarrierFailed,
    Limits,
    Verdict,
    at_checkpoint,
    checkpoint,
    force_order,
    race,
    replay,
)
from pytesting import run_pytest
from racy import duplicate, late, schema
from servers.postgres import PostgresPrimary

OVERLAP = ("A: SELECT refunds#0", "B: SELECT refunds#0", "B: INSERT refunds#0", "A: INSERT refunds#0")


@pytest.fixture(scope="module")
def database(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", schema.build, postgres_primary.url)
    made.control.keep_baseline()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _set_back(database: BarrierDatabase) -> Iterator[None]:
    yield
    database.control.set_back()


def settled(database: BarrierDatabase) -> int:
    with database.engine.begin() as connection:
        return len(connection.execute(text(duplicate.SETTLED), duplicate.DISPUTE).all())


def write(database: BarrierDatabase) -> str:
    with database.engine.begin() as connection:
        connection.execute(text(duplicate.INSERT), duplicate.DISPUTE)
    return "written"


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (("reader: SELECT refunds#0", "writer: COMMIT#0"), 0),
        (("writer: INSERT refunds", "reader: SELECT refunds", "writer: COMMIT"), 0),
        (("writer: COMMIT", "reader: SELECT refunds"), 1),
    ],
)
def test_a_reader_and_a_writer_come_in_the_order_that_is_asked_for(
    steps: tuple[str, ...], found: int, database: BarrierDatabase
) -> None:
    with force_order(*steps) as order:
        results = order.run(reader=lambda: settled(database), writer=lambda: write(database))
    order.assert_reached()
    assert results == {"reader": found, "writer": "written"}


def test_an_order_that_breaks_the_rule_does_so_each_time_by_one_trace(database: BarrierDatabase) -> None:
    def run() -> None:
        duplicate.buggy(database.engine)

    traces = set()
    for _ in range(10):
        report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, hold=force_order(*OVERLAP)).play()
        assert report.verdict is Verdict.VIOLATED
        traces.add(report.judged[-1].played.lines)
    assert len(traces) == 1
    assert [one.schedule.name for one in report.judged] == ["AB", "BA", "order"]
    assert "replay: pytest" in report.show()
    assert "--holdtrue-schedule order" in report.show()


def test_a_fix_that_waits_inside_passes_the_same_order(database: BarrierDatabase) -> None:
    def run() -> None:
        duplicate.right_lock_parent(database.engine)

    order = force_order(*OVERLAP)
    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, hold=order).assert_holds()
    assert "one party waited for the other in the database" in report.reason
    with force_order(*OVERLAP) as order:
        order.run(A=run, B=run)
    order.assert_reached()
    assert "B  waits for A (the server says)" in order.show()


def test_an_order_that_this_code_cannot_do_is_infeasible_with_what_was_waited_for_and_what_came(
    database: BarrierDatabase,
) -> None:
    def run() -> None:
        duplicate.wrong_not_exists(database.engine)

    with force_order("A: SELECT refunds#0", "B: COMMIT#0") as order:
        order.run(A=run, B=run)
    with pytest.raises(BarrierFailed, match="it waited for A: SELECT refunds#0, and A ended after COMMIT") as found:
        order.assert_reached()
    assert found.value.verdict is Verdict.INFEASIBLE
    assert "A  INSERT refunds" in str(found.value)


def test_the_same_in_a_race(database: BarrierDatabase) -> None:
    def add() -> None:
        write(database)

    report = race(
        a=add, b=add, invariant="SELECT 1 WHERE false", db=database, hold=force_order("b: SELECT refunds")
    ).play()
    assert report.verdict is Verdict.INFEASIBLE
    assert "it waited for B: SELECT refunds#0, and B ended after COMMIT" in report.reason


def test_a_rule_that_breaks_under_an_infeasible_order_is_broken_all_the_same(database: BarrierDatabase) -> None:
    def run() -> None:
        duplicate.wrong_not_exists(database.engine)

    steps = ("A: INSERT refunds", "B: INSERT refunds", "A: DELETE refunds")
    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, hold=force_order(*steps)).play()
    assert report.verdict is Verdict.VIOLATED


def test_a_checkpoint_can_be_ordered_and_held_at(database: BarrierDatabase) -> None:
    def run() -> None:
        late.buggy(database.engine)

    with force_order("A: checkpoint ask_provider", "B: COMMIT#1", "A: INSERT refunds") as order:
        order.run(A=run, B=run)
    order.assert_reached()
    assert settled(database) == 2
    database.control.set_back()  # what a race finds is what it comes back to
    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, hold=at_checkpoint("ask_provider")).play()
    assert report.verdict is Verdict.VIOLATED
    assert "A is held at checkpoint ask_provider, B runs whole, then A" in report.show()
    assert "A  checkpoint ask_provider" in report.show()


def test_a_party_that_only_passes_checkpoints_was_not_tested(database: BarrierDatabase) -> None:
    def outside() -> None:
        checkpoint("ask_provider")

    report = race(a=outside, b=outside, invariant=schema.ONE_SETTLED, db=database).play()
    assert report.verdict is Verdict.NOT_REACHED
    assert "party A and party B sent no statement" in report.reason


def test_coroutines_are_led_through_an_order_and_await_their_checkpoints(database: BarrierDatabase) -> None:
    async def run(engine: AsyncEngine) -> int:
        async with engine.begin() as connection:
            found = len((await connection.execute(text(duplicate.SETTLED), duplicate.DISPUTE)).all())
        await checkpoint("ask_provider")
        async with engine.begin() as connection:
            await connection.execute(text(duplicate.INSERT), duplicate.DISPUTE)
        return found

    steps = ("A: checkpoint ask_provider", "B: COMMIT#1", "A: INSERT refunds")

    async def inside() -> dict[str, object]:
        with force_order(*steps) as order:
            results = await order.arun(A=lambda: run(database.async_engine), B=lambda: run(database.async_engine))
        order.assert_reached()
        await database.async_engine.dispose()
        return results

    assert asyncio.run(inside()) == {"A": 0, "B": 0}
    assert settled(database) == 2


def test_a_checkpoint_outside_of_a_schedule_does_nothing_in_plain_code_and_in_a_coroutine() -> None:
    async def awaits() -> str:
        await checkpoint("ask_provider")
        return "passed"

    checkpoint("ask_provider")
    assert asyncio.run(awaits()) == "passed"


def test_an_error_of_a_party_is_raised_with_the_schedule_beside_it(database: BarrierDatabase) -> None:
    def fails() -> None:
        write(database)
        raise ValueError("no such thing")

    order = force_order("A: COMMIT")
    with pytest.raises(ValueError, match="no such thing") as found:
        order.run(A=fails, B=lambda: settled(database))
    assert "A  INSERT refunds" in found.value.__notes__[0]
    order.assert_reached()


def test_what_cannot_be_judged_is_no_pass(database: BarrierDatabase) -> None:
    """A lock inside one process keeps B from its step: nothing is known about two processes."""

    def run() -> None:
        duplicate.wrong_thread_lock(database.engine)

    order = force_order(*OVERLAP, limits=Limits(stall=0.05))
    order.run(A=run, B=run)
    with pytest.raises(BarrierFailed, match="waited outside the database") as found:
        order.assert_reached()
    assert found.value.verdict is Verdict.STALLED


def test_orders_that_do_not_fit_are_refused(database: BarrierDatabase) -> None:
    order = force_order("nobody: COMMIT")
    with pytest.raises(Refused, match="names the party 'nobody'"):
        order.run(A=print, B=print)
    with pytest.raises(Refused, match="no party was led"):
        order.assert_reached()
    with pytest.raises(Refused, match="stands twice"):
        force_order("A: COMMIT", "A: COMMIT#0")
    with pytest.raises(Refused, match="no step in this order"):
        force_order()


def test_one_can_ask_for_the_order_alone(database: BarrierDatabase) -> None:
    def run() -> None:
        duplicate.buggy(database.engine)

    try:
        replay.ask_for("order")
        report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, hold=force_order(*OVERLAP)).play()
    finally:
        replay.ask_for("")
    assert [one.schedule.name for one in report.judged] == ["order"]


LAZY = """
import pytest
from sqlalchemy import text

from holdtrue.testing import force_order
from racy import schema


@pytest.fixture
def barrier_schema():
    return schema.build


def test_the_database_is_first_used_inside_a_party(barrier_db):
    async def reads():
        async with barrier_db.async_engine.begin() as connection:
            return (await connection.execute(text("SELECT count(*) FROM refunds"))).scalar_one()

    async def writes():
        async with barrier_db.async_engine.begin() as connection:
            await connection.execute(text("INSERT INTO accounts VALUES ('acc_9', 0, 0)"))

    order = force_order("reader: SELECT refunds#0", "writer: COMMIT#0")
    assert order.run(reader=reads, writer=writes)["reader"] == 0
    order.assert_reached()
    assert "pg_namespace" not in order.show()
"""


def test_a_barrier_database_stands_before_the_parties_of_an_order_begin(
    tmp_path: Path, postgres_primary: PostgresPrimary
) -> None:
    """Built inside a party it would block the loop, and its statements would be steps of that party."""
    (tmp_path / "test_lazy.py").write_text(LAZY, encoding="utf-8")
    tests = str(Path(__file__).parents[1])
    done = run_pytest(folder=tmp_path, HOLDTRUE_BARRIER_URL=postgres_primary.url(), PYTHONPATH=tests)
    assert "1 passed" in done.stdout, done.stdout


def test_a_party_that_never_ends_is_told_of_before_its_result_is_missed(database: BarrierDatabase) -> None:
    freed = threading.Event()

    def hangs() -> None:
        settled(database)
        freed.wait(30)

    order = force_order("A: SELECT refunds", "B: SELECT refunds", limits=Limits(stall=0.05, deadline=0.5))
    try:
        with pytest.raises(BarrierFailed) as found:
            order.run(A=hangs, B=lambda: settled(database))
    finally:
        freed.set()
    assert found.value.verdict in (Verdict.TIMEOUT, Verdict.STALLED)


def test_an_order_that_is_forgotten_fails_its_test(tmp_path: Path) -> None:
    """It would be green without having looked."""
    (tmp_path / "test_forgotten.py").write_text(
        "from holdtrue.testing import force_order\n\n\n"
        "def test_never_played():\n    with force_order('A: COMMIT'):\n        pass\n\n\n"
        "def test_never_asked():\n    force_order('A: COMMIT').run(A=print)\n",
        encoding="utf-8",
    )
    done = run_pytest(folder=tmp_path)
    assert "2 failed" in done.stdout
    assert "never played: call .run(…)" in done.stdout
    assert "call .assert_reached()" in done.stdout


def test_a_party_that_is_nothing_but_one_call_of_a_driver_is_held_too(database: BarrierDatabase) -> None:
    with psycopg.connect(database.libpq_url, autocommit=True) as connection:
        write_one = partial(connection.execute, duplicate.INSERT.replace(":d", "'dsp_1'"))
        order = force_order("reader: SELECT refunds", "writer: INSERT refunds")
        results = order.run(writer=write_one, reader=lambda: settled(database))
    order.assert_reached()
    assert results["reader"] == 0


def test_on_sqlite_the_wait_of_a_fix_is_said_to_be_inferred(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}", connect_args={"isolation_level": None})
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    with engine.begin() as connection:
        for statement in (*schema.SQLITE.split(";"), *schema.ROWS):
            if statement.strip():
                connection.exec_driver_sql(statement)
    try:
        order = force_order(*OVERLAP)
        order.run(A=lambda: duplicate.buggy(engine), B=lambda: duplicate.buggy(engine))
    finally:
        engine.dispose()
    order.assert_reached()
    assert "B  waits for A (inferred)" in order.show()
