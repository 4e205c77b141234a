"""One round of 1,000 cheap invariants on a standby: the full path against a bare psycopg loop, in one command.

    python bench/round.py [--invariants 1000] [--rounds 9] [--rows 200000]

Both use four threads with open connections; the rounds alternate, so that a busy machine slows both. R4 is the bare loop:
``SELECT count(*) FROM (invariant)``. The full path picks a replica, opens a read-only transaction with limits and position,
runs the text alone, tallies and judges its rows, and rolls back. The recorded round does all of that from the claim to the
record: the lease, the ledger, the decision and the run in a SQLite store. Only the ratios travel between machines.
"""

from __future__ import annotations

import argparse
import queue
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from holdtrue.alerting import withdraw
from holdtrue.databases import Databases, Examined, examine_invariant
from holdtrue.embedded import EmbeddedPostgres, scratch_folder
from holdtrue.ledger import KeyHasher
from holdtrue.metrics import Counters
from holdtrue.model import (
    Catalog,
    DatabaseConfig,
    Dialect,
    Interval,
    Invariant,
    Outcome,
    Position,
    ReplicaConfig,
    Secret,
    ServiceConfig,
)
from holdtrue.monitoring import FormerDefinitions, Monitor, Recorder, decide
from holdtrue.scheduling import entries_of
from holdtrue.store import open_store

THREADS = 4
TABLES = 5
SETTINGS = {"shared_buffers": "512MB", "jit": "off", "max_parallel_workers_per_gather": "0", "autovacuum": "off"}


def texts(count: int, rows: int) -> list[str]:
    """Distinct index-backed joins of about 200 rows; every fiftieth finds one to five rows."""
    made = []
    for number in range(count):
        table, other = number % TABLES, (number + 1) % TABLES
        low = (number * 197) % (rows - 250)
        limit = number % 5 + 1 if number % 50 == 0 else 0
        broken = f"a.id < {low + limit}" if limit else "a.amount < 0"
        made.append(
            f"SELECT a.id, a.amount FROM t{table} a JOIN t{other} b ON b.id = a.id"
            f" WHERE a.id >= {low} AND a.id < {low + 200} AND {broken}"
        )
    return made


def side_by_side(work: Sequence[Any], do: Callable[[Any], None]) -> tuple[float, float]:
    """Seconds of wall and of this process's CPU for all of ``work`` on four threads."""
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for one in work:
        waiting.put(one)

    def worker() -> None:
        while True:
            try:
                one = waiting.get_nowait()
            except queue.Empty:
                return
            do(one)

    threads = [threading.Thread(target=worker) for _ in range(THREADS)]
    wall, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - wall, time.process_time() - cpu


def fill(primary: EmbeddedPostgres, rows: int) -> None:
    """Five tables, one login that may read them and see replication."""
    with psycopg.connect(primary.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE monitor LOGIN PASSWORD 'monitor' IN ROLE pg_monitor, pg_read_all_data")
        for table in range(TABLES):
            connection.execute(
                f"CREATE TABLE t{table} AS SELECT g AS id, g % 97 AS amount, repeat('x', 20) AS pad"
                f" FROM generate_series(1, {rows}) g"
            )
            connection.execute(f"ALTER TABLE t{table} ADD PRIMARY KEY (id)")
        connection.execute("VACUUM (ANALYZE, FREEZE)")


def catch_up(primary: EmbeddedPostgres, standby: EmbeddedPostgres) -> None:
    """Wait until the standby has all of it."""
    with psycopg.connect(primary.url(), autocommit=True) as connection:
        target = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    with psycopg.connect(standby.url(), autocommit=True) as connection:
        while connection.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", target).fetchone() != (True,):
            time.sleep(0.05)


class Recorded:
    """Rounds as the service makes them: claimed, asked, compared, decided and saved in a SQLite store of their own."""

    def __init__(self, databases: Databases, invariants: Sequence[Invariant]) -> None:
        """Install the catalog; the store's clock is ours, so that every round finds everything due."""
        self._folder = scratch_folder()
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._store = open_store(f"sqlite:///{self._folder / 'store.db'}", clock=lambda: self._now)
        self._store.upgrade()
        catalog = Catalog(
            tuple(invariants), ServiceConfig(databases=(DatabaseConfig("db", Dialect.POSTGRESQL, ()),)), (), "bench"
        )
        self._store.catalogs.install(
            (), "bench", "bench", entries_of(catalog, self._now), withdraw=withdraw, notifiers=()
        )
        self._recorder = Recorder(lambda batch: self._store.runs.save(batch, decide))
        self._recorder.start()
        self._count = len(invariants)
        self._monitor = Monitor(
            instance="bench",
            databases=databases,
            before=self._store.runs.before,
            record=self._recorder.record,
            catalog=lambda: catalog,
            notifiers=tuple,
            former=FormerDefinitions(self._store.catalogs.under, {}).find,
            hasher=KeyHasher(b"a secret of this measurement alone"),
            now=lambda: self._now,
            observer=Counters(version="bench"),
        )

    def round(self) -> tuple[float, float]:
        """Seconds of wall and of this process's CPU for one round, from the claims to the last record."""
        self._now += timedelta(minutes=15)
        wall, cpu = time.perf_counter(), time.process_time()
        claims = self._store.leases.acquire(
            instance="bench", free={"db": self._count}, limit=self._count, ttl=timedelta(minutes=5), generation=1
        )
        saved: queue.SimpleQueue[Any] = queue.SimpleQueue()
        side_by_side(claims, lambda claim: saved.put(self._monitor.perform(claim)))
        dropped = [one for _ in claims if (one := saved.get().result(60)).dropped]
        spent = time.perf_counter() - wall, time.process_time() - cpu
        if dropped or len(claims) != self._count:
            raise SystemExit(f"{len(claims)} claimed of {self._count}, {len(dropped)} dropped")
        return spent

    def close(self) -> None:
        """Stop the recorder and delete the store."""
        self._recorder.stop(10)
        self._store.close()
        shutil.rmtree(self._folder)


def measure(url: str, invariants: Sequence[Invariant], rounds: int) -> None:
    """Alternate the two kinds of round and print their medians."""
    hasher = KeyHasher(b"a secret of this measurement alone")
    databases = Databases(environ={})
    databases.configure(
        [DatabaseConfig("db", Dialect.POSTGRESQL, (ReplicaConfig("r1", Secret(url)),), concurrency=THREADS)]
    )
    newest: dict[str, Position] = {}
    outcomes: list[Outcome] = []

    def full(invariant: Invariant) -> None:
        answer = databases.look(
            "db",
            time_limit=invariant.timeout,
            newest_good=newest.get(invariant.name),
            ahead=invariant.sql,
            examine=lambda look: examine_invariant(
                look, invariant, hasher=hasher, never_seen=lambda _tallied, _complete: ()
            ),
        )
        if not isinstance(answer, Examined) or answer.outcome is Outcome.ERRORED:
            raise SystemExit(f"could not look: {answer}")
        newest[invariant.name] = answer.position
        outcomes.append(answer.outcome)

    connections: queue.SimpleQueue[psycopg.Connection[Any]] = queue.SimpleQueue()
    for _ in range(THREADS):
        connections.put(psycopg.connect(url, autocommit=True, prepare_threshold=None))
    counts: list[int] = []

    def bare(invariant: Invariant) -> None:
        connection = connections.get()
        row = connection.execute(f"SELECT count(*) FROM ({invariant.sql}) q".encode()).fetchone()
        counts.append(int(row[0]) if row else -1)
        connections.put(connection)

    recorded = Recorded(databases, invariants)
    side_by_side(invariants, bare)
    side_by_side(invariants, full)
    recorded.round()
    counts.clear()
    outcomes.clear()
    plain, whole, kept = [], [], []
    for _ in range(rounds):
        plain.append(side_by_side(invariants, bare))
        whole.append(side_by_side(invariants, full))
        kept.append(recorded.round())
    recorded.close()
    assert sum(1 for one in counts if one) == sum(1 for one in outcomes if one is Outcome.VIOLATED)
    databases.close()
    while not connections.empty():
        connections.get().close()
    number = len(invariants)
    for name, taken in (("R4, bare psycopg loop", plain), ("full path", whole), ("recorded", kept)):
        wall = statistics.median(one[0] for one in taken)
        cpu = statistics.median(one[1] for one in taken)
        print(f"{name:24} {wall * 1000:8.0f} ms a round   {cpu / number * 1e6:6.0f} us CPU a check")
    for name, taken in (("full path", whole), ("recorded", kept)):
        ratio = statistics.median(two[0] / one[0] for one, two in zip(plain, taken, strict=True))
        cpu = statistics.median(two[1] / one[1] for one, two in zip(plain, taken, strict=True))
        print(f"{name + ', neighbours':24} {ratio:8.2f} x R4 wall   {cpu:6.2f} x CPU")


def main() -> None:
    """Start the servers, measure, and take them away."""
    parser = argparse.ArgumentParser(description="One round of cheap invariants against a bare psycopg loop.")
    parser.add_argument("--invariants", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", type=int, default=200_000)
    chosen = parser.parse_args()
    primary = EmbeddedPostgres(scratch_folder(), settings=SETTINGS)
    standby = EmbeddedPostgres.standby_of(primary, scratch_folder(), settings=SETTINGS)
    try:
        primary.start()
        standby.start()
        fill(primary, chosen.rows)
        catch_up(primary, standby)
        made = [
            Invariant(f"i{number}", sql, ("db",), Interval(timedelta(minutes=15)), "d", key=("id",))
            for number, sql in enumerate(texts(chosen.invariants, chosen.rows))
        ]
        measure(standby.url("postgres", "monitor", "monitor"), made, chosen.rounds)
    finally:
        standby.remove()
        primary.remove()


if __name__ == "__main__":
    main()
