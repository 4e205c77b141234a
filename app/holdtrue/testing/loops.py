"""the event loop on which parties of coroutines run: the caller's own, or one of ours in a thread"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from holdtrue.errors import Refused
from holdtrue.testing import whereabouts
from holdtrue.testing.parties import Party, current_party

T = TypeVar("T")
_LINGERS = 0.05
_ENDS = 5.0


class RaceLoop:
    """All parties of coroutines of a race share one loop, as they do in one process of a service.

    Without ``running`` a loop of our own is made in a thread when the first party turns out to need one. :meth:`close` cancels
    its tasks and closes the connections that were made on it.
    """

    def __init__(self, running: asyncio.AbstractEventLoop | None = None) -> None:
        """``running`` is the caller's loop; call this on it."""
        self._loop = running
        self._ident = threading.get_ident() if running is not None else 0
        self._own: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._up = threading.Event()
        self._making = threading.Lock()
        self._owed: dict[int, Callable[[], Awaitable[object]]] = {}
        self._felt: float | None = None
        self._answered = 0.0
        self._inside = running is None and _is_on_a_loop()
        self._before = running.get_task_factory() if running is not None else None
        self.refused: Refused | None = None
        self.stopped = False
        if running is not None:
            running.set_task_factory(self._make_task)

    # -- called from the parties' threads and tasks -----------------------------------------------------------------

    def finish(self, party: Party, work: Awaitable[object]) -> None:
        """Run the coroutine that a party turned out to be, and the tasks it starts, to their ends; waits in this thread.

        Raises:
            Refused: the caller runs a loop itself, on which the coroutine may depend.
        """
        self._check_may_run(work)
        error = self.run(self._whole(party, work))
        if error is not None:
            raise error

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, from another thread."""
        return asyncio.run_coroutine_threadsafe(work, self._get()).result()

    def settle(self, done: object) -> None:
        """Await what a function of the user returned, if it is a coroutine's."""
        if inspect.isawaitable(done):
            self._check_may_run(done)
            self.run(_await(done))

    def is_here(self) -> bool:
        """Whether this thread is the loop's."""
        return self._ident == threading.get_ident()

    def owe(self, key: int, close: Callable[[], Awaitable[object]]) -> None:
        """Close something at the end that was made on this loop; nothing where the loop is the caller's."""
        if self._own is not None and self.is_here():
            self._owed.setdefault(key, close)

    def _check_may_run(self, work: Awaitable[object]) -> None:
        if self._inside and self._loop is None:
            if isinstance(work, Coroutine):
                work.close()
            self.refused = Refused(
                "a race of coroutines was started inside a running event loop",
                remedy="await it there: await arace(…).assert_holds(), await incident.acheck(…)",
            )
            raise self.refused

    async def _whole(self, party: Party, work: Awaitable[object]) -> Exception | None:
        """Its error, if it has one: a future makes a new one of a ``TimeoutError``, which no longer says where it was."""
        party.task = asyncio.current_task()
        try:
            await work
        except Exception as error:  # noqa: BLE001  raised in the party's own thread
            return error
        else:
            return None
        finally:
            while not party.abandoned and await self._lingers(party):
                pass

    async def _lingers(self, party: Party) -> bool:
        """Wait for tasks that the party started and did not await; for those that send statements as long as it takes."""
        alive = [task for task in party.tasks if task is not party.task]
        spoke = [task for task in alive if task in party.spoke]
        if spoke:
            await asyncio.wait(spoke)
            return True
        if not alive:
            return False
        done, _ = await asyncio.wait(alive, timeout=_LINGERS)
        return bool(done) or any(task in party.spoke for task in alive)

    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:  # noqa: ANN401  a task factory's
        make = self._before
        task = asyncio.Task(work, loop=loop, **options) if make is None else make(loop, work, **options)
        party = current_party.get()
        if party is not None and isinstance(task, asyncio.Task):
            party.keep(task, _current_task())
        return task

    # -- called from the controller's thread --------------------------------------------------------------------------

    def cancel(self, party: Party) -> None:
        """Cancel what a party does on the loop."""
        loop = self._loop
        if loop is None or (party.task is None and not party.tasks):
            return

        def cancel() -> None:
            for task in [*party.tasks, *([party.task] if party.task is not None else [])]:
                task.cancel()

        with suppress(RuntimeError):  # it was closed
            loop.call_soon_threadsafe(cancel)

    def feel(self) -> None:
        """Knock at the loop, unless an answer is still owed."""
        if self._loop is None or self._felt is not None:
            return
        self._felt = time.monotonic()
        with suppress(RuntimeError):  # it was closed
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._answered, self._felt = self._felt or 0.0, None

    def has_turned_since(self, moment: float) -> bool:
        """Whether the loop has answered a knock of after this moment, so that nobody on it waits for its turn since then."""
        return self._loop is None or self._answered > moment

    def is_blocked(self, seconds: float) -> bool:
        """Whether the loop has not answered for so long."""
        felt = self._felt
        return felt is not None and time.monotonic() - felt > seconds

    def say_blocks(self, name: str) -> str:
        """That a party keeps the loop from running, where, and what helps."""
        where = whereabouts.in_their_code(whereabouts.of_thread(self._ident))
        return (
            f"{name} blocks the event loop with synchronous code{f', at {where}' if where else ''}, so no other party on it "
            "can move: await an asynchronous call instead, or asyncio.to_thread(…) (if production does block its loop there, "
            "race lambda: asyncio.run(…), which gives each party a loop of its own)"
        )

    def close(self) -> None:
        """Leave the caller's loop as it was; end our own with all that runs on it."""
        if self._own is None:
            if self._loop is not None and self._loop.get_task_factory() == self._make_task:
                self._loop.set_task_factory(self._before)
            return
        stop, loop = self._stop, self._loop
        if stop is not None and loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)
        self._own.join(_ENDS)
        self._own, self._loop, self._ident = None, None, 0

    def _get(self) -> asyncio.AbstractEventLoop:
        with self._making:
            if self._loop is None:
                self._up.clear()
                self._own = threading.Thread(target=self._live, name="event loop of a race", daemon=True)
                self._own.start()
                self._up.wait()
            assert self._loop is not None  # noqa: S101  set before the thread says that it is up
            return self._loop

    def _live(self) -> None:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            loop.set_task_factory(self._make_task)
            runner.run(self._stay(loop))

    async def _stay(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stop, self._loop, self._ident = asyncio.Event(), loop, threading.get_ident()
        self._up.set()
        await self._stop.wait()
        for close in self._owed.values():
            with suppress(Exception):  # it was closed already, or cannot be: the verdict does not depend on it
                await asyncio.wait_for(close(), _ENDS / 2)
        self._owed.clear()


async def beside_this_loop(play: Callable[[RaceLoop], T]) -> T:
    """Run a controller in a thread while its parties run on the loop that runs here.

    Whoever cancels this waits until the schedule was given up: no task of it and no connection is left behind.
    """
    loop = RaceLoop(asyncio.get_running_loop())
    playing = asyncio.ensure_future(asyncio.to_thread(play, loop))
    try:
        return await asyncio.shield(playing)
    except asyncio.CancelledError:
        loop.stopped = True
        await asyncio.wait([playing])
        raise
    finally:
        loop.close()


def _current_task() -> object:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


async def _await(done: Awaitable[object]) -> object:
    return await done


def of_another_loop(errors: Iterable[BaseException]) -> str:
    """The remedy, where a party failed because its connections belong to another loop; else empty."""
    for error in errors:
        cause: BaseException | None = error
        while cause is not None:
            if any(part in str(cause) for part in ("attached to a different loop", "Event loop is closed")):
                return (
                    " (its connections were made on another event loop: use db.async_engine or poolclass=NullPool, "
                    "make the pool inside the party, or await arace(…) on the loop that made it)"
                )
            cause = cause.__cause__ or cause.__context__
    return ""


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
