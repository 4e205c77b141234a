"""A real PgBouncer on loopback in front of a PostgreSQL server, for tests.

    with pooler(postgres_database, mode="transaction") as pool:
        pool.url()

It runs as ``nobody`` when started by root, and ends with the test process in any case.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import psycopg

from holdtrue.embedded import scratch_folder
from servers.keeping import KEEPER, Program, copy_for_servers, identity, may_be_run, own, program
from servers.postgres import FreshDatabase, wait_until

ADMIN = "pooler_admin"
_ADMIN_PASSWORD = "only on loopback"
_STOP_LIMIT = 15.0


class PgBouncer:
    """One pooler with a single database behind it; clients log in with the server's own superuser."""

    def __init__(self, database: FreshDatabase, mode: str, settings: Mapping[str, str]) -> None:
        self.database = database
        self.mode = mode
        self.settings = dict(settings)
        self.port = 0
        self.folder = scratch_folder("holdtrue-test-pgbouncer-")
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        found = program("pgbouncer")
        if not may_be_run(found.path):
            folder = copy_for_servers(found, {found.path: "pgbouncer"})
            found = Program(folder / "pgbouncer", str(folder / "libraries"))
        server = self.database.replica
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = int(one.getsockname()[1])
        users = self.folder / "users"
        users.write_text(f'"postgres" "{server.password}"\n"{ADMIN}" "{_ADMIN_PASSWORD}"\n', encoding="ascii")
        options = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": str(users),
            "admin_users": ADMIN,
            "pool_mode": self.mode,
            "default_pool_size": "2",
            "max_client_conn": "100",
            "server_tls_sslmode": "disable",
            **self.settings,
        }
        lines = [f"{name} = {value}" for name, value in options.items()]
        target = f"* = host=127.0.0.1 port={server.port}"
        (self.folder / "pgbouncer.ini").write_text("\n".join(["[databases]", target, "[pgbouncer]", *lines, ""]))
        own(self.folder)
        with (self.folder / "log").open("ab") as log:
            self._keeper = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, "keeper", str(found.path), str(self.folder / "pgbouncer.ini")],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **identity(found.libraries),
            )
        wait_until(self._answers, f"PgBouncer answers; its log is in {self.folder}")

    def _answers(self) -> bool:
        assert self._keeper is not None
        assert self._keeper.poll() is None, self.log
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, user: str = "postgres", password: str | None = None) -> str:
        """Where a client of the pooler goes."""
        word = self.database.replica.password if password is None else password
        return f"postgresql://{user}:{quote(word, safe='')}@127.0.0.1:{self.port}/{self.database.name}"

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Another client of this pooler, in autocommit; it prepares nothing."""
        options = {"application_name": "other client", "prepare_threshold": None, "autocommit": True, **options}
        return psycopg.connect(self.url(), **options)

    def show(self, what: str) -> list[dict[str, Any]]:
        """A list of PgBouncer's own console: ``servers``, ``clients``, ``pools``."""
        url = f"postgresql://{ADMIN}:{quote(_ADMIN_PASSWORD)}@127.0.0.1:{self.port}/pgbouncer"
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as console:
            cursor = psycopg.ClientCursor(console)
            cursor.execute(f"SHOW {what}".encode())
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def remove(self) -> None:
        """Stop it and delete its folder."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            assert keeper.stdin is not None
            keeper.stdin.close()
            keeper.wait(_STOP_LIMIT)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def pooler(database: FreshDatabase, mode: str = "transaction", **settings: str) -> Iterator[PgBouncer]:
    """A pooler in front of the database's standby, for a block."""
    pool = PgBouncer(database, mode, settings)
    try:
        pool.start()
        yield pool
    finally:
        pool.remove()
