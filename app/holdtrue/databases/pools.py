"""keeps the places and idle connections of each replica of one database"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from holdtrue.databases.choosing import BAD, Candidate, choose
from holdtrue.databases.looks import Link, ReplicaState
from holdtrue.model import DatabaseConfig, ReplicaConfig

_LINK_LIVES = 3600.0
_CHECKED_AGAIN_AFTER = 30.0


@dataclass(slots=True)
class Asked:
    """One call of ``look`` from its beginning to its end, so that it can be interrupted anywhere in between.

    ``woken`` is set when there is something new for it while it connects.
    """

    link: Link | None = None
    interrupted: bool = False
    woken: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Kept:
    """A link and when it was made: passwords rotate, so no link is kept for ever."""

    link: Link
    made_at: float


@dataclass(slots=True)
class _Replica:
    config: ReplicaConfig
    state: ReplicaState
    idle: list[Kept] = field(default_factory=list)
    busy: int = 0
    checked: float = 0.0


class Pool:
    """Bounded places and idle links, for each replica its own: a sick one takes no place of another. Safe from any thread."""

    def __init__(self, config: DatabaseConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._turn = 0
        self._closed = False
        self._replicas = {one.name: _Replica(one, ReplicaState(config.name, one.name)) for one in config.replicas}

    @property
    def free(self) -> int:
        """How many more looks would find a place on a replica that is not known to be bad; if all are, on any."""
        with self._lock:
            worth = [one for one in self._replicas.values() if one.state.up is not False]
            return sum(self.config.concurrency - one.busy for one in worth or self._replicas.values())

    @property
    def states(self) -> tuple[ReplicaState, ...]:
        """What the last look said of each replica."""
        with self._lock:
            return tuple(one.state for one in self._replicas.values())

    def replica(self, name: str) -> ReplicaConfig:
        """The replica of this name."""
        return self._replicas[name].config

    def take(self, without: frozenset[str], until: float, asked: Asked, rather_not: str = "") -> str | None:
        """Take a place on the replica to ask next; None if there was none in time, or the look was interrupted.

        ``rather_not`` is taken only where no other that is worth asking has a place.
        """
        with self._lock:
            self._turn += 1
            turn = self._turn
            while not asked.interrupted:
                name = choose(self._candidates(without), turn, self.config.concurrency, rather_not)
                if name is not None:
                    self._replicas[name].busy += 1
                    return name
                left = until - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            return None

    def is_hopeful(self, without: frozenset[str]) -> bool:
        """Whether there is another replica that is not known to be bad: time is to be left for it."""
        with self._lock:
            return any(one.rank < BAD for one in self._candidates(without))

    def _candidates(self, without: frozenset[str]) -> list[Candidate]:
        return [
            Candidate(name, one.state.up, one.busy, near=self._is_near(one.state))
            for name, one in self._replicas.items()
            if name not in without
        ]

    def _is_near(self, state: ReplicaState) -> bool:
        return state.lag is None or state.lag <= self.config.max_lag / 2

    def wake(self) -> None:
        """Let those who wait for a place see that they were interrupted."""
        with self._lock:
            self._changed.notify_all()

    def idle_link(self, replica: str) -> Kept | None:
        """An idle link of this replica, the one used last, or None; whoever asks has a place on it."""
        with self._lock:
            idle = self._replicas[replica].idle
            return idle.pop() if idle else None

    def give_back(self, replica: str, kept: Kept | None) -> None:
        """Give the place back; a clean link is kept for the next look, or closed if nobody wants it."""
        with self._lock:
            one = self._replicas[replica]
            one.busy -= 1
            self._changed.notify_all()
            if kept is not None and not self._closed and time.monotonic() - kept.made_at < _LINK_LIVES:
                one.idle.append(kept)
                return
        if kept is not None:
            kept.link.close()

    def forget_idle(self, replica: str) -> None:
        """Close the idle links of a replica whose server went away: they went with it."""
        with self._lock:
            idle, self._replicas[replica].idle = self._replicas[replica].idle, []
        for one in idle:
            one.link.close()

    def note(self, state: ReplicaState) -> bool:
        """Keep what a look said of a replica; True if it became usable or unusable by it."""
        with self._lock:
            one = self._replicas[state.replica]
            before, one.state, one.checked = one.state, state, time.monotonic()
            if (before.up, self._is_near(before)) != (state.up, self._is_near(state)):
                # Only then may whoever waits for a place be sent elsewhere.
                self._changed.notify_all()
            return before.up is not state.up and not (before.up is None and state.up)

    def take_for_check(self) -> str | None:
        """A place on a replica that no run asks because another is better: it was never asked, or not for some time.

        Nobody would notice otherwise that it is well. Where none is known to be good, the runs themselves ask them all.
        """
        with self._lock:
            if self._closed or not any(one.state.up for one in self._replicas.values()):
                return None
            now = time.monotonic()
            for name, one in self._replicas.items():
                if one.state.up and self._is_near(one.state):
                    continue
                if not one.busy and (not one.checked or now - one.checked >= _CHECKED_AGAIN_AFTER):
                    one.busy += 1
                    one.checked = now
                    return name
            return None

    def close(self) -> None:
        """Close idle links now, and those in use when they come back."""
        with self._lock:
            self._closed = True
        for name in self._replicas:
            self.forget_idle(name)
