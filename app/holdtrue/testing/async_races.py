"""races and incidents that are awaited, on the loop that runs already"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from holdtrue.testing.judgements import RaceReport
from holdtrue.testing.loops import beside_this_loop
from holdtrue.testing.making import race
from holdtrue.testing.races import Race

P = ParamSpec("P")


class AsyncRace:
    """A race whose coroutines run on the loop that awaits it, beside all else that runs there."""

    def __init__(self, made: Race) -> None:
        """``made`` is played once."""
        self._made = made

    async def assert_holds(self) -> RaceReport:
        """Play every schedule; see :meth:`holdtrue.testing.Race.assert_holds`.

        Raises:
            BarrierFailed: with the verdict, the schedule and the line that replays it.
            NotWired: a party is not wired yet.
            WrongDatabase: a party speaks to another database.
        """
        __tracebackhide__ = True
        return (await self.play()).require()

    async def play(self) -> RaceReport:
        """Play the schedules up to the first that does not hold."""
        return await beside_this_loop(self._made.play)


def _awaited(make: Callable[P, Race]) -> Callable[P, AsyncRace]:
    def arace(*args: P.args, **options: P.kwargs) -> AsyncRace:
        """What ``race`` is to a plain test, for a test that is a coroutine: await its ``assert_holds()``.

        Parties that are coroutine functions run on the test's own loop, plain functions in threads of their own.
        """
        return AsyncRace(make(*args, **options))

    return arace


arace = _awaited(race)
