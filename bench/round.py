"""One round of 1,000 cheap invariants on a standby: the full path against a bare psycopg loop, in one command.

    python bench/round.py [--invariants 1000] [--rounds 9] [--rows 200000]

Both use four threads with open connections; the rounds alternate, so that a busy machine slows both. R4 is the bare loop:
``SELECT count(*) FROM (invariant)``. The full path picks a replica, opens a read-only transaction with limits and position,
runs the text alone, tallies and judges its rows, and rolls back. Only the ratio travels between machines.
"""

from __future__ import annotations

import argparse
import queue
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import psycopg

from holdtrue.databases import Databases, Examined, examine_invariant
from holdtrue.embedded import EmbeddedPostgres, scratch_folder
from holdtrue.ledger import KeyHasher
from holdtrue.model import DatabaseConfig, Dialect, Interval, Invariant, Outcome, Position, ReplicaConfig, Secret

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

    side_by_side(invariants, bare)
    side_by_side(invariants, full)
    counts.clear()
    outcomes.clear()
    plain, whole = [], []
    for _ in range(rounds):
        plain.append(side_by_side(invariants, bare))
        whole.append(side_by_side(invariants, full))
    assert sum(1 for one in counts if one) == sum(1 for one in outcomes if one is Outcome.VIOLATED)
    databases.close()
    while not connections.empty():
        connections.get().close()
    number = len(invariants)
    for name, taken in (("R4, bare psycopg loop", plain), ("full path", whole)):
        wall = statistics.median(one[0] for one in taken)
        cpu = statistics.median(one[1] for one in taken)
        print(f"{name:24} {wall * 1000:8.0f} ms a round   {cpu / number * 1e6:6.0f} us CPU a check")
    ratios = [two[0] / one[0] for one, two in zip(plain, whole, strict=True)]
    cpus = [two[1] / one[1] for one, two in zip(plain, whole, strict=True)]
    print(
        f"{'ratio of neighbours':24} {statistics.median(ratios):8.2f} x R4 wall   {statistics.median(cpus):6.2f} x CPU"
    )


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
