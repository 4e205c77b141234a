"""Of several tasks of one party one moves at a time, in an order that the network does not decide."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from holdtrue.testing import whereabouts
from holdtrue.testing.gates import Stand, TaskGate
from holdtrue.testing.loops import of_another_loop
from holdtrue.testing.parties import Party, State
from holdtrue.testing.statements import classify
from holdtrue.testing.steps import StepScheduler

READ, WRITE, OTHER = (classify(text) for text in ("SELECT 1 FROM a", "INSERT INTO b VALUES (1)", "SELECT 1 FROM c"))


class Strands:
    """A party with two tasks, the elder and the younger, that both live until the end."""

    def __init__(self) -> None:
        self.party = Party("A", lambda: None, State.MOVING)
        self.elder, self.younger = self._task(), self._task()

    def _task(self) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(asyncio.Event().wait())  # type: ignore[arg-type]
        self.party.keep(task)
        return task

    def come(self, task: asyncio.Task[Any], statement: Any) -> Stand:
        return self.party.come(Stand(statement, TaskGate(), task))

    def move(self) -> None:
        """What the controller does with the party that is chosen."""
        stand = self.party.waiting.popleft()
        self.party.state, self.party.strand, self.party.in_flight = State.MOVING, stand.strand, stand.statement


def on_a_loop(test: Callable[[Strands], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def whole() -> None:
            strands = Strands()
            await test(strands)
            strands.elder.cancel()
            strands.younger.cancel()

        asyncio.run(whole())

    run.__name__ = test.__name__
    return run


@on_a_loop
async def test_the_elder_moves_first_though_the_younger_came_first(strands: Strands) -> None:
    strands.come(strands.younger, WRITE)
    assert strands.party.state is State.MOVING
    strands.come(strands.elder, READ)
    assert (strands.party.state, strands.party.at) == (State.READY, READ)


@on_a_loop
async def test_a_task_goes_on_until_it_is_over_before_the_next_one_moves(strands: Strands) -> None:
    strands.come(strands.elder, READ)
    strands.come(strands.younger, WRITE)
    strands.move()
    strands.party.over()
    assert strands.party.state is State.MOVING  # the elder may still come again
    strands.come(strands.elder, OTHER)
    assert (strands.party.state, strands.party.at) == (State.READY, OTHER)
    strands.move()
    strands.elder.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    strands.party.consider()
    assert (strands.party.state, strands.party.at) == (State.READY, WRITE)


@on_a_loop
async def test_one_that_does_not_come_is_awaited_no_longer_once_patience_is_over(strands: Strands) -> None:
    strands.come(strands.younger, WRITE)
    strands.party.consider(patience_is_over=True)
    assert (strands.party.state, strands.party.at) == (State.READY, WRITE)
    strands.move()
    strands.party.over()
    strands.come(strands.younger, READ)
    assert strands.party.state is State.READY  # nor the next time


@on_a_loop
async def test_whoever_made_a_task_waits_for_it(strands: Strands) -> None:
    strands.party.keep(made := asyncio.create_task(asyncio.sleep(0)), strands.elder)
    strands.party.excused.add(strands.younger)
    strands.come(made, READ)
    assert strands.party.state is State.READY


@on_a_loop
async def test_a_statement_that_is_cancelled_stands_there_no_longer(strands: Strands) -> None:
    strands.party.excused.add(strands.younger)
    stand = strands.come(strands.elder, READ)
    assert strands.party.state is State.READY
    strands.party.leave(stand)
    assert (strands.party.state, list(strands.party.waiting)) == (State.MOVING, [])


def test_what_one_thread_of_a_party_ends_says_nothing_of_what_another_one_has_in_flight() -> None:
    scheduler = StepScheduler(None)
    party = Party("A", lambda: None, State.MOVING, in_flight=READ, strand=threading.current_thread())
    other = threading.Thread(target=scheduler.rolled_back, args=(party,))
    other.start()
    other.join()
    assert party.in_flight is READ
    scheduler.rolled_back(party)
    assert party.in_flight is None


@asynccontextmanager
async def unit_of_work(event: asyncio.Event) -> Any:
    await event.wait()
    yield


async def waits_here(event: asyncio.Event) -> None:
    async with unit_of_work(event):
        pass


def test_where_a_task_waits_is_found_through_a_context_manager_too() -> None:
    async def test() -> tuple[str, list[str]]:
        task = asyncio.create_task(waits_here(asyncio.Event()))
        await asyncio.sleep(0)
        frames = whereabouts.of_task(task)
        names = [frame.f_code.co_name for frame in frames]
        theirs = whereabouts.in_their_code(frames)
        task.cancel()
        return theirs, names

    theirs, names = asyncio.run(test())
    assert theirs.endswith("in unit_of_work")
    assert names.index("unit_of_work") < names.index("waits_here")


@pytest.mark.parametrize(
    ("files", "pool", "driver"),
    [
        (["asyncio/queues.py", "site-packages/sqlalchemy/util/queue.py"], True, False),
        (["asyncio/queues.py", "site-packages/asyncpg/pool.py"], True, False),
        (["threading.py", "site-packages/psycopg_pool/pool.py"], True, False),
        (["asyncio/locks.py", "site-packages/psycopg_pool/pool_async.py"], True, False),
        (["site-packages/asyncpg/connect_utils.py", "site-packages/sqlalchemy/pool/impl.py"], False, True),
        (["app/refunds.py"], False, False),
    ],
)
def test_who_waits_in_a_pool_is_told_from_who_is_at_work_in_a_driver(
    files: list[str], pool: bool, driver: bool
) -> None:
    frames: Any = [SimpleNamespace(f_code=SimpleNamespace(co_filename=f"/usr/lib/{name}")) for name in files]
    assert (whereabouts.in_a_pool(frames), whereabouts.in_a_driver(frames)) == (pool, driver)


def test_a_connection_of_another_loop_is_known_by_what_is_behind_the_error() -> None:
    outer = ValueError("could not")
    outer.__cause__ = RuntimeError("got Future <Future pending> attached to a different loop")
    assert "made on another event loop" in of_another_loop([KeyError("x"), outer])
    assert of_another_loop([KeyError("x")]) == ""
