"""the step scheduler: every party stops before each statement and each COMMIT, and exactly one moves

When the moving party hangs, the server is asked who blocks it; then the other one moves. A lock is a fix, not a hang.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from holdtrue.testing import complaints
from holdtrue.testing.blocking import Blocking
from holdtrue.testing.costs import Event
from holdtrue.testing.gates import Gate, Stand, TaskGate, ThreadGate, here
from holdtrue.testing.loops import RaceLoop
from holdtrue.testing.parties import Abandoned, AbandonedTask, Party, State, current_party
from holdtrue.testing.played import Limits, Played
from holdtrue.testing.policies import Policy
from holdtrue.testing.records import Record
from holdtrue.testing.retrying import Retrying
from holdtrue.testing.statements import Statement, step_outside
from holdtrue.testing.verdicts import Verdict

_PATIENCE = 0.05
_ENDS = 2.0


@dataclass
class StepScheduler:
    """Plays one schedule: parties under a policy. Use a new one for each.

    With ``external_lock`` a party may wait outside the database, for a lock that every process shares.
    The hooks call :meth:`stop_before`, :meth:`ended`, :meth:`failed` and :meth:`gave_back` from the parties' threads, and
    :meth:`stop_task_before` from their tasks, which run on ``loop``.
    """

    blocking: Blocking | None
    limits: Limits = field(default_factory=Limits)
    external_lock: bool = False
    loop: RaceLoop = field(default_factory=RaceLoop)
    retrying: Retrying = field(default_factory=Retrying)
    parties: list[Party] = field(default_factory=list, init=False)
    record: Record = field(default_factory=Record, init=False)
    changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    trouble: Verdict | None = field(default=None, init=False)
    reason: str = field(default="", init=False)
    _end: float = field(default=0.0, init=False)
    _blocked: bool = field(default=False, init=False)
    _guessed: bool = field(default=False, init=False)
    _unended: tuple[str, ...] = field(default=(), init=False)
    _kept_out: list[str] = field(default_factory=list, init=False)

    # -- called by the hooks, in the parties' threads ---------------------------------------------------------------

    def stop_before(
        self, party: Party, statement: Statement, pid: int | None, connection: int, alone: str = ""
    ) -> None:
        """Park the party before a statement or COMMIT until it is chosen; what nobody else could notice just goes on.

        ``alone`` is how each party gets a connection of its own.
        """
        if self.loop.is_here():
            self.complain(Verdict.NOT_REACHED, self.loop.say_blocks(party.name))
            raise Abandoned
        if self._speaks(party, statement, pid, connection, alone):
            self._park(party, statement)

    async def stop_task_before(
        self, party: Party, statement: Statement, pid: int | None, connection: int, alone: str = ""
    ) -> None:
        """The same for the task that runs here; its loop runs on."""
        self._keep_task(party)
        if self._speaks(party, statement, pid, connection, alone):
            await self._park_task(party, statement)

    def pass_outside(self, party: Party, name: str) -> Awaitable[None] | None:
        """Park the party at a step outside the database: a thread here and now, a task when it awaits what is returned."""
        statement = step_outside(name)
        if not self.loop.is_here():
            self._park(party, statement)
            return None
        self._keep_task(party)
        return self._park_task(party, statement)

    def _keep_task(self, party: Party) -> None:
        task = asyncio.current_task()
        if task is not None and task is not party.task:
            party.keep(task)
            party.spoke.add(task)

    async def _park_task(self, party: Party, statement: Statement) -> None:
        gate = TaskGate()
        stand = self._come(party, statement, gate)
        if stand is not None:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                with self.changed:
                    party.leave(stand)
                raise
        if party.abandoned:
            raise AbandonedTask
        party.hear()

    def _speaks(self, party: Party, statement: Statement, pid: int | None, connection: int, alone: str) -> bool:
        """Whether the party must stop here."""
        with self.changed:
            for other in self.parties:
                if other is not party and connection in other.connections and other.state is not State.FINISHED:
                    self.complain(Verdict.SHARED_CONNECTION, complaints.shares(alone))
            party.connections.add(connection)
            if pid is not None:
                party.pids.add(pid)
            if not statement.is_boundary and party.in_flight is None:
                party.in_flight, party.strand = statement, here()
        return statement.is_boundary

    def ended(self, party: Party, statement: Statement, rows: int | None = None) -> None:
        """A statement of the party is over; ``rows`` is how many it changed, where its driver counts them."""
        with self.changed:
            self.record.came(party, Event.ENDS)
            party.completed = statement
            party.changes.ended(statement, rows)
            party.tries.ended(statement, rows)
            self._is_over(party)

    def failed(self, party: Party, what: str) -> None:
        """The database refused a statement of the party; ``what`` never carries values."""
        with self.changed:
            self.record.came(party, Event.FAILS)
            party.tries.refused(party.in_flight, what)
            self._is_over(party)
            party.conflicts.append(what)
            self.record.says(party, f"! {what}")

    def rolled_back(self, party: Party) -> None:
        """The party rolled back."""
        with self.changed:
            self.record.came(party, Event.GIVES_UP)
            self._is_over(party)
            party.changes.rolled_back()
            if party.started and not party.abandoned:
                self.record.says(party, "ROLLBACK")

    def gave_back(self, connection: int, pid: int | None) -> None:
        """A connection went back to its pool: it is nobody's until somebody uses it again."""
        with self.changed:
            for party in self.parties:
                if connection in party.connections:
                    self.record.came(party, Event.GIVES_UP)
                    party.connections.discard(connection)
                    self._is_over(party)
                    if pid is not None:
                        party.pids.discard(pid)

    def handed_on(self, connection: int, pid: int | None) -> None:
        """A connection in no transaction is somebody else's now; nothing that was in flight was on it."""
        with self.changed:
            for party in self.parties:
                party.connections.discard(connection)
                if pid is not None:
                    party.pids.discard(pid)

    def complain(self, verdict: Verdict, reason: str) -> None:
        """Nothing can be said about the rule; the first reason is kept."""
        with self.changed:
            if self.trouble is None:
                self.trouble, self.reason = verdict, reason

    def _park(self, party: Party, statement: Statement | None) -> None:
        gate = ThreadGate()
        if self._come(party, statement, gate) is not None:
            gate.wait()
        if party.abandoned:
            raise Abandoned
        party.hear()

    def _come(self, party: Party, statement: Statement | None, gate: Gate) -> Stand | None:
        """Stand at a gate. While another statement of the party is in flight it waits behind that one: one at a time."""
        with self.changed:
            if party.abandoned:
                return None
            if party.state is State.FINISHED:
                self.complain(Verdict.NOT_REACHED, complaints.comes_late(party, statement))
                return None
            self.record.came(party, Event.STANDS)
            stand = party.come(Stand(statement, gate, here()))
            self.changed.notify_all()
            return stand

    def _is_over(self, party: Party) -> None:
        """What was in flight is over, if it was sent from here; what waited behind it may move."""
        if party.strand is not here():
            return
        party.over()
        self.changed.notify_all()

    # -- the controller, in the test's own thread ---------------------------------------------------------------------

    def play(self, policy: Policy, works: Mapping[str, Callable[[], object]]) -> Played:
        """Run all parties under the policy, to their ends or to the deadline."""
        self._end = time.monotonic() + self.limits.deadline
        self.parties = [Party(name, work) for name, work in works.items()]
        for party in self.parties:
            party.passes = partial(self.pass_outside, party)
            self._start(party)
        try:
            self._control(policy)
        finally:
            self._give_up()
        if policy.missed is not None:
            self.complain(*policy.missed)
        return Played(
            lines=tuple(self.record.lines),
            errors={party.name: party.error for party in self.parties if party.error is not None},
            reached=policy.reached,
            steps={party.name: party.steps for party in self.parties},
            silent=tuple(party.name for party in self.parties if party.steps == party.steps_outside),
            blocked=self._blocked,
            inferred=self._guessed,
            conflicts=tuple(what for party in self.parties for what in party.conflicts),
            trouble=self.trouble,
            reason=self.reason,
            costs=self.record.costs,
            left_open=tuple(one.name for one in self.parties if self._left_open(one)),
            changed=tuple(one.name for one in self.parties if one.changes),
            unended=self._unended,
            tried_again=self.retrying.happened,
            kept_out=tuple(self._kept_out),
            calls=frozenset(name for one in self.parties if not one.changes for name in one.changes.calls),
        )

    def _start(self, party: Party) -> None:
        def body() -> None:
            current_party.set(party)
            try:
                self._park(party, None)
                done = party.work()
                if inspect.isawaitable(done):
                    self.loop.finish(party, done)
            except Abandoned:
                pass
            except BaseException as error:  # noqa: BLE001  recorded and judged by the caller, in its own thread
                party.error = None if party.abandoned else error
            with self.changed:
                self.record.came(party, Event.GIVES_UP)
                party.state = State.FINISHED
                if party.steps == party.steps_outside and not party.abandoned and self._under_way(party):
                    self._kept_out.append(party.name)
                for stand in party.waiting:
                    self.complain(Verdict.NOT_REACHED, complaints.comes_late(party, stand.statement))
                    stand.gate.open()
                party.waiting.clear()
                party.kept = frozenset(party.pids)
                party.pids.clear()
                party.connections.clear()
                if party.error is not None:
                    self.record.says(party, f"ended with {type(party.error).__name__}")
                self.changed.notify_all()

        context = contextvars.copy_context()
        party.thread = threading.Thread(target=context.run, args=(body,), name=f"party {party.name}", daemon=True)
        party.thread.start()

    def _control(self, policy: Policy) -> None:
        with self.changed:
            self.changed.wait_for(
                lambda: all(party.state is not State.STARTING for party in self.parties), self.limits.deadline
            )
        while self._settle():
            with self.changed:
                self.record.rests(self.parties, inferred=self.blocking is not None and self.blocking.inferred)
            # Where all are blocked, what waits behind a blocked statement of a party may be what resolves it.
            ready = self._in(State.READY) or [one for one in self._in(State.BLOCKED, State.STALLED) if one.waiting]
            if ready:
                self.retrying.look(ready)
                chosen = policy.choose(ready, self.parties)
                self.record.remarks(self.retrying.goes_on(chosen, ready))
                self.record.remarks(policy.remarks())
                self._move(chosen)
            elif all(party.state is State.FINISHED for party in self.parties):
                return
            else:
                # A deadlock, which the server's own detector breaks, or parties that wait outside the database.
                with self.changed:
                    for party in self.parties:
                        if party.state is State.STALLED:
                            party.state, party.moved = State.MOVING, time.monotonic()
                    self.changed.wait(self.limits.poll)

    def _move(self, party: Party) -> None:
        with self.changed:
            if not party.waiting:  # its task was cancelled this very moment
                return
            stand = party.waiting.popleft()
            party.at, party.strand = stand.statement, stand.strand
            party.in_flight = None if party.at is not None and party.at.outside else party.at
            if party.at is not None:
                party.steps += 1
                party.steps_outside += bool(party.at.outside)
            party.started = True
            party.waits_for = ""
            party.state, party.moved, party.idle_since = State.MOVING, time.monotonic(), None
            self.record.moves(party)
            stand.gate.open()

    def _settle(self) -> bool:
        """Wait until nobody moves: each is ready, finished, blocked or stalled. False when the deadline has passed."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: not self._in(State.MOVING), self.limits.poll)
                before = {party.name: (party.state, party.steps) for party in self.parties}
                waiting = self._in(State.MOVING, State.BLOCKED, State.STALLED)
            if not waiting:
                return True
            edges = self._ask(waiting)
            self.loop.feel()
            with self.changed:
                known = [self._judge(party, edges.get(party.name, ""), before) for party in waiting]
                if all(known) and not self._in(State.MOVING):
                    return True
            if self._past_deadline():
                return False

    def _ask(self, waiting: Sequence[Party]) -> Mapping[str, str]:
        now = time.monotonic()
        worth = [one for one in waiting if one.state is not State.MOVING or now - one.moved > self.limits.grace]
        return self.blocking.waits(self.parties) if worth and self.blocking is not None else {}

    def _judge(self, party: Party, waits_for: str, before: Mapping[str, tuple[State, int]]) -> bool:
        """Say where the party stands; False if the server has to be asked again."""
        if party.state in (State.READY, State.FINISHED):
            return True
        if waits_for:
            # What was true of a party that moved while the server was asked may be over by now.
            if before[waits_for][0] is State.MOVING or before[waits_for] != self._standing(waits_for):
                return False
            if party.state is not State.BLOCKED:
                self.record.came(party, Event.WAITS)
            party.state, party.waits_for = State.BLOCKED, waits_for
            self._blocked = True
            self._guessed = self._guessed or (self.blocking is not None and self.blocking.inferred)
            return True
        if party.state is State.BLOCKED:
            party.state, party.moved = State.MOVING, time.monotonic()
        if party.state is State.MOVING:
            party.consider(patience_is_over=bool(party.waiting) and self._is_quiet(party))
        if party.state is State.MOVING and self._is_idle(party):
            party.state = State.STALLED
            if not self.external_lock:
                self.complain(*complaints.stands_still(party, self.parties, self.loop, self.limits.stall))
        return True

    def _is_quiet(self, party: Party) -> bool:
        """Whether no other task of the party is to be awaited any longer; or what is in flight waits for the party itself."""
        since = max(party.moved, party.stirred)
        quiet = time.monotonic() - since
        if quiet < _PATIENCE or not self.loop.has_turned_since(since + _PATIENCE / 2):
            return False
        if party.in_flight is None:
            return quiet > self.limits.stall or not party.expects()
        return not (self.blocking is not None and self.blocking.is_busy(party))

    def _is_idle(self, party: Party) -> bool:
        """Whether it has done nothing for long, here and on the server, while another party was under way.

        Nobody can wait for a party that has not begun: in a series a long pause is only slow.
        """
        now = time.monotonic()
        if now - party.moved <= self.limits.stall:
            return False
        if not self._under_way(party) or (self.blocking is not None and self.blocking.is_busy(party)):
            party.moved, party.idle_since = now, None
            return False
        if party.idle_since is None:
            party.idle_since = now
        return now - party.idle_since > self.limits.stall

    def _under_way(self, party: Party) -> bool:
        """Whether another party has begun and is not over."""
        return any(one is not party and one.started and one.state is not State.FINISHED for one in self.parties)

    def _past_deadline(self) -> bool:
        if time.monotonic() < self._end and not self.loop.stopped:
            return False
        if not self.loop.stopped and self.retrying.holds_up(self.parties):
            self._end = time.monotonic() + self.limits.deadline
            return False
        standing = ", ".join(
            f"{one.name} {one.state} at {one.in_flight or one.at or 'its start'}" for one in self.parties
        )
        again = "".join(
            complaints.repeats(party)
            for party in self.parties
            if party.tries.cycle() and party.state is not State.FINISHED
        )
        self.complain(Verdict.TIMEOUT, f"the schedule did not end within {self.limits.deadline:g} s: {standing}{again}")
        return True

    def _give_up(self) -> None:
        """Leave no thread and no lock behind, however the schedule ended."""
        with self.changed:
            left = [party for party in self.parties if party.state is not State.FINISHED]
            for party in left:
                party.abandoned = True
                for stand in party.waiting:
                    stand.gate.open()
                party.waiting.clear()
        for party in left:
            self.loop.cancel(party)
            if self.blocking is not None and party.pids:
                self.blocking.cancel(party)
        for party in self.parties:
            if party.thread is not None:
                party.thread.join(_ENDS if party in left else self.limits.deadline)
        for party in left:
            if party.lives_on and self.blocking is not None and party.pids:
                self.blocking.end_sessions(party)
        for party in left:
            if party.lives_on and party.thread is not None:
                party.thread.join(_ENDS / 2)
        self._unended = tuple(one.name for one in left if one.lives_on)
        if self._unended:
            self.complain(Verdict.TIMEOUT, "the schedule was given up")
            self.reason += f"; {complaints.lives_on(self._unended)}"

    def _left_open(self, party: Party) -> bool:
        return self.blocking is not None and bool(party.kept) and self.blocking.has_left_open(party)

    def _in(self, *states: State) -> list[Party]:
        return [party for party in self.parties if party.state in states]

    def _standing(self, name: str) -> tuple[State, int]:
        party = next(one for one in self.parties if one.name == name)
        return party.state, party.steps
