"""asks a replica for a person, outside the schedule, and saves nothing (run, diff, explain, doctor)"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdtrue.catalog import nearest
from holdtrue.databases import Databases, Examined, Look, examine_invariant
from holdtrue.errors import NotFound, Refused
from holdtrue.ledger import KeyHasher
from holdtrue.model import Catalog, Column, Failure, Invariant, Outcome, Row

SELECTORS = ("tag", "owner", "database")
RAW_ROWS = 20
_THREADS_LIMIT = 32


@dataclass(frozen=True, slots=True)
class RawRows:
    """The first rows as the server gave them, unmasked: for the terminal of the one who asked, and nowhere else."""

    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


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
    rows: list[Row] = field(default_factory=list)

    def begin(self, columns: tuple[Column, ...]) -> Callable[[Row], None]:
        # A second try begins again from the start.
        self.columns = tuple(column.name for column in columns)
        self.rows = []
        return self._take

    def _take(self, row: Row) -> None:
        if len(self.rows) < RAW_ROWS:
            self.rows.append(row)


def choose(catalog: Catalog, names: Sequence[str], selectors: Sequence[str]) -> tuple[tuple[Invariant, str], ...]:
    """The pairs to ask, in the catalog's order.

    Names narrow to these invariants. Selectors of one kind are alternatives, different kinds must all match:
    ``tag:money``, ``owner:payments-oncall``, ``database:payments``.

    Raises:
        NotFound: a name is no invariant's, or nothing matches: asking nothing must never look like good news.
        Refused: a selector is of no known kind.
    """
    known = {one.name for one in catalog.invariants}
    for name in names:
        if name not in known:
            meant = nearest(name, known)
            raise NotFound(
                f"there is no invariant {name!r} in the catalog",
                remedy=f"did you mean {meant!r}?" if meant else "`holdtrue check` reads the catalog",
            )
    wanted: dict[str, set[str]] = {}
    for selector in selectors:
        kind, colon, value = selector.partition(":")
        if kind not in SELECTORS or not colon or not value:
            raise Refused(f"--select {selector!r} is not understood", remedy="write tag:…, owner:… or database:…")
        wanted.setdefault(kind, set()).add(value)

    def matches(invariant: Invariant, database: str) -> bool:
        has = {"tag": set(invariant.tags), "owner": {invariant.owner}, "database": {database}}
        return (not names or invariant.name in names) and all(has[kind] & values for kind, values in wanted.items())

    chosen = tuple(pair for pair in catalog.entries() if matches(*pair))
    if not chosen:
        raise NotFound("nothing matches, so nothing was asked", remedy="give other names or --select, or none")
    return chosen


@contextmanager
def connected(catalog: Catalog, environ: Mapping[str, str], folder: Path) -> Iterator[Databases]:
    """The catalog's databases, with the caller's own login; on the way out running statements are cancelled.

    Relative SQLite files lie in ``folder``: that of ``holdtrue.yaml``.
    """
    databases = Databases(environ=environ, application_name="holdtrue run", folder=folder)
    databases.configure(catalog.config.databases)
    try:
        yield databases
    finally:
        databases.interrupt_all()
        databases.close()


def ask_now(
    databases: Databases,
    catalog: Catalog,
    chosen: Sequence[tuple[Invariant, str]],
    hasher: KeyHasher,
    *,
    raw: bool = False,
    on_done: Callable[[Asked], None] = lambda _: None,
) -> tuple[Asked, ...]:
    """Ask every pair once, side by side within each database's ``concurrency``; the answers in the order of ``chosen``.

    Nothing is saved and nobody is told. With ``raw`` the answers carry unmasked rows and the servers' own messages.
    ``on_done`` is called from this thread, as answers come in.
    """
    places = {one.name: one.concurrency for one in catalog.config.databases}
    # A pool for each database: one that hangs keeps no other waiting.
    pools = {name: ThreadPoolExecutor(min(places.get(name, 1), _THREADS_LIMIT)) for _, name in chosen}
    try:
        futures: list[Future[Asked]] = [
            pools[name].submit(_ask, databases, invariant, name, hasher, raw=raw) for invariant, name in chosen
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


def _ask(databases: Databases, invariant: Invariant, database: str, hasher: KeyHasher, *, raw: bool) -> Asked:
    collector = _Collector()

    def examine(look: Look) -> Examined:
        return examine_invariant(look, invariant, hasher=hasher, also=collector.begin if raw else None)

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
        raw=RawRows(collector.columns, tuple(collector.rows)) if raw else None,
    )
