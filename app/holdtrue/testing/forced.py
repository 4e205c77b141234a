"""functions of a test led through one order of their steps, without an invariant: the test asserts what it likes afterwards"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdtrue.errors import Refused
from holdtrue.testing import promises
from holdtrue.testing.adapters import listening
from holdtrue.testing.barrier_databases import open_control
from holdtrue.testing.blocking import Blocking
from holdtrue.testing.controls import Control
from holdtrue.testing.hooks import Hooks
from holdtrue.testing.judgements import Judged, how_held
from holdtrue.testing.loops import RaceLoop, beside_this_loop
from holdtrue.testing.orders import Entry, InOrder, parse
from holdtrue.testing.parties import Party
from holdtrue.testing.plans import Schedule
from holdtrue.testing.played import Limits, Played, refuse_left_open
from holdtrue.testing.steps import StepScheduler
from holdtrue.testing.verdicts import BarrierFailed, Verdict

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

Work = Callable[[], object]


@dataclass
class LearnedBlocking:
    """Asks the database that the parties turn out to use, once one of them has used it."""

    seen: Sequence[URL]
    inferred: bool = False
    _control: Control | None = field(default=None, init=False)
    _asks: Blocking | None = field(default=None, init=False)

    def waits(self, parties: Sequence[Party]) -> Mapping[str, str]:
        """See :class:`holdtrue.testing.blocking.Blocking`."""
        asks = self._learn()
        if asks is None:
            return {}
        edges = asks.waits(parties)
        self.inferred = asks.inferred  # of this answer: some engines know of some locks only
        return edges

    def is_busy(self, party: Party) -> bool:
        """See :class:`holdtrue.testing.blocking.Blocking`."""
        asks = self._learn()
        return asks is not None and asks.is_busy(party)

    def cancel(self, party: Party) -> None:
        """See :class:`holdtrue.testing.blocking.Blocking`."""
        asks = self._learn()
        if asks is not None:
            asks.cancel(party)

    def end_sessions(self, party: Party) -> None:
        """See :class:`holdtrue.testing.blocking.Blocking`."""
        asks = self._learn()
        if asks is not None:
            asks.end_sessions(party)

    def has_written(self, pid: int) -> bool:
        """See :class:`holdtrue.testing.blocking.Blocking`."""
        asks = self._learn()
        return asks is not None and asks.has_written(pid)

    def has_left_open(self, party: Party) -> bool:
        """See :class:`holdtrue.testing.blocking.Blocking`."""
        asks = self._learn()
        return asks is not None and asks.has_left_open(party)

    def close(self) -> None:
        """Close what was opened."""
        if self._control is not None:
            self._control.close()

    def _learn(self) -> Blocking | None:
        if self._asks is None and self.seen:
            self._control = open_control(self.seen[0])
            self._asks = self._control.blocking()
        return self._asks


@dataclass
class ForcedOrder:
    """The order of :func:`force_order`."""

    entries: tuple[Entry, ...]
    limits: Limits
    external_lock: bool
    _used: bool = field(default=False, init=False)
    _judged: Judged | None = field(default=None, init=False)
    _asserted: bool = field(default=False, init=False)

    @property
    def forgotten(self) -> str:
        """That the order was never played, or nobody asked whether it came about."""
        if self._used or self._asserted:
            return ""
        return (
            "force_order(…) was made and never played: call .run(…)"
            if self._judged is None
            else "force_order(…) was played, and nobody asked whether the order came about: call .assert_reached()"
        )

    def __enter__(self) -> Self:
        """The order itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing: no listener outlives a run."""

    def schedules(self, names: Sequence[str]) -> tuple[Schedule, ...]:
        """One, for ``race(hold=…)`` and ``INCIDENT.check(also=…)``, whose parties are called A, B, C ….

        Raises:
            Refused: the order names a party that there is not.
        """
        self._used = True
        return (self._schedule(names),)

    def run(self, **works: Work) -> dict[str, object]:
        """Lead the parties through the order; what each of them returned, by name.

        An error of a party is raised here, with the schedule as its note.

        Raises:
            BarrierFailed: a party did not come to its end.
            Refused: the order names a party that is not among them.
        """
        return self._ran(self._play(works, None))

    async def arun(self, **works: Work) -> dict[str, object]:
        """The same in a test that is a coroutine: coroutine functions run on its own loop."""
        return self._ran(await beside_this_loop(lambda loop: self._play(works, loop)))

    def assert_reached(self) -> None:
        """Check that each step had its turn, or that the server, by a lock or a refusal, kept its party from it.

        Raises:
            BarrierFailed: the order cannot be produced by this code (``infeasible``), or nothing can be said about it.
            Refused: nothing was run.
        """
        __tracebackhide__ = True
        self._asserted = True
        if self._judged is None:
            raise Refused("no party was led through the order", remedy="call order.run(reader=…, writer=…) first")
        if self._judged.verdict is not Verdict.HELD:
            raise BarrierFailed(self._judged.verdict, f"{self._judged.reason}\n{self._judged.show()}")

    def show(self) -> str:
        """The schedule that was played, in time order; empty before."""
        return self._judged.show() if self._judged is not None else ""

    def _schedule(self, names: Sequence[str]) -> Schedule:
        known = {name.casefold(): name for name in names}
        missing = [entry.party for entry in self.entries if entry.party.casefold() not in known]
        if missing:
            raise Refused(
                f"the order names the party {missing[0]!r}, and there is none", remedy=f"name one of {', '.join(names)}"
            )
        entries = tuple(replace(entry, party=known[entry.party.casefold()]) for entry in self.entries)
        return Schedule("order", ", then ".join(map(str, entries)), InOrder(entries))

    def _play(self, works: Mapping[str, Work], loop: RaceLoop | None) -> tuple[Played, dict[str, object]]:
        schedule = self._schedule(tuple(works))
        promises.make_ready()
        results: dict[str, object] = {}
        mine = loop or RaceLoop()
        hooks = Hooks(scheduler := StepScheduler(None, self.limits, self.external_lock, mine))
        scheduler.blocking = asks = LearnedBlocking(hooks.seen)
        try:
            with listening(hooks):
                played = scheduler.play(
                    schedule.policy, {name: _keeping(results, name, work) for name, work in works.items()}
                )
        finally:
            asks.close()
            if loop is None:
                mine.close()
        if mine.refused is not None:
            raise mine.refused
        refuse_left_open(played)
        verdict = played.trouble or Verdict.HELD
        self._judged = Judged(schedule, played, verdict, how_held(played, in_series=False), played.reason)
        return played, results

    def _ran(self, done: tuple[Played, dict[str, object]]) -> dict[str, object]:
        played, results = done
        for error in played.errors.values():
            error.add_note(self.show())
            raise error
        if len(results) < len(played.steps):  # whoever takes a result that is not there would never hear why
            self.assert_reached()
        return results


def _keeping(results: dict[str, object], name: str, work: Work) -> Work:
    async def finish(done: Awaitable[object]) -> None:
        results[name] = await done

    def kept() -> object:
        done = work()
        if inspect.isawaitable(done):
            return finish(done)
        results[name] = done
        return None

    return kept


def force_order(*steps: str, limits: Limits | None = None, external_lock: bool = False) -> ForcedOrder:
    """An order of steps of several parties: ``force_order("reader: SELECT rows#0", "writer: COMMIT#0")``.

    A step is written as printed schedules show it, after the name of its party; ``#n`` is its n-th occurrence there, from 0.
    Play it with :meth:`ForcedOrder.run` or in a race, as ``hold=``.

    Raises:
        Refused: a line names no step of a party, or two lines name the same one.
    """
    if not steps:
        raise Refused(
            "there is no step in this order", remedy='write force_order("A: SELECT refunds#0", "B: COMMIT#0")'
        )
    entries = tuple(map(parse, steps))
    twice = [str(entry) for entry in entries if list(map(str, entries)).count(str(entry)) > 1]
    if twice:
        raise Refused(f"{twice[0]} stands twice in this order", remedy="say which occurrence is meant: #0, #1, …")
    made = ForcedOrder(entries, limits or Limits(), external_lock)
    promises.made.append(made)
    return made
