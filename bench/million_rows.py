"""Peak memory on a million violating rows: resident size before, at its peak and after.

    python bench/million_rows.py [--rows 1000000]

The rows are 200 bytes wide, the limit is lifted to five minutes, the ledger keeps 10,000 keys. Linux only (it reads /proc).
"""

from __future__ import annotations

import argparse
import gc
import threading
import time
from datetime import timedelta
from pathlib import Path

import psycopg

from holdtrue.databases import Databases, Examined, examine_invariant
from holdtrue.embedded import EmbeddedPostgres, scratch_folder
from holdtrue.ledger import KeyHasher
from holdtrue.model import DatabaseConfig, Dialect, Interval, Invariant, ReplicaConfig, Secret


def resident() -> float:
    """Resident MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


class Watch:
    """Samples the resident size every 20 ms."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.02):
            self.peak = max(self.peak, resident())


def main() -> None:
    """Make the rows, warm up on one of them, measure on all."""
    parser = argparse.ArgumentParser(description="Peak memory on a million violating rows.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    server = EmbeddedPostgres(scratch_folder())
    try:
        server.start()
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(
                f"CREATE TABLE big AS SELECT g AS id, repeat('x', 200) AS pad FROM generate_series(1, {rows}) g"
            )
        databases = Databases(environ={})
        replica = ReplicaConfig("r1", Secret(server.url()))
        databases.configure([DatabaseConfig("db", Dialect.POSTGRESQL, (replica,), allow_primary=True)])
        hasher = KeyHasher(b"a secret of this measurement alone")

        def ask(sql: str) -> Examined:
            asked = Invariant("big", sql, ("db",), Interval(timedelta(minutes=15)), "d", key=("id",))
            answer = databases.look(
                "db",
                time_limit=timedelta(minutes=5),
                newest_good=None,
                ahead=sql,
                examine=lambda look: examine_invariant(look, asked, hasher=hasher, never_seen=lambda _t, _c: ()),
            )
            if not isinstance(answer, Examined):
                raise SystemExit(f"could not look: {answer.sentence}")
            return answer

        ask("SELECT id, pad FROM big WHERE id = 1")
        gc.collect()
        before, started = resident(), time.perf_counter()
        with Watch() as watch:
            answer = ask("SELECT id, pad FROM big WHERE id > 0")
        taken = time.perf_counter() - started
        counted, complete, keys = answer.tallied.counted, answer.complete, len(answer.tallied.keys)
        del answer
        gc.collect()
        databases.close()
        print(
            f"{counted} rows (complete: {complete}), {keys} keys kept, {taken:.1f} s, {taken / rows * 1e6:.1f} us a row"
        )
        print(
            f"RSS before {before:.0f} MiB, peak {watch.peak:.0f} MiB (+{watch.peak - before:.0f}), after {resident():.0f} MiB"
        )
    finally:
        server.remove()


if __name__ == "__main__":
    main()
