"""asks the right replica of a database, within bounded places and time"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import structlog

from holdtrue.databases.choosing import speak_for
from holdtrue.databases.connecting import INTERRUPTED, connect_aside
from holdtrue.databases.dialects import driver_for
from holdtrue.databases.facts import Told, ask_facts
from holdtrue.databases.freshness import check_position
from holdtrue.databases.looks import Ahead, DialectDriver, Examined, Limits, Link, Look, ReplicaState
from holdtrue.databases.pools import Asked, Kept, Pool
from holdtrue.errors import NotFound
from holdtrue.model import DatabaseConfig, Dialect, Failure, FailureReason, Outcome, Position

log = structlog.get_logger("holdtrue.databases")

T = TypeVar("T")

_SETTLE_TRIES = 3
_SETTLE_PAUSE = 0.05
_SHORTEST = 0.05
_PATIENCE = 0.25
_CHECK_SECONDS = timedelta(seconds=10)
_ONCE_MORE = frozenset({FailureReason.CONFLICT, FailureReason.LOST, FailureReason.REFUSED})
_GONE = frozenset({FailureReason.LOST, FailureReason.REFUSED})


class Databases:
    """Every monitored database of the catalog in force. Safe from any thread; ``look`` blocks the thread that calls it."""

    def __init__(
        self, *, environ: Mapping[str, str], application_name: str = "holdtrue", folder: Path = Path()
    ) -> None:
        """Connect with secrets from ``environ``, under ``application_name`` where the server shows one.

        Relative SQLite files lie in ``folder``: that of ``holdtrue.yaml``.
        """
        self._folder = folder
        self._environ = environ
        self._application_name = application_name
        self._lock = threading.Lock()
        self._pools: dict[str, Pool] = {}
        self._drivers: dict[Dialect, DialectDriver] = {}
        self._running: dict[int, Asked] = {}

    def configure(self, configs: Sequence[DatabaseConfig]) -> None:
        """Take over a catalog's databases; pools of unchanged ones survive, the others' idle connections are closed."""
        with self._lock:
            before = self._pools
            self._pools = {
                one.name: before[one.name] if one.name in before and before[one.name].config == one else Pool(one)
                for one in configs
            }
            left = [pool for name, pool in before.items() if self._pools.get(name) is not pool]
        for pool in left:
            pool.close()

    def look(
        self,
        database: str,
        *,
        time_limit: timedelta,
        newest_good: Position | None,
        examine: Callable[[Look], T],
        accepted_system: str | None = None,
        keep_raw: bool = False,
        ahead: str | None = None,
        wait: timedelta | None = None,
        rather_not: str = "",
    ) -> T | Failure:
        """Examine one read-only transaction on a replica that is fresh enough and not behind ``newest_good``.

        Waits for a place at most ``wait`` (``time_limit`` without one), then has ``time_limit`` for connecting and for the
        text. A recovery conflict, a lost or a refused connection is tried once more, on another replica if there is one
        (semantics 2.4); ``examine`` is then called again from the start. A replica that does not answer takes at most half of
        the time while there is another to ask. ``rather_not`` is a replica that is asked only if no other has a place.

        ``ahead`` is the text that ``examine`` will stream before anything else: a dialect may save a round trip by it.

        Raises:
            NotFound: there is no such database.
        """
        pool = self._pool(database)
        driver = self._driver(pool.config.dialect)
        if isinstance(driver, Failure):
            return driver
        self._check_in_passing(pool, driver)
        with self._under_way() as asked:
            patience = time_limit if wait is None else wait
            name = pool.take(frozenset(), time.monotonic() + patience.total_seconds(), asked, rather_not)
            if name is None:
                return INTERRUPTED if asked.interrupted else _no_place(pool.config, patience)
            one_look = _OneLook(pool, driver, asked, self._environ, time_limit=time_limit, keep_raw=keep_raw)
            one_look.not_behind(newest_good, accepted_system)
            if ahead is not None:
                one_look.ahead = Ahead(ahead, newest_good)
            return one_look.examine(examine, name)

    @contextlib.contextmanager
    def _under_way(self) -> Iterator[Asked]:
        """Within: a look that ``interrupt_all`` finds."""
        asked = Asked()
        with self._lock:
            self._running[id(asked)] = asked
        try:
            yield asked
        finally:
            with self._lock:
                del self._running[id(asked)]

    def ask_facts(self, database: str, replica: str, *, within: timedelta) -> Told:
        """What one replica and its login tell of themselves, on a connection of its own and outside of the places.

        Raises:
            NotFound: there is no such database.
        """
        config = self._pool(database).config
        driver = driver_for(config.dialect, self._application_name, self._folder)
        if isinstance(driver, Failure):
            return Told(database, replica, reached=False, refused=driver)
        one = self._pool(database).replica(replica)
        return ask_facts(driver, config, one, environ=self._environ, within=within)

    def _check_in_passing(self, pool: Pool, driver: DialectDriver) -> None:
        """Ask a replica that runs avoid whether it is well again: beside them, so that it takes none of their time."""
        name = pool.take_for_check()
        if name is None:
            return

        def check() -> None:
            with self._under_way() as asked:
                _OneLook(pool, driver, asked, self._environ, time_limit=_CHECK_SECONDS, keep_raw=False).check(name)

        threading.Thread(target=check, name=f"holdtrue-check-{pool.config.name}-{name}", daemon=True).start()

    def free_places(self, database: str) -> int:
        """How many more looks at this database would start at once; 0 for an unknown one."""
        with self._lock:
            pool = self._pools.get(database)
        return pool.free if pool is not None else 0

    def replica_states(self) -> tuple[ReplicaState, ...]:
        """What the last look said of every replica."""
        with self._lock:
            pools = tuple(self._pools.values())
        return tuple(state for pool in pools for state in pool.states)

    def interrupt_all(self) -> None:
        """Cancel on the servers every statement that runs now, and end every wait; these looks end as interrupted."""
        with self._lock:
            running, pools = tuple(self._running.values()), tuple(self._pools.values())
        for asked in running:
            asked.interrupted = True
            asked.woken.set()
        for pool in pools:
            pool.wake()
        links = [asked.link for asked in running]
        # Side by side: a server that does not answer must not hold up the cancelling of the others.
        threads = [threading.Thread(target=link.interrupt, daemon=True) for link in links if link is not None]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(3.0)

    def close(self) -> None:
        """Close idle connections; those in use close when their look ends."""
        with self._lock:
            pools = tuple(self._pools.values())
        for pool in pools:
            pool.close()

    def _driver(self, dialect: Dialect) -> DialectDriver | Failure:
        """One for all looks: it may know what former looks left behind."""
        with self._lock:
            if dialect not in self._drivers:
                made = driver_for(dialect, self._application_name, self._folder)
                if isinstance(made, Failure):
                    return made
                self._drivers[dialect] = made
            return self._drivers[dialect]

    def _pool(self, database: str) -> Pool:
        with self._lock:
            pool = self._pools.get(database)
        if pool is None:
            raise NotFound(f"there is no database {database!r} in the catalog")
        return pool


class _OneLook:
    """One call of ``look`` that has its place."""

    def __init__(
        self,
        pool: Pool,
        driver: DialectDriver,
        asked: Asked,
        environ: Mapping[str, str],
        *,
        time_limit: timedelta,
        keep_raw: bool,
    ) -> None:
        self._pool = pool
        self._driver = driver
        self._asked = asked
        self._environ = environ
        self._time_limit = time_limit
        self._newest_good: Position | None = None
        self._accepted_system: str | None = None
        self._keep_raw = keep_raw
        self.ahead: Ahead | None = None
        self._until = time.monotonic() + time_limit.total_seconds()

    def not_behind(self, newest_good: Position | None, accepted_system: str | None) -> None:
        """Pass over replicas behind this position, and servers of another system than its or the accepted one."""
        self._newest_good, self._accepted_system = newest_good, accepted_system

    def examine(self, examine: Callable[[Look], T], name: str) -> T | Failure:
        """Look once, first on the replica ``name`` on which there is a place, and once more where that may help."""
        tried: set[str] = set()
        first = self._once(examine, tried, name)
        if not self._may_help(first) or self._left() < _SHORTEST or self._asked.interrupted:
            return first[0]
        # Another replica if there is one, the same if it is the only one.
        if len(tried) == len(self._pool.config.replicas):
            tried.clear()
        another = self._next(tried)
        if another is None:
            return first[0]
        answer, _ = self._once(examine, tried, another)
        return first[0] if isinstance(answer, Failure) and not isinstance(first[0], Failure) else answer

    def _may_help(self, ended: tuple[T | Failure, Failure | None]) -> bool:
        answer, failure = ended
        if failure is None or failure.reason not in _ONCE_MORE:
            return False
        # Rows that arrived are proof: what is proven is not put at risk by a second try (semantics 3.4).
        return not isinstance(answer, Examined) or answer.outcome is Outcome.ERRORED

    def check(self, name: str) -> None:
        """Open a look on this replica, on which there is a place, only to see and note how it is."""
        kept = None
        clean = False
        try:
            opened = self._open(name, self._pool.idle_link(name), self._until)
            if not isinstance(opened, Failure):
                kept, problem = opened
                self._note(name, kept.link, problem)
                clean = kept.link.end()
        finally:
            self._done(name, kept, clean=clean)

    def _done(self, name: str, kept: Kept | None, *, clean: bool) -> None:
        self._asked.link = None
        if kept is not None and not clean:
            kept.link.close()
        self._pool.give_back(name, kept if clean else None)

    def _left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def _next(self, tried: set[str]) -> str | None:
        """The next replica that was not asked yet, with a place on it."""
        if len(tried) == len(self._pool.config.replicas):
            return None
        return self._pool.take(frozenset(tried), self._until, self._asked)

    def _once(
        self, examine: Callable[[Look], T], tried: set[str], name: str | None
    ) -> tuple[T | Failure, Failure | None]:
        """The answer, and the failure to judge a second try by; ``tried`` gains every replica that was asked."""
        failures: list[tuple[str, Failure]] = []
        while name is not None:
            tried.add(name)
            asked = self._ask(name, examine, tried)
            if not isinstance(asked, Failure):
                return asked
            failures.append((name, asked))
            if asked.reason is FailureReason.INTERRUPTED:
                break
            name = self._next(tried)
        failure = speak_for(failures) if failures else INTERRUPTED
        return failure, failure

    def _ask(
        self, name: str, examine: Callable[[Look], T], tried: set[str]
    ) -> tuple[T | Failure, Failure | None] | Failure:
        """The answer of this replica and its failure; or only why it will not do."""
        kept = None
        clean = False
        try:
            # One that hangs leaves time to ask another that may be well.
            share = 0.5 if self._pool.is_hopeful(frozenset(tried)) else 1.0
            opened = self._open(name, self._pool.idle_link(name), time.monotonic() + self._left() * share)
            if isinstance(opened, Failure):
                return opened
            kept, problem = opened
            self._note(name, kept.link, problem)
            if problem is None:
                problem = check_position(kept.link.position, self._newest_good, self._accepted_system)
            if problem is not None:
                clean = kept.link.end()
                return replace(problem, stood=kept.link.opened)
            answer = examine(kept.link)
            streamed = kept.link.streamed
            clean = kept.link.end()
            return answer, streamed.failure if streamed is not None else None
        finally:
            self._done(name, kept, clean=clean)

    def _open(self, name: str, kept: Kept | None, until: float) -> tuple[Kept, Failure | None] | Failure:
        """A link with its transaction open, and why it will not do if it will not; or why there is none.

        An idle link may have died since its last use: that is no failure of this run, and a new one is made, for which half
        of the time to ``until`` is left.
        """
        if kept is not None:
            now = time.monotonic()
            problem = self._begin(kept.link, now + (until - now) / 2)
            if problem is None or problem.reason not in _GONE or self._asked.interrupted:
                return kept, problem
            kept.link.close()
            self._pool.forget_idle(name)
        connected = self._connect(name, until)
        if isinstance(connected, Failure):
            self._note(name, None, connected)
            return connected
        fresh = Kept(connected, time.monotonic())
        return fresh, self._begin(connected, until)

    def _connect(self, name: str, until: float) -> Link | Failure:
        left = max(_SHORTEST, until - time.monotonic())
        pool, replica, within = self._pool, self._pool.replica(name), timedelta(seconds=left)

        def connect() -> Link | Failure:
            return self._driver.connect(pool.config, replica, environ=self._environ, within=within)

        return connect_aside(connect, self._asked, time.monotonic() + left + _PATIENCE)

    def _begin(self, link: Link, until: float) -> Failure | None:
        """Open the transaction. A lag may be that of one record on its way: asked again, it is gone or it is real."""
        self._asked.link = link
        for turn in range(_SETTLE_TRIES):
            if self._asked.interrupted:
                return INTERRUPTED
            remaining, opening = self._left(), until - time.monotonic()
            limits = Limits.within(timedelta(seconds=remaining), self._time_limit, timedelta(seconds=opening))
            problem = link.open(limits, self._pool.config, keep_raw=self._keep_raw, ahead=self.ahead)
            if problem is None or problem.reason is not FailureReason.LAGGING or turn == _SETTLE_TRIES - 1:
                return problem
            if not link.end():
                return problem
            time.sleep(_SETTLE_PAUSE)
        return problem

    def _note(self, name: str, link: Link | None, problem: Failure | None) -> None:
        if problem is not None and problem.reason is FailureReason.INTERRUPTED:
            return
        position = link.opened if link is not None else None
        state = ReplicaState(
            self._pool.config.name,
            name,
            up=problem is None,
            lag=position.lag if position is not None else None,
            role=position.role if position is not None else "",
            checked_at=datetime.now(UTC),
            problem=problem.sentence if problem is not None else "",
        )
        if self._pool.note(state):
            reason = problem.reason.value if problem is not None else ""
            log.warning("replica_changed", database=state.database, replica=name, up=state.up, reason=reason)


def _no_place(config: DatabaseConfig, patience: timedelta) -> Failure:
    return Failure(
        FailureReason.BUSY,
        f"no place within {patience.total_seconds():g} s: {config.concurrency} looks at each replica that would do run"
        " already (concurrency)",
    )
