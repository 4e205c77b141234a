"""runs the chosen invariants once each, side by side, and keeps their answers (run)"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from holdtrue.databases import Databases, Examined, Look, examine_invariant
from holdtrue.ledger import KeyHasher
from holdtrue.model import Catalog, Column, Disposition, Failure, Invariant, Outcome, Row

RAW_ROWS = 20
_THREADS_LIMIT = 32


@dataclass(frozen=True, slots=True)
class RawRows:
    """The first rows as the server gave them, unmasked: for the terminal of the one who asked, and nowhere else.

    Rows that count come first; ``dispositions`` are by row.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    dispositions: tuple[Disposition, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """One invariant, asked of one database just now."""

    invariant: Invariant
    database: str
    started_at: datetime
    duration: timedelta
    examined: Examined | None
    failure: Failure | None
    raw: RawRows | None = None

    @property
    def outcome(self) -> Outcome:
        """Held, violated or errored; a look that came to nothing is errored."""
        return self.examined.outcome if self.examined is not None else Outcome.ERRORED


@dataclass(slots=True)
class _Collector:
    columns: tuple[str, ...] = ()
    counted: list[tuple[Row, Disposition]] = field(default_factory=list)
    beside: list[tuple[Row, Disposition]] = field(default_factory=list)

    def begin(self, columns: tuple[Column, ...]) -> Callable[[Row, Disposition], None]:
        # A second try begins again from the start.
        self.columns = tuple(column.name for column in columns)
        self.counted, self.beside = [], []
        return self._take

    def _take(self, row: Row, disposition: Disposition) -> None:
        kept = self.counted if disposition is Disposition.COUNTED else self.beside
        if len(kept) < RAW_ROWS:
            kept.append((row, disposition))

    def result(self) -> RawRows:
        chosen = (self.counted + self.beside)[:RAW_ROWS]
        return RawRows(self.columns, tuple(row for row, _ in chosen), tuple(one for _, one in chosen))


def ask_now(
    databases: Databases,
    catalog: Catalog,
    chosen: Sequence[tuple[Invariant, str]],
    hasher: KeyHasher,
    *,
    raw: bool = False,
    on_done: Callable[[Asked], None] = lambda _: None,
) -> tuple[Asked, ...]:
    """Ask every pair once, side by side within each database's places; the answers in the order of ``chosen``.

    Nothing is saved and nobody is told. With ``raw`` the answers carry unmasked rows and the servers' own messages.
    ``on_done`` is called from this thread, as answers come in.
    """
    places = {one.name: one.places for one in catalog.config.databases}
    zones = {one.name: one.timezone for one in catalog.config.databases}
    # A pool for each database: one that hangs keeps no other waiting.
    pools = {name: ThreadPoolExecutor(min(places.get(name, 1), _THREADS_LIMIT)) for _, name in chosen}
    try:
        futures: list[Future[Asked]] = [
            pools[name].submit(_ask, databases, invariant, name, hasher, timezone=zones.get(name, "UTC"), raw=raw)
            for invariant, name in chosen
        ]
        for future in futures:
            on_done(future.result())
        return tuple(future.result() for future in futures)
    except BaseException:
        # Ctrl-C: what has not begun never begins, what runs is cancelled on its server.
        for pool in pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        databases.interrupt_all()
        raise
    finally:
        for pool in pools.values():
            pool.shutdown(wait=True, cancel_futures=True)


def _ask(
    databases: Databases, invariant: Invariant, database: str, hasher: KeyHasher, *, timezone: str, raw: bool
) -> Asked:
    collector = _Collector()

    def examine(look: Look) -> Examined:
        return examine_invariant(
            look, invariant, hasher=hasher, timezone=timezone, also=collector.begin if raw else None
        )

    started_at, started = datetime.now(UTC), time.monotonic()
    answer = databases.look(database, time_limit=invariant.timeout, newest_good=None, examine=examine, keep_raw=raw)
    duration = timedelta(seconds=time.monotonic() - started)
    failure = answer if isinstance(answer, Failure) else answer.failure
    return Asked(
        invariant=invariant,
        database=database,
        started_at=started_at,
        duration=duration,
        examined=None if isinstance(answer, Failure) else answer,
        failure=failure,
        raw=collector.result() if raw else None,
    )
