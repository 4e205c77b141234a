"""pings a dead-man's switch while Holdtrue does its work, and says why when it does not"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

import structlog

from holdtrue.catalog import resolve_secret
from holdtrue.errors import SettingsRefused
from holdtrue.model import Deadman, show_duration
from holdtrue.notifiers.posting import Posting, Unanswered
from holdtrue.store.records import Backlog

log = structlog.get_logger("holdtrue.deadman")

OWED_FOR = timedelta(minutes=10)
OVERDUE_FOR = timedelta(minutes=2)
TIME_LIMIT = 10.0

Pinged = Literal["taken", "failed", "withheld"]


class Why(StrEnum):
    """Why the switch is pinged, or why not."""

    WELL = "all is well"
    LATELY = "it was pinged a moment ago"
    OVERDUE = "due work is not claimed"
    OWED = "a message is owed for too long"


@dataclass(frozen=True, slots=True)
class Ping:
    """Whether to ping, the named reason, and a sentence for people."""

    why: Why
    sentence: str = ""

    @property
    def withheld(self) -> bool:
        """Whether something is wrong, so that somebody has to be woken from outside."""
        return self.why in (Why.OVERDUE, Why.OWED)


def decide_ping(backlog: Backlog, pinged_at: datetime | None, every: timedelta, now: datetime) -> Ping:
    """What the watch does about the switch now (semantics 7.7).

    Whoever asks has just written to the store and looked over every pair. Due work of a database that has runs under way
    waits for that database and not for us: a monitored database's failure never stops the ping.
    """
    if backlog.due_since is not None and now - backlog.due_since > OVERDUE_FOR:
        return Ping(Why.OVERDUE, f"work has been due for {show_duration(now - backlog.due_since)} and nobody claims it")
    if backlog.owed_since is not None and now - backlog.owed_since > OWED_FOR:
        return Ping(Why.OWED, f"a message has been owed for {show_duration(now - backlog.owed_since)}")
    # One that lies ahead was made before the clock was set back.
    if pinged_at is not None and timedelta(0) <= now - pinged_at < every:
        return Ping(Why.LATELY)
    return Ping(Why.WELL)


@dataclass(frozen=True, slots=True)
class SwitchState:
    """How the switch is, as this process knows it; ``problem`` is empty while it was pinged or another instance does it."""

    taken_at: datetime | None = None
    problem: str = ""
    elsewhere: bool = False


@dataclass(slots=True)
class Switch:
    """The dead-man's switch outside that hears from us; a thread of its own, so that a slow one delays no watch."""

    environ: Mapping[str, str]
    now: Callable[[], datetime]
    counted: Callable[[Pinged], None] = lambda _outcome: None
    time_limit: float = TIME_LIMIT
    _begun_at: datetime | None = None
    _state: SwitchState = field(default_factory=SwitchState)
    _under_way: Future[None] | None = None
    _thread: ThreadPoolExecutor | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def state(self) -> SwitchState:
        """What pages and metrics show."""
        return self._state

    def held_elsewhere(self) -> None:
        """Another instance has the watch, and pings."""
        self._begun_at = None
        self._state = SwitchState(self._state.taken_at, elsewhere=True)

    def look(self, config: Deadman, backlog: Backlog, slack: timedelta, now: datetime) -> Ping:
        """Decide, and ping if it is time; ``slack`` is how much earlier than due is early enough. Returns at once."""
        ping = decide_ping(backlog, self._begun_at, config.every - slack, now)
        if ping.withheld:
            self._withhold(ping.sentence)
        elif ping.why is Why.WELL:
            with self._lock:
                if self._under_way is not None and not self._under_way.done():
                    return Ping(Why.LATELY)
                self._begun_at = now
                if self._thread is None:
                    self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="deadman")
                self._under_way = self._thread.submit(self._ping, config)
        return ping

    def stop(self) -> None:
        """Ping no more."""
        with self._lock:
            if self._thread is not None:
                self._thread.shutdown(wait=False, cancel_futures=True)

    def wait_until_idle(self, within: float) -> None:
        """Wait for a ping under way."""
        if self._under_way is not None:
            self._under_way.exception(timeout=within)

    def _withhold(self, sentence: str) -> None:
        if self._state.problem != sentence:
            log.error("deadman_withheld", why=sentence)
        self._state = SwitchState(self._state.taken_at, f"not pinged: {sentence}")
        self.counted("withheld")

    def _ping(self, config: Deadman) -> None:
        problem = self._ask(config)
        if problem:
            log.warning("deadman_not_pinged", problem=problem)
            self._state = SwitchState(self._state.taken_at, problem)
            # Again at the watch's next round: a switch that hears nothing wakes somebody.
            self._begun_at = None
        else:
            self._state = SwitchState(self.now())
        self.counted("failed" if problem else "taken")

    def _ask(self, config: Deadman) -> str:
        """What went wrong, in our own words: neither the address nor what it answered, since both may hold a secret."""
        try:
            url = resolve_secret(config.url, self.environ)
        except SettingsRefused as problem:
            return f"the secret cannot be read: {problem.message}"
        answer = Posting(time_limit=self.time_limit, size_limit=0).ask("GET", url)
        if isinstance(answer, Unanswered):
            return answer.sentence
        if answer.status // 100 == 2:
            return ""
        where = ", which is not followed" if answer.status // 100 == 3 else ""
        return f"it answered {answer.status}{where}"
