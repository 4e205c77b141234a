"""Peak memory on a million violating rows, on each kind of database: resident size before, at its peak and after.

    python bench/million_rows.py [--rows 1000000] [postgresql mariadb sqlite duckdb]

The rows are 200 bytes wide, the limit is lifted to ten minutes, the ledger keeps 10,000 keys. Each kind has a process of its
own. Linux only (it reads /proc). A server that is not installed is left out, and that is said.
"""

from __future__ import annotations

import argparse
import gc
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg

from holdtrue.databases import Databases, Examined, examine_invariant
from holdtrue.embedded import EmbeddedPostgres, scratch_folder
from holdtrue.errors import HoldtrueError
from holdtrue.ledger import KeyHasher
from holdtrue.model import DatabaseConfig, Dialect, Freshness, Interval, Invariant, ReplicaConfig, Secret
from holdtrue.rehearsal.mysql_server import MysqlScratchServer


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


@contextmanager
def postgresql(rows: int) -> Iterator[DatabaseConfig]:
    """A table on a throw-away PostgreSQL."""
    server = EmbeddedPostgres(scratch_folder())
    try:
        server.start()
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(
                f"CREATE TABLE big AS SELECT g AS id, repeat('x', 200) AS pad FROM generate_series(1, {rows}) g"
            )
        yield config(Dialect.POSTGRESQL, server.url())
    finally:
        server.remove()


@contextmanager
def mariadb(rows: int) -> Iterator[DatabaseConfig]:
    """The same on a throw-away MariaDB."""
    import pymysql  # only this kind needs it

    server = MysqlScratchServer({})
    try:
        url = server.url()
        with closing(pymysql.connect(unix_socket=str(server._socket), user="root", autocommit=True)) as connection:
            cursor = connection.cursor()
            cursor.execute("CREATE DATABASE bench")
            cursor.execute(
                "CREATE TABLE bench.big ENGINE = InnoDB AS"
                f" SELECT seq AS id, repeat('x', 200) AS pad FROM bench.seq_1_to_{rows}"
            )
        yield config(Dialect.MYSQL, url.replace("localhost/", "localhost/bench"))
    finally:
        server.close()


@contextmanager
def sqlite(rows: int) -> Iterator[DatabaseConfig]:
    """The same in a SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE big (id INTEGER, pad TEXT)")
            connection.executemany("INSERT INTO big VALUES (?, ?)", ((one, "x" * 200) for one in range(1, rows + 1)))
        yield config(Dialect.SQLITE, f"sqlite:///{path}")


@contextmanager
def duckdb(rows: int) -> Iterator[DatabaseConfig]:
    """The same in a DuckDB file, made by another process: its memory is not ours."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.duckdb"
        text = f"CREATE TABLE big AS SELECT range + 1 AS id, repeat('x', 200) AS pad FROM range({rows})"
        code = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute(sys.argv[2])"
        subprocess.run([sys.executable, "-c", code, str(path), text], check=True)
        yield config(Dialect.OTHER, f"duckdb:///{path}?access_mode=READ_ONLY")


KINDS = {"postgresql": postgresql, "mariadb": mariadb, "sqlite": sqlite, "duckdb": duckdb}


def config(dialect: Dialect, url: str) -> DatabaseConfig:
    """A database whose primary may be asked."""
    one = DatabaseConfig("db", dialect, (ReplicaConfig("r1", Secret(url)),), allow_primary=True)
    return one if dialect in (Dialect.POSTGRESQL, Dialect.MYSQL) else replace(one, freshness=Freshness.NONE)


def asking(databases: Databases) -> Callable[[str], Examined]:
    """What runs one text as an invariant."""
    hasher = KeyHasher(b"a secret of this measurement alone")

    def ask(sql: str) -> Examined:
        asked = Invariant("big", sql, ("db",), Interval(timedelta(minutes=15)), "d", key=("id",))
        answer = databases.look(
            "db",
            time_limit=timedelta(minutes=10),
            newest_good=None,
            ahead=sql,
            examine=lambda look: examine_invariant(look, asked, hasher=hasher, never_seen=lambda _t, _c: ()),
        )
        if not isinstance(answer, Examined):
            raise SystemExit(f"could not look: {answer.sentence}")
        return answer

    return ask


def measure(kind: str, rows: int) -> None:
    """Make the rows, warm up on one of them, measure on all."""
    with KINDS[kind](rows) as database:
        databases = Databases(environ={})
        databases.configure([database])
        ask = asking(databases)
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
            f"{kind}: {counted} rows (complete: {complete}), {keys} keys kept, {taken:.1f} s,"
            f" {taken / rows * 1e6:.1f} us a row; RSS before {before:.0f} MiB, peak {watch.peak:.0f} MiB"
            f" (+{watch.peak - before:.0f}), after {resident():.0f} MiB"
        )


def main() -> None:
    """Measure one kind here, several in a process each."""
    parser = argparse.ArgumentParser(description="Peak memory on a million violating rows.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all if none")
    arguments = parser.parse_args()
    kinds = arguments.kinds or list(KINDS)
    if len(kinds) > 1:
        for kind in kinds:
            subprocess.run([sys.executable, __file__, "--rows", str(arguments.rows), kind], check=False)
        return
    try:
        measure(kinds[0], arguments.rows)
    except HoldtrueError as problem:
        raise SystemExit(f"{kinds[0]} was left out: {problem}") from problem


if __name__ == "__main__":
    main()
