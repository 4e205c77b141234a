"""keeps every Alertmanager told of what fires, again and again, and of each end at once"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from holdtrue import alerting
from holdtrue.errors import StoreError
from holdtrue.model import Catalog, Description, Episode, Subject
from holdtrue.notifiers import Alertmanager, Labels, Member, Problem, StateAlert, bodies, of_database, of_episode
from holdtrue.store import Store

log = structlog.get_logger("holdtrue.pushing")

BLIND_FOR = timedelta(hours=1)
"""How long what was last read as firing is re-sent while the store cannot be read."""
ENDS_KEPT = timedelta(days=1)
"""How long an end is offered to a member that does not take it. By then the member's own alert has long ended."""
DATABASES_EVERY = 10.0
"""Seconds between two looks at which databases cannot be asked: they read every standing."""

READ_WITHIN = 2.0
"""Seconds that a round waits for the store before it goes on with what it knows."""

Identity = tuple[Labels, datetime]


@dataclass(frozen=True, slots=True)
class Board:
    """What fires and what has ended, by labels, as last read from the store."""

    firing: Mapping[Labels, StateAlert] = field(default_factory=dict)
    ends: Mapping[Labels, StateAlert] = field(default_factory=dict)


def follow(board: Board, firing: Iterable[StateAlert], ended: Iterable[StateAlert], now: datetime) -> Board:
    """The next board: what fired and does no longer has ended, as ``ended`` says, or now. Ends are kept for a day."""
    fires = {one.labels: one for one in firing}
    known = {one.labels: one for one in ended}
    gone = {
        labels: known.get(labels) or alert.end(now) for labels, alert in board.firing.items() if labels not in fires
    }
    kept = {**board.ends, **known, **gone}
    return Board(
        fires,
        {
            labels: one
            for labels, one in kept.items()
            if labels not in fires and now - (one.ended_at or now) < ENDS_KEPT
        },
    )


@dataclass(slots=True)
class Told:
    """What one member has taken from this instance. Moments are monotonic seconds."""

    firing: set[Identity] = field(default_factory=set)
    ends: set[Identity] = field(default_factory=set)
    in_full_at: float | None = None
    taken_at: float | None = None
    failures: int = 0
    next_try_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Push:
    """What a member is to be told; ``in_full`` when all that fires is in it."""

    firing: tuple[StateAlert, ...]
    ends: tuple[StateAlert, ...]
    in_full: bool


def owed_to(board: Board, told: Told, at: float, resend_every: timedelta, *, blind: bool) -> Push:
    """Everything that fires when the time for that has come, else only what the member has not taken yet.

    Nothing at all is told in full too: a member that cannot be told must not show only when something fires.
    While blind no end is told: what we read as ended may fire again by now (semantics 7.6).
    """
    in_full = told.in_full_at is None or at - told.in_full_at >= resend_every.total_seconds()
    firing = tuple(one for one in board.firing.values() if in_full or one.identity not in told.firing)
    ends = () if blind else tuple(one for one in board.ends.values() if one.identity not in told.ends)
    return Push(firing, ends, in_full)


def note(told: Told, push: Push, board: Board, at: float) -> None:
    """Remember that a member has taken it."""
    ended = {one.labels for one in push.ends}
    there = {one.identity for one in board.ends.values()}
    fires = {one.identity for one in push.firing}
    told.firing = fires if push.in_full else {one for one in told.firing if one[0] not in ended} | fires
    told.ends = {one for one in told.ends if one in there} | {one.identity for one in push.ends}
    if push.in_full:
        told.in_full_at = at
    told.taken_at, told.failures, told.next_try_at = at, 0, 0.0


def wait_after(failures: int, resend_every: timedelta) -> float:
    """Seconds until a member that did not take it is tried again: 1, 2, 4 …, never later than the next re-sending."""
    return min(resend_every.total_seconds(), float(2 ** min(max(failures, 1) - 1, 10)))


@dataclass(slots=True)
class _Line:
    """One member, what it has taken, and the thread that speaks to it."""

    told: Told
    thread: ThreadPoolExecutor
    busy: Future[None] | None = None


class Observer(Protocol):
    """Who counts pushes."""

    def __call__(self, notifier: str, member: str, *, taken: bool) -> None:
        """A member was told, and took it, or not."""


class Pushing:
    """Tells every member of every cluster by a thread of its own, from every instance: pushes are idempotent.

    No lease decides who pushes: the instance that can no longer read the store has to go on, and an instance ends at a member
    whatever it has itself told there, so that a late push is always followed by its end.
    """

    def __init__(
        self,
        *,
        store: Store,
        clusters: Callable[[], Sequence[Alertmanager]],
        catalog: Callable[[], Catalog | None],
        describe: Callable[[Episode], Description],
        home: Callable[[], str],
        now: Callable[[], datetime],
        pushed: Observer | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wire it; nothing is read or sent before ``round``. ``pushed`` hears of every push."""
        self._store = store
        self._clusters = clusters
        self._catalog = catalog
        self._describe = describe
        self._home = home
        self._now = now
        self._pushed = pushed
        self._monotonic = monotonic
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="push-reads")
        self._reading: Future[bool] | None = None
        self._made: dict[tuple[Episode, Description], StateAlert] = {}
        self._board: Board | None = None
        self._read_at = 0.0
        self._unreachable: Mapping[str, datetime] = {}
        self._databases_read_at: float | None = None
        self._lines: dict[tuple[str, str], _Line] = {}
        self._stopped = threading.Event()

    def round(self) -> int:
        """Read what fires, and hand each member that is free what it has not been told; how many were given something."""
        clusters = self._clusters()
        self._drop_lines({(one.name, member.name) for one in clusters for member in one.members})
        if self._stopped.is_set() or not clusters:
            return 0
        blind = not self._read_in_time(max(one.keep_for for one in clusters))
        board = self._board
        if board is None or (blind and self._monotonic() - self._read_at > BLIND_FOR.total_seconds()):
            return 0
        given = 0
        for cluster in clusters:
            for member in cluster.members:
                given += self._give(cluster, member, board, blind=blind)
        return given

    def wait_until_idle(self, within: float) -> bool:
        """Wait for the pushes under way; False if some still are after ``within`` seconds."""
        running = [line.busy for line in self._lines.values() if line.busy is not None]
        return not wait(running, timeout=within).not_done

    def stop(self, grace: float = 5.0) -> None:
        """Push nothing new, and end nothing: a stop is no good news. Wait ``grace`` seconds for what is under way."""
        self._stopped.set()
        self.wait_until_idle(grace)
        self._drop_lines(set())
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _read_in_time(self, keep_for: timedelta) -> bool:
        """Whether the store said what fires. A store that hangs must not keep us from re-sending."""
        if self._reading is None:
            self._reading = self._reader.submit(self._read, keep_for)
        if wait([self._reading], timeout=READ_WITHIN).not_done:
            return False
        reading, self._reading = self._reading, None
        return reading.result()

    def _read(self, keep_for: timedelta) -> bool:
        try:
            now, episodes = self._now(), self._store.alerts.firing()
            databases = self._read_databases(episodes, now)
            fires = self._alerts_of(episodes)
            if self._board is None:
                # Ended while no instance could tell, or before this one began: told again, which does no harm.
                ended = self._store.alerts.ended(since=now - max(keep_for, BLIND_FOR))
                since_then = [self._alert_of(one) for one in ended] + self._reachable(now)
            else:
                since_then = self._ended(fires)
        except StoreError as problem:
            log.warning("firing_not_read", problem=type(problem).__name__)
            return False
        except Exception as surprise:  # noqa: BLE001 - a fault of ours must not end alerts by silence: as if it were unreadable
            log.error("firing_not_read", problem=type(surprise).__name__)
            return False
        self._board = follow(self._board or Board(), [*fires, *databases], since_then, now)
        self._read_at = self._monotonic()
        return True

    def _ended(self, fires: Sequence[StateAlert]) -> list[StateAlert]:
        """The ends of what was on the board and does not fire any more, as the store has them."""
        board = self._board or Board()
        there = {one.labels for one in fires}
        ids = {one.episode for labels, one in board.firing.items() if labels not in there and one.episode}
        return [self._alert_of(one) for one in self._store.alerts.ended(ids=ids)] if ids else []

    def _read_databases(self, episodes: Sequence[Episode], now: datetime) -> list[StateAlert]:
        """The databases that cannot be asked; without an unchecked invariant there is none."""
        at = self._monotonic()
        if not any(one.subject is Subject.HEALTH for one in episodes):
            self._unreachable, self._databases_read_at = {}, None
        elif self._databases_read_at is None or at - self._databases_read_at >= DATABASES_EVERY:
            overview = self._store.reads.overview()
            self._unreachable = alerting.unreachable((one.standing, one.unchecked) for one in overview)
            self._databases_read_at = at
        return [of_database(name, min(since, now), page_url=self._home()) for name, since in self._unreachable.items()]

    def _reachable(self, now: datetime) -> list[StateAlert]:
        catalog = self._catalog()
        names = [one.name for one in catalog.config.databases] if catalog is not None else []
        return [
            of_database(name, now, page_url=self._home()).end(now) for name in names if name not in self._unreachable
        ]

    def _alerts_of(self, episodes: Sequence[Episode]) -> list[StateAlert]:
        """What fires; made anew only where something changed, since this is done every second."""
        described = [(one, self._describe(one)) for one in episodes]
        self._made = {key: self._made.get(key) or self._alert_of(key[0]) for key in described}
        return list(self._made.values())

    def _alert_of(self, episode: Episode) -> StateAlert:
        said = self._describe(episode)
        return of_episode(episode, description=said.description, runbook_url=said.runbook_url, page_url=said.page_url)

    def _give(self, cluster: Alertmanager, member: Member, board: Board, *, blind: bool) -> int:
        key = (cluster.name, member.name)
        line = self._lines.get(key)
        if line is None:
            name = f"push-{cluster.name}-{member.name}"
            line = self._lines[key] = _Line(Told(), ThreadPoolExecutor(max_workers=1, thread_name_prefix=name))
        at = self._monotonic()
        if (line.busy is not None and not line.busy.done()) or at < line.told.next_try_at:
            return 0
        push = owed_to(board, line.told, at, cluster.resend_every, blind=blind)
        if not push.firing and not push.ends and not push.in_full:
            return 0
        line.busy = line.thread.submit(self._push, cluster, member, line.told, push, board=board, blind=blind)
        return 1

    def _push(
        self, cluster: Alertmanager, member: Member, told: Told, push: Push, *, board: Board, blind: bool
    ) -> None:
        try:
            firing = self._still_there(cluster, member, told, push.firing) if blind else push.firing
            problem = member.push(bodies((*firing, *push.ends), self._now(), cluster.keep_for))
        except Exception as surprise:  # noqa: BLE001 - one bad alert must not silence this member for ever
            problem = Problem(f"unexpected error ({type(surprise).__name__})")
        at = self._monotonic()
        if self._pushed is not None:
            self._pushed(cluster.name, member.name, taken=problem is None)
        if problem is None:
            note(told, push, board, at)
            return
        told.failures += 1
        told.next_try_at = at + wait_after(told.failures, cluster.resend_every)
        log.warning("push_failed", notifier=cluster.name, member=member.name, problem=problem.sentence)

    def _still_there(
        self, cluster: Alertmanager, member: Member, told: Told, firing: tuple[StateAlert, ...]
    ) -> tuple[StateAlert, ...]:
        """While blind: only what the member still has, since another instance may have ended the rest.

        Unless the member has lost it by itself: it began anew, or has not heard of us for too long.
        """
        if told.taken_at is None or self._monotonic() - told.taken_at >= cluster.keep_for.total_seconds():
            return firing
        up_for, there = member.up_for(self._now()), member.active()
        if isinstance(there, Problem) or up_for is None or up_for < self._monotonic() - told.taken_at:
            return firing
        return tuple(one for one in firing if one.labels in there)

    def _drop_lines(self, wanted: set[tuple[str, str]]) -> None:
        for key in [one for one in self._lines if one not in wanted]:
            self._lines.pop(key).thread.shutdown(wait=False, cancel_futures=True)
