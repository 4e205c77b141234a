"""plays parties in series, then holds each of them at every boundary, and judges by the invariant alone"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from holdtrue.errors import Refused
from holdtrue.testing import replay
from holdtrue.testing.adapters import listening
from holdtrue.testing.adapters.reach import nothing_seen
from holdtrue.testing.barrier_databases import open_control
from holdtrue.testing.blocking import Blocking
from holdtrue.testing.controls import Control
from holdtrue.testing.failures import all_told, cause_of, told
from holdtrue.testing.hooks import Hooks
from holdtrue.testing.identities import Identities
from holdtrue.testing.judgements import (
    Judged,
    RaceReport,
    how_held,
    hows_of,
    idle_since,
    kept_out,
    says_nothing_more,
    unchanged_rows,
)
from holdtrue.testing.loops import RaceLoop, of_another_loop
from holdtrue.testing.plans import EVERY_ORDER_UP_TO, Plan, Schedule, held, in_series, orders
from holdtrue.testing.played import Limits, Played, refuse_left_open
from holdtrue.testing.policies import Point, Policy, Series
from holdtrue.testing.retrying import Known, Retrying
from holdtrue.testing.rules import Rule
from holdtrue.testing.steps import StepScheduler
from holdtrue.testing.verdicts import LeftOpen, NotWired, Verdict

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

Work = Callable[[], object]


@dataclass
class Race:
    """Parties by name, a database that can be set back, and the rule that must hold afterwards.

    Play it with :meth:`assert_holds` or :meth:`play`. The database is set back before every schedule and at the end.
    ``sweeps`` holds each party in turn, at ``hold`` or at every boundary; ``plans`` are played besides. A schedule in which no
    row is changed has tested nothing, unless the parties change some one after another; ``content`` hashes which rows count.
    Nothing has been tested either where a party fails in every schedule in series, unless it is one that ``may_fail``.
    """

    LIMITS: ClassVar[Limits] = Limits()

    works: Mapping[str, Work]
    rule: Rule
    set_back: Callable[[], object]
    control: Control | None = None
    expected: URL | None = None
    hold: Point | None = None
    plans: tuple[Plan, ...] = ()
    sweeps: bool = True
    limits: Limits = field(default_factory=Limits)
    max_steps: int = 60
    external_lock: bool = False
    content: Callable[[], str] | None = None
    may_fail: frozenset[str] = frozenset()
    owns_control: bool = False
    played: bool = field(default=False, init=False)
    _loop: RaceLoop = field(default_factory=RaceLoop, init=False)
    _asks: Blocking | None = field(default=None, init=False)
    _judged: list[Judged] = field(default_factory=list, init=False)
    _most: dict[str, int] = field(default_factory=dict, init=False)
    _heard: set[str] = field(default_factory=set, init=False)
    _identities: Identities = field(default_factory=Identities, init=False)
    _retried: Known = field(default_factory=set, init=False)
    _is_unseen: bool = field(default=False, init=False)  # what changes rows: a function on the server, a trigger

    @property
    def silence(self) -> str:
        """Why a party of which nothing was heard cannot be judged."""
        return nothing_seen()

    @property
    def forgotten(self) -> str:
        """That it was never played."""
        return "" if self.played else "race(…) was made and never played: call .assert_holds()"

    def assert_holds(self) -> RaceReport:
        """Play every schedule.

        Raises:
            BarrierFailed: with the verdict, the schedule and the line that replays it.
            NotWired: a party is not wired yet.
            WrongDatabase: a party speaks to another database.
        """
        __tracebackhide__ = True
        return self.play().require()

    def play(self, loop: RaceLoop | None = None) -> RaceReport:
        """Play the schedules up to the first that does not hold. Coroutines run on ``loop``, or on one of our own."""
        self.played = True
        self._loop = loop or RaceLoop()
        asked = replay.asked()
        try:
            report = self._series(asked) or self._sweep(asked)
            with suppress(LeftOpen):  # the verdict is known, and says more
                self._set_back()
        finally:
            if loop is None:
                self._loop.close()
            if self.owns_control and self.control is not None:
                self.control.close()
                self.control, self._asks = None, None
        if asked and not self._idle() and all(one.schedule.name != asked for one in self._judged):
            return self._report(Verdict.NOT_REACHED, f"there is no schedule {asked}; play all to see their names")
        return report

    def _series(self, asked: str) -> RaceReport | None:
        for schedule in in_series(tuple(self.works)):
            if asked and asked != schedule.name and self.control is not None:
                continue
            one = self.play_one(schedule)
            if one.verdict is not Verdict.HELD:
                return self._report(one.verdict, one.reason)
        failing = None if asked else self._fails_always()
        if failing is not None:
            return failing
        idle = self._idle()
        unchanged = next((one for one in self._judged if not one.changed), None)
        is_silence = idle and not any(one.changed for one in self._judged)  # else a memory of the process may be why
        if unchanged is not None and not is_silence:
            blamed = self._blamed(unchanged)
            if blamed.verdict is not Verdict.HELD:
                self._judged.remove(unchanged)
                self._judged.append(blamed)
                return self._report(blamed.verdict, blamed.reason)
        if idle:
            return self._report(Verdict.NOT_REACHED, f"party {' and party '.join(idle)} {self.silence}")
        return None

    def _idle(self) -> list[str]:
        """The parties of which nothing was heard in all that was played."""
        return [role for role in self.works if role not in self._heard] if self._most else []

    def _fails_always(self) -> RaceReport | None:
        """Which party failed wherever it stood in the series; one that is only refused later, or needs another, did not."""
        for one in self._judged:
            first = one.schedule.policy.order[0] if isinstance(one.schedule.policy, Series) else ""
            if first in self.may_fail or not all(first in other.played.errors for other in self._judged):
                continue
            error = one.played.errors[first]
            reason = (
                f"party {first} failed in every schedule in series, also where it ran first, with {told(error)}: "
                f"nothing was tested{of_another_loop([error])}"
            )
            return self._report(Verdict.BOTH_FAILED, reason, cause=error)
        return None

    def _sweep(self, asked: str) -> RaceReport:
        for role in self.works if self.sweeps else ():
            for one in self._of_role(role, asked):
                if one.verdict is not Verdict.HELD:
                    return self._report(one.verdict, one.reason)
                if one.played.steps[role] > self.max_steps:
                    return self._report(
                        Verdict.NOT_REACHED, f"{role} has more than {self.max_steps} boundaries: raise max_steps"
                    )
        for plan in self.plans:
            for schedule in plan.schedules(tuple(self.works)):
                if asked in ("", schedule.name) and (one := self.play_one(schedule)).verdict is not Verdict.HELD:
                    return self._report(one.verdict, one.reason)
        idle = self._idle()
        if idle:  # where one schedule is played alone, there was no series to hear them in
            return self._report(Verdict.NOT_REACHED, f"party {' and party '.join(idle)} {self.silence}")
        swept = [one for one in self._judged if not isinstance(one.schedule.policy, Series)]
        if asked and self._judged:
            swept = self._judged
        if not any(one.played.reached for one in swept):
            return self._report(
                Verdict.NOT_REACHED, f"no party came to stand {self.hold or 'at a boundary'}: nothing was tested"
            )
        if not asked and (forgetful := self._idle_since_series(swept)):
            return forgetful
        return self._report(Verdict.HELD, f"{self.rule.name} held in {len(self._judged)} schedules: {hows_of(swept)}")

    def _idle_since_series(self, swept: Sequence[Judged]) -> RaceReport | None:
        """That a party changed rows in series, in no schedule since, and no more where it runs first again."""
        for one in self._judged:
            first = one.schedule.policy.order[0] if isinstance(one.schedule.policy, Series) else ""
            if first not in one.played.changed or any(first in other.played.changed for other in swept):
                continue
            self._set_back()
            again = self._play(one.schedule)
            if again.trouble is None and first not in again.changed:
                return self._report(Verdict.BOTH_FAILED, idle_since(first, one.schedule.name))
        return None

    def _of_role(self, role: str, asked: str) -> Iterator[Judged]:
        for number in range(1, self.max_steps + 2):
            for schedule in held(role, tuple(self.works), self.hold, number):
                if asked not in ("", schedule.name):
                    continue
                one = self.play_one(schedule)
                if not one.played.reached and one.verdict is Verdict.HELD:
                    self._judged.pop()  # nobody was held: a serial run, which has been judged already
                    return
                yield one
                if not one.played.reached:
                    return
            if self.hold is not None:
                return

    def alone(self, role: str, loop: RaceLoop) -> Played:
        """One party whole, and nobody beside it; whoever calls this has set the database back."""
        self._loop = loop
        played = self._run(Series((role,)), {role: self.works[role]})
        refuse_left_open(played)
        return played

    def play_one(self, schedule: Schedule) -> Judged:
        """Set the database back, play one schedule and judge it."""
        self._set_back()
        before = self._content() if self.content is not None or self._is_unseen else ""
        played = self._play(schedule)
        for error in played.errors.values():
            if isinstance(error, NotWired):
                raise error
        for role, steps in played.steps.items():
            self._most[role] = max(self._most.get(role, 0), steps)
            self._heard |= {role} - set(played.silent)
        judged = self._judge(schedule, played)
        if played.left_open and judged.verdict is not Verdict.VIOLATED:
            refuse_left_open(played)
        if judged.verdict is Verdict.HELD and (missing := self._did_not_happen(schedule, played)):
            judged = replace(judged, verdict=Verdict.NOT_REACHED, how=None, reason=missing)
        if judged.verdict is Verdict.HELD:
            judged = replace(judged, changed=self._has_changed(played, before))
            if not judged.changed and not isinstance(schedule.policy, Series):  # those are looked at together
                judged = self._blamed(judged)
        self._judged.append(judged)
        return judged

    def _content(self) -> str:
        if self.content is not None:
            return self.content()
        return self.control.content() if self.control is not None else ""

    def _has_changed(self, played: Played, before: str) -> bool:
        """Whether a party may have changed a row. What drivers do not see, the content tells."""
        if self.content is None and played.changed:
            return True
        return bool(before) and self._content() != before

    def _blamed(self, one: Judged) -> Judged:
        """A schedule in which no row was changed, judged by whether the parties change any where nobody is in their way.

        They do: then one of them was kept from it, by a lock it does not wait for say, which is a fix at work.
        """
        if self.control is None:
            return one
        calls = set(one.played.calls)
        for order in orders(tuple(self.works), parties=EVERY_ORDER_UP_TO + 1):
            self._set_back()
            before = self._content()
            played = self._play(Schedule("".join(order), "", Series(order)))
            if played.trouble is not None:
                return replace(one, verdict=played.trouble, how=None, reason=played.reason)
            refuse_left_open(played)
            if self._content() != before:
                self._is_unseen = self._is_unseen or not played.changed
                return one
            if played.changed:
                return one
            calls |= played.calls
        if self.content is None and self.control.may_write(calls):
            return one  # it may have changed what it then changed back: nobody can tell
        earlier = next((other.schedule.name for other in self._judged if other.changed), "")
        return replace(one, verdict=Verdict.BOTH_FAILED, how=None, reason=unchanged_rows(one.schedule.name, earlier))

    def _play(self, schedule: Schedule) -> Played:
        """What comes of one schedule; the database is set back."""
        return self._run(schedule.policy, {**self.works, **schedule.more})

    def _forgets(self, schedule: Schedule, played: Played) -> tuple[Verdict, str] | None:
        """Whether who was kept out says nothing alone either, so that it was not the other party that kept it out."""
        for name in played.kept_out:
            if name not in self.works or name in played.errors:
                continue
            self._set_back()
            alone = self._alone(name)
            refuse_left_open(alone)
            if name in alone.silent and name not in alone.errors:
                if name not in self._heard:
                    return Verdict.NOT_REACHED, f"party {name} {self.silence}"
                return Verdict.BOTH_FAILED, says_nothing_more(name, schedule.name)
        return None

    def _alone(self, name: str) -> Played:
        return self._run(Series((name,)), {name: self.works[name]})

    def _did_not_happen(self, schedule: Schedule, played: Played) -> str:
        """Which of the schedule's own parties failed though nobody was in its way: one that is refused is a fix at work."""
        for name, work in schedule.more.items():
            if name not in played.errors:
                continue
            self._set_back()
            alone = self._run(Series((name,)), {name: work})
            refuse_left_open(alone)
            if name in alone.errors or alone.trouble is not None:
                kind = type(played.errors[name]).__name__
                return f"{name} failed with {kind}, also alone, so what it does did not happen"
        return ""

    def _run(self, policy: Policy, works: Mapping[str, Work]) -> Played:
        if self._asks is None and self.control is not None:
            self._asks = self.control.blocking()
        scheduler = StepScheduler(self._asks, self.limits, self.external_lock, self._loop, Retrying(self._retried))
        hooks = Hooks(scheduler, self.expected, identities=self._identities)
        with listening(hooks):
            played = scheduler.play(policy, works)
        if hooks.refused is not None:
            raise hooks.refused
        if self._loop.refused is not None:
            raise self._loop.refused
        if self.control is None:
            self._learn(hooks)
            if self.expected is not None and played.trouble is None and hooks.has_strays(self.expected):
                played = replace(played, trouble=Verdict.NOT_REACHED, reason=hooks.stray)
        return played

    def _set_back(self) -> None:
        self._loop.settle(self.set_back())

    def _learn(self, hooks: Hooks) -> None:
        """Without a given database, the one that the parties used."""
        if len(hooks.seen) > 1:
            raise Refused("the parties use several databases", remedy="say which one to ask: race(…, db=engine)")
        if hooks.seen:
            self.expected = hooks.seen[0]
            self.control = open_control(self.expected)
            self.owns_control = True

    def _judge(self, schedule: Schedule, played: Played) -> Judged:
        broken = self.rule.breaks(self.control.ask(self.rule.sql)) if self.control is not None else ""
        in_series = isinstance(schedule.policy, Series)
        how = None
        verdict: Verdict
        if played.trouble is not None and (played.trouble is Verdict.SHARED_CONNECTION or played.unended):
            # Whatever the rule says now: one party's COMMIT was the other's, or one of them is not done.
            verdict, reason = played.trouble, played.reason
        elif broken and in_series:
            verdict = Verdict.VIOLATED_IN_SERIES
            reason = f"{broken}: a second call is enough to break it, so no race is claimed"
        elif broken:
            verdict, reason = Verdict.VIOLATED, broken
        elif played.trouble is not None:
            verdict, reason = played.trouble, played.reason
        elif not in_series and (kept := kept_out(played, tuple(self.works), external_lock=self.external_lock)):
            verdict, reason = self._forgets(schedule, played) or kept
        elif played.errors.keys() >= self.works.keys():
            whole = "both" if len(self.works) == 2 else "all"
            verdict, reason = (
                Verdict.BOTH_FAILED,
                f"{whole} parties failed, so nothing was tested: {all_told(played.errors)}",
            )
            reason += of_another_loop(played.errors.values())
        else:
            verdict, reason = Verdict.HELD, ""
            how = how_held(played, in_series=in_series)
        return Judged(schedule, played, verdict, how, reason)

    def _report(self, verdict: Verdict, reason: str, cause: BaseException | None = None) -> RaceReport:
        last = self._judged[-1] if self._judged else None
        if last is not None and cause is None and verdict is last.verdict is Verdict.BOTH_FAILED:
            cause = cause_of(last.played.errors.values())
        steps = tuple(self._most.get(name, 0) for name in self.works)
        return RaceReport(verdict, reason, tuple(self._judged), steps, cause)
