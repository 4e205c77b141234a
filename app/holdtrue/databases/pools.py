"""keeps the places and idle connections of one database"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from holdtrue.databases.choosing import Candidate, order
from holdtrue.databases.looks import Link, ReplicaState
from holdtrue.model import DatabaseConfig, ReplicaConfig

_LINK_LIVES = 3600.0


@dataclass(slots=True)
class Asked:
    """One call of ``look`` from its beginning to its end, so that it can be interrupted anywhere in between."""

    link: Link | None = None
    interrupted: bool = False


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


class Pool:
    """Bounded places for all looks at one database, and idle links by replica. Safe from any thread."""

    def __init__(self, config: DatabaseConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._taken = 0
        self._turn = 0
        self._closed = False
        self._replicas = {one.name: _Replica(one, ReplicaState(config.name, one.name)) for one in config.replicas}

    @property
    def free(self) -> int:
        """How many more looks may run now."""
        with self._lock:
            return max(0, self.config.concurrency - self._taken)

    @property
    def states(self) -> tuple[ReplicaState, ...]:
        """What the last look said of each replica."""
        with self._lock:
            return tuple(one.state for one in self._replicas.values())

    def replica(self, name: str) -> ReplicaConfig:
        """The replica of this name."""
        return self._replicas[name].config

    def enter(self, until: float, asked: Asked) -> bool:
        """Take a place; False if none was free in time, or the look was interrupted meanwhile."""
        with self._lock:
            while self._taken >= self.config.concurrency:
                left = until - time.monotonic()
                if asked.interrupted or left <= 0:
                    return False
                self._changed.wait(left)
            if asked.interrupted:
                return False
            self._taken += 1
            return True

    def leave(self) -> None:
        """Give the place back."""
        with self._lock:
            self._taken -= 1
            self._changed.notify()

    def wake(self) -> None:
        """Let those who wait for a place see that they were interrupted."""
        with self._lock:
            self._changed.notify_all()

    def order(self, without: frozenset[str]) -> tuple[str, ...]:
        """In which order to try the replicas now."""
        with self._lock:
            self._turn += 1
            candidates = [
                Candidate(name, one.state.up, one.busy) for name, one in self._replicas.items() if name not in without
            ]
            return order(candidates, self._turn)

    def borrow(self, replica: str) -> Kept | None:
        """An idle link of this replica, the one used last, or None."""
        with self._lock:
            one = self._replicas[replica]
            one.busy += 1
            return one.idle.pop() if one.idle else None

    def give_back(self, replica: str, kept: Kept | None) -> None:
        """End a use of this replica; a clean link is kept for the next look, or closed if nobody wants it."""
        with self._lock:
            one = self._replicas[replica]
            one.busy -= 1
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
            before = self._replicas[state.replica].state.up
            self._replicas[state.replica].state = state
            return before is not state.up and not (before is None and state.up)

    def close(self) -> None:
        """Close idle links now, and those in use when they come back."""
        with self._lock:
            self._closed = True
        for name in self._replicas:
            self.forget_idle(name)
