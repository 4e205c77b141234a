"""races that the server itself holds: for parties in other processes, other languages, and drivers that no adapter knows"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from holdtrue.errors import Refused
from holdtrue.testing.adapters import refuse
from holdtrue.testing.judgements import Judged, RaceReport
from holdtrue.testing.loops import RaceLoop
from holdtrue.testing.parties import Party, current_party
from holdtrue.testing.plans import Schedule, orders
from holdtrue.testing.played import Limits, Line, Played, refuse_left_open
from holdtrue.testing.policies import Hold, Series
from holdtrue.testing.postgresql import PostgresControl
from holdtrue.testing.postgresql_gate import PostgresGate, WritePoint
from holdtrue.testing.races import Race
from holdtrue.testing.verdicts import Verdict

_STALLED = (
    "{name} waited outside the database while {held} was held; a lock inside one process does not protect two (if it waits "
    "for a lock that all processes share, pass external_lock=True; if it is only slow, limits=Limits(stall=…))"
)


@dataclass
class _Runner:
    """One party in a thread of its own, which may do no more than wait for a process."""

    name: str
    work: Callable[[], Any]
    done: threading.Condition
    error: BaseException | None = None
    is_over: bool = False

    def start(self) -> None:
        """Begin."""
        self.party = Party(self.name, self.work)  # by which its statements are known if it has to be given up
        self.party.thread = self.thread = threading.Thread(target=self._run, name=f"party {self.name}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        current_party.set(self.party)
        try:
            made = self.work()
            if inspect.isawaitable(made):
                asyncio.run(_finished(made))
        except BaseException as error:  # noqa: BLE001  judged by the caller, in its own thread
            self.error = error
        with self.done:
            self.is_over = True
            self.done.notify_all()


async def _finished(made: Any) -> None:  # noqa: ANN401  whatever a party returned to be awaited
    await made


@dataclass
class ServerSchedule:
    """Plays one schedule: ``held`` comes to the point and stands at the gate, the others run, then it goes on."""

    gate: PostgresGate
    limits: Limits
    external_lock: bool
    works: dict[str, Callable[[], object]]
    lines: list[Line] = field(default_factory=list)
    trouble: Verdict | None = None
    reason: str = ""
    blocked: bool = False
    _runners: dict[str, _Runner] = field(default_factory=dict)
    _done: threading.Condition = field(default_factory=threading.Condition)
    _end: float = 0.0
    _kept_out: list[str] = field(default_factory=list)

    def in_series(self, order: Sequence[str]) -> tuple[Played, dict[str, tuple[WritePoint, ...]]]:
        """Each party whole, and what each of them wrote."""
        self._end = time.monotonic() + self.limits.deadline
        wrote: dict[str, tuple[WritePoint, ...]] = {}
        changed: list[str] = []
        with self.gate.noting():
            for name in order:
                self._start(name)
                if not self._wait(lambda one=name: self._runners[one].is_over):  # type: ignore[misc]
                    self._complain(Verdict.TIMEOUT, f"{name} did not end within {self.limits.deadline:g} s")
                    self._give_up()
                    break
                if self.gate.has_left_open():
                    break
                changed += [name] * self.gate.has_changed()
                wrote[name] = self.gate.taken()
                self.lines += [Line(name, point.what) for point in wrote[name]]
                self._say_error(name)
        return self._played(True, {name: len(points) for name, points in wrote.items()}, changed), wrote

    def holding(self, held: str, point: WritePoint, order: Sequence[str]) -> Played:
        """The held party first, alone, to the point; then the others in order, while it stands there."""
        self._end = time.monotonic() + self.limits.deadline
        pid = 0
        with self.gate.shut(point):
            self._start(held)
            while not pid and not self._runners[held].is_over and self._in_time():
                pid = self.gate.held()
                self._pause()
            if pid:
                self.lines.append(Line(held, f"is held before {point.what}"))
            else:
                self.gate.open()  # it did not come: nobody else may be taken for it
            for name in order:
                before = self.gate.trace(pid) if pid else None
                self._start(name)
                self._run_beside(name, held, pid)
                if before is not None and self._runners[name].is_over and not self.gate.was_asked_since(before, pid):
                    self._kept_out.append(name)
            if pid:
                self.lines.append(Line(held, point.what))
            self.gate.open()
            if not self._wait(lambda: all(one.is_over for one in self._runners.values())):
                late = ", ".join(one.name for one in self._runners.values() if not one.is_over)
                self._complain(Verdict.TIMEOUT, f"the schedule did not end within {self.limits.deadline:g} s: {late}")
                self.gate.cancel(pid)
                self._give_up()
            for one in self._runners.values():
                one.thread.join(2.0)
                self._say_error(one.name)
        # Whoever comes to the gate is about to write, and how much nobody counts here.
        return self._played(bool(pid), dict.fromkeys(self.works, 1), [held])

    def _run_beside(self, name: str, held: str, pid: int) -> None:
        """Until it ends, waits for the held one in the database, or does nothing there for long."""
        quiet_since, last = time.monotonic(), object()
        while not self._runners[name].is_over and self._in_time():
            if pid and self.gate.is_waited_for(pid):
                self.blocked = True
                self.lines.append(Line(name, f"waits for {held} (the server says)"))
                return
            busy, mark = self.gate.pulse(pid)
            if busy or mark != last:
                quiet_since, last = time.monotonic(), mark
            elif pid and time.monotonic() - quiet_since > 2 * self.limits.stall:
                self.lines.append(Line(name, "waits outside the database"))
                if not self.external_lock:
                    self._complain(Verdict.STALLED, _STALLED.format(name=name, held=held))
                return
            self._pause()

    def _start(self, name: str) -> None:
        self.lines.append(Line(name, "START"))
        self._runners[name] = _Runner(name, self.works[name], self._done)
        self._runners[name].start()

    def _say_error(self, name: str) -> None:
        error = self._runners[name].error
        if error is not None:
            self.lines.append(Line(name, f"ended with {type(error).__name__}"))

    def _give_up(self) -> None:
        """Leave no open transaction behind, and let nothing of this process send more."""
        left = [one for one in self._runners.values() if not one.is_over]
        for one in left:
            one.party.abandoned = True
        self.gate.end_others()
        for one in left:
            one.thread.join(2.0)
        refuse([one.party for one in left])

    def _complain(self, verdict: Verdict, reason: str) -> None:
        if self.trouble is None:
            self.trouble, self.reason = verdict, reason

    def _in_time(self) -> bool:
        return time.monotonic() < self._end

    def _pause(self) -> None:
        with self._done:
            self._done.wait(self.limits.poll)

    def _wait(self, until: Callable[[], bool]) -> bool:
        with self._done:
            return self._done.wait_for(until, max(0.0, self._end - time.monotonic()))

    def _played(self, reached: bool, steps: dict[str, int], changed: Sequence[str]) -> Played:
        open_ones = tuple(self._runners) if self.trouble is None and self.gate.has_left_open() else ()
        return Played(
            lines=tuple(self.lines),
            errors={name: one.error for name, one in self._runners.items() if one.error is not None},
            reached=reached,
            steps=steps,
            silent=tuple(name for name in self.works if not steps.get(name)),
            blocked=self.blocked,
            inferred=False,
            conflicts=(),
            costs={},  # the server tells nobody how long it was waited for
            trouble=self.trouble,
            reason=self.reason,
            left_open=open_ones,
            changed=tuple(changed),
            kept_out=tuple(self._kept_out),
        )


@dataclass
class ServerRace(Race):
    """A race whose parties may be anything that writes to a PostgreSQL database: held before the first write of each kind."""

    LIMITS: ClassVar[Limits] = Limits(stall=3.0, deadline=30.0)  # a process takes its time to start

    _gate: PostgresGate | None = field(default=None, init=False)
    _points: dict[str, tuple[WritePoint, ...]] = field(default_factory=dict, init=False)

    @property
    def silence(self) -> str:
        """Why a party of which nothing was heard cannot be judged."""
        return (
            "wrote nothing in this database, so the server could not hold it: nothing was tested "
            "(does it speak to this database, and did it end only when it was done?)"
        )

    def play(self, loop: RaceLoop | None = None) -> RaceReport:
        """Play the schedules up to the first that does not hold.

        Raises:
            Refused: the database is none of PostgreSQL.
        """
        self.played = True
        with self._at_a_gate():
            return super().play(loop)

    def alone(self, role: str, loop: RaceLoop) -> Played:
        """One party whole, and nobody beside it; what it writes is noted by the server.

        Raises:
            Refused: the database is none of PostgreSQL.
        """
        self._loop = loop
        with self._at_a_gate() as gate:
            works = {role: self.works[role]}
            played, _wrote = ServerSchedule(gate, self.limits, self.external_lock, works).in_series((role,))
        refuse_left_open(played)
        return played

    @contextmanager
    def _at_a_gate(self) -> Iterator[PostgresGate]:
        if not isinstance(self.control, PostgresControl):
            raise Refused('hold="server" is for PostgreSQL', remedy="pass db=: a barrier_db, an engine or a URL of it")
        self._gate = gate = PostgresGate(self.control.connect())
        try:
            yield gate
        finally:
            gate.close()

    def _series(self, asked: str) -> RaceReport | None:
        """All of it, whatever is asked: only so one knows what the parties write."""
        report = super()._series("")
        if asked:
            self._judged[:] = [
                one for one in self._judged if one.schedule.name == asked or one.verdict is not Verdict.HELD
            ]
        return report

    def _of_role(self, role: str, asked: str) -> Iterator[Judged]:
        names = tuple(self.works)
        others = [name for name in names if name != role]
        for number, point in enumerate(self._points.get(role, ()), 1):
            for order in orders(others, parties=len(names)):
                name = f"{role}{number}" if len(others) == 1 else f"{role}{number}.{''.join(order)}"
                if asked not in ("", name):
                    continue
                runs = f"{', then '.join(order)} {'runs' if len(order) == 1 else 'run'} whole"
                one = self.play_one(
                    Schedule(name, f"{role} is held {point}, {runs}, then {role}", Hold(role, point, order))
                )
                if one.verdict is Verdict.HELD and not one.played.reached:
                    # It came there when it ran first in a series; a sweep that passes over it now has not looked.
                    reason = f"{role} did not come to stand {point}, as it did before: nothing was tested"
                    one = replace(one, verdict=Verdict.NOT_REACHED, reason=reason)
                yield one

    def _alone(self, name: str) -> Played:
        return self._play(Schedule(name, f"{name} alone", Series((name,))))

    def _play(self, schedule: Schedule) -> Played:
        if self._gate is None:
            raise RuntimeError("no gate: play() makes it")
        playing = ServerSchedule(self._gate, self.limits, self.external_lock, dict(self.works))
        policy = schedule.policy
        if isinstance(policy, Hold) and isinstance(policy.point, WritePoint):
            return playing.holding(policy.held, policy.point, policy.order)
        order = policy.order if isinstance(policy, Series) else tuple(self.works)
        played, wrote = playing.in_series(order)
        self._points.setdefault(order[0], wrote.get(order[0], ()))
        return played
