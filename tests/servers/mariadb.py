"""A real MariaDB primary and its real replica, for tests.

    primary = MariadbPrimary()
    primary.start()
    replica = primary.replica()
    primary.create_database("payments")
    wait_for_replica(replica)
    replica.url("payments")

Both are removed by ``remove()`` (the primary's removes its replicas), and end with the test process in any case.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymysql

from servers.keeping import KEEPER, Program, copy_for_servers, identity, may_be_run, own, program
from servers.postgres import WAIT_LIMIT, wait_until

ADMIN = "admin"
READER = "holdtrue"
_START_LIMIT = 60.0
_STOP_LIMIT = 15.0
_BOOTSTRAP = (
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
)
_SETTINGS: Mapping[str, str] = {
    "bind-address": "127.0.0.1",
    "character-set-server": "utf8mb4",
    "skip-name-resolve": "ON",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-flush-method": "nosync",
    "sync-binlog": "0",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "log-slave-updates": "ON",
    "gtid-strict-mode": "ON",
    "log-bin-trust-function-creators": "ON",
    "performance-schema": "OFF",
    "slave-net-timeout": "60",
    "lc-messages": "en_US",
    "default-time-zone": "+00:00",
}


@dataclass(frozen=True)
class _Programs:
    server: Path
    libraries: str
    share: Path


@cache
def _programs() -> _Programs:
    """The server as it is on the PATH, or behind the wrapper that scripts/system-deps made, and what lies beside it."""
    found = program("mariadbd")
    for folder in ("share/mysql", "share/mariadb"):
        share = found.path.parents[1] / folder
        if (share / _BOOTSTRAP[0]).exists():
            return _reachable(_Programs(found.path, found.libraries, share))
    raise AssertionError(f"the SQL files of {found.path} were not found beside it")


def _reachable(programs: _Programs) -> _Programs:
    """The same, or a copy of it where ``nobody`` can read it."""
    if may_be_run(programs.server):
        return programs
    found = Program(programs.server, programs.libraries)
    folder = copy_for_servers(found, {programs.server: "mariadbd", programs.share: "share"})
    return _Programs(folder / "mariadbd", str(folder / "libraries"), folder / "share")


def _scratch(prefix: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    own(folder)
    return folder


@cache
def _template() -> Path:
    """A data directory with its system tables, made once a session; servers start on copies."""
    programs = _programs()
    folder = _scratch("holdtrue-test-mariadb-template-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("data", "tmp"):
        (folder / name).mkdir()
    own(folder)
    begin = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"
    statements = begin + "".join(
        (programs.share / name).read_text(encoding="utf-8") for name in _BOOTSTRAP if (programs.share / name).exists()
    )
    # As mariadb-install-db does: no login of root from this machine's other name.
    statements = "".join(line for line in statements.splitlines(True) if "@current_hostname" not in line)
    done = subprocess.run(
        [
            str(programs.server),
            "--no-defaults",
            "--bootstrap",
            *(f"--datadir={folder}/data", f"--tmpdir={folder}/tmp", f"--lc-messages-dir={programs.share}"),
            *("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--log-warnings=0"),
        ],
        input=statements.encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
        **identity(programs.libraries),
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-3000:]
    return folder / "data"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class MariadbServer:
    """What primary and replica have in common: one server with its data in a folder of its own."""

    def __init__(self, number: int, settings: Mapping[str, str] | None = None) -> None:
        self.number = number
        self.settings = dict(settings or {})
        self.port = 0
        self.password = secrets.token_urlsafe(12)
        self.reader_password = secrets.token_urlsafe(12)
        self.folder: Path | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        assert self.folder is not None
        return self.folder / "server.log"

    def start(self) -> None:
        """Make the data if there is none, start, and wait until it answers."""
        if self._keeper is not None:
            return
        fresh = self.folder is None
        if self.folder is None:
            self.folder = _scratch("holdtrue-test-mariadb-")
            shutil.copytree(_template(), self.folder / "data")
            (self.folder / "tmp").mkdir()
        self.port = self.port or _free_port()
        programs, folder = _programs(), self.folder
        options = {
            **_SETTINGS,
            **self.settings,
            "server-id": str(self.number),
            "port": str(self.port),
            "datadir": str(folder / "data"),
            "tmpdir": str(folder / "tmp"),
            "socket": str(folder / "tmp" / "s"),
            "pid-file": str(folder / "pid"),
            "lc-messages-dir": str(programs.share),
            "general-log-file": str(folder / "general.log"),
        }
        if fresh:
            # Read by the server as its first statements, before anybody can connect.
            accounts = folder / "accounts.sql"
            accounts.write_text(self._accounts(), encoding="ascii")
            options["init-file"] = str(accounts)
        (folder / "my.cnf").write_text(
            "[mariadbd]\n" + "".join(f"{name}={value}\n" for name, value in options.items()), encoding="ascii"
        )
        own(folder)
        with self.log_file.open("ab") as log:
            self._keeper = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, "keeper", str(programs.server), f"--defaults-file={folder}/my.cnf"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **identity(programs.libraries),
            )
        atexit.register(self.stop)
        wait_until(self._answers, f"MariaDB answers; see {self.log_file}", _START_LIMIT)
        if fresh:
            self.execute("RESET MASTER")

    def _accounts(self) -> str:
        rights = "REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR"
        lines = [
            "SET SESSION sql_log_bin = 0",
            f"CREATE USER {ADMIN}@'%' IDENTIFIED BY '{self.password}'",
            f"GRANT ALL PRIVILEGES ON *.* TO {ADMIN}@'%' WITH GRANT OPTION",
            f"CREATE USER {READER}@'%' IDENTIFIED BY '{self.reader_password}'",
            f"GRANT SELECT, SHOW VIEW ON *.* TO {READER}@'%'",
            f"GRANT {rights} ON *.* TO {READER}@'%'",
            "SET SESSION sql_log_bin = 1",
        ]
        return "".join(f"{line};\n" for line in lines)

    def _answers(self) -> bool:
        assert self._keeper is not None
        assert self._keeper.poll() is None, self.log_file.read_text(encoding="utf-8", errors="replace")[-3000:]
        try:
            self.connect(read_timeout=5).close()
        except pymysql.err.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Stop the server, ending its sessions; data stays."""
        keeper, self._keeper = self._keeper, None
        atexit.unregister(self.stop)
        if keeper is None:
            return
        assert keeper.stdin is not None
        with contextlib.suppress(OSError):
            keeper.stdin.close()
        try:
            keeper.wait(_STOP_LIMIT)
        except subprocess.TimeoutExpired:
            assert self.folder is not None
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((self.folder / "pid").read_text(encoding="ascii")), 9)
            keeper.wait(_STOP_LIMIT)

    def remove(self) -> None:
        """Stop the server and delete its data."""
        self.stop()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "", user: str = READER, password: str | None = None) -> str:
        """A URL of this server; the reader is the login that Holdtrue has: SELECT and the replica's status alone."""
        known = {READER: self.reader_password, ADMIN: self.password}
        word = known.get(user, "") if password is None else password
        login = quote(user, safe="") + (f":{quote(word, safe='')}" if word else "")
        return f"mysql://{login}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def connect(self, database: str = "", **options: Any) -> pymysql.Connection[Any]:
        """The administrator's connection, in autocommit."""
        options = {"user": ADMIN, "password": self.password, "autocommit": True, **options}
        return pymysql.connect(
            host="127.0.0.1", port=self.port, database=database or None, charset="utf8mb4", connect_timeout=5, **options
        )

    def execute(self, statements: str | Sequence[str], database: str = "") -> None:
        """Run statements one by one in autocommit, in one session."""
        with contextlib.closing(self.connect(database)) as connection, connection.cursor() as cursor:
            for statement in [statements] if isinstance(statements, str) else statements:
                cursor.execute(statement)

    def query(self, text: str, database: str = "") -> list[tuple[Any, ...]]:
        """All rows of one statement."""
        with contextlib.closing(self.connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def value(self, text: str, database: str = "") -> Any:
        """The first cell of the first row."""
        return self.query(text, database)[0][0]

    def status(self) -> dict[str, Any]:
        """SHOW SLAVE STATUS, by name; empty on a primary."""
        with contextlib.closing(self.connect()) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            return dict(cursor.fetchone() or {})


class MariadbReplica(MariadbServer):
    """A replica by GTID; read-only."""

    def __init__(self, number: int, primary: MariadbPrimary, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(number, {"read-only": "ON", **(settings or {})})
        self.primary = primary
        self.password, self.reader_password = primary.password, primary.reader_password

    def follow(self) -> None:
        """Begin to replicate from the primary's first transaction."""
        source = f"MASTER_HOST='127.0.0.1', MASTER_PORT={self.primary.port}"
        login = f"MASTER_USER='{ADMIN}', MASTER_PASSWORD='{self.primary.password}'"
        how = "MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1, MASTER_HEARTBEAT_PERIOD=1"
        self.execute([f"CHANGE MASTER TO {source}, {login}, {how}", "START SLAVE"])
        self.wait_running()

    def wait_running(self) -> None:
        """Wait until both threads run and the lag is known."""
        wait_until(
            lambda: (
                (now := self.status())["Slave_IO_Running"] == "Yes"
                and now["Slave_SQL_Running"] == "Yes"
                and now["Seconds_Behind_Master"] is not None
            ),
            "the replica's threads run",
        )

    def resume(self) -> None:
        """Start the threads again and wait until the replica has everything."""
        self.execute("START SLAVE")
        self.wait_running()
        wait_for_replica(self)


class MariadbPrimary(MariadbServer):
    """A primary; ``replica()`` makes and starts a replica of it."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(1, settings)
        self.replicas: list[MariadbReplica] = []

    def replica(self, settings: Mapping[str, str] | None = None) -> MariadbReplica:
        replica = MariadbReplica(len(self.replicas) + 2, self, settings)
        self.replicas.append(replica)
        replica.start()
        replica.follow()
        wait_for_replica(replica)
        return replica

    def create_database(self, name: str) -> None:
        """A new empty database, on its replicas as well when this returns."""
        self.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        for replica in self.replicas:
            wait_for_replica(replica)

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")

    def remove(self) -> None:
        for replica in self.replicas:
            replica.remove()
        self.replicas.clear()
        super().remove()


@dataclass(frozen=True)
class FreshMariadb:
    """A database of one test, on the primary and, by replication, on the replica."""

    name: str
    primary: MariadbPrimary
    replica: MariadbReplica

    @property
    def replica_url(self) -> str:
        return self.replica.url(self.name)

    @property
    def primary_url(self) -> str:
        return self.primary.url(self.name)

    def execute(self, statements: str | Sequence[str]) -> None:
        """Run statements on the primary, and wait until the replica has them."""
        self.primary.execute(statements, self.name)
        wait_for_replica(self.replica)

    def value(self, text: str) -> Any:
        return self.primary.value(text, self.name)


def wait_for_replica(replica: MariadbReplica, limit: float = WAIT_LIMIT) -> None:
    """Wait until the replica has applied everything that is committed on the primary by now."""
    target = replica.primary.value("SELECT @@gtid_binlog_pos")
    if not target:
        return
    assert replica.value(f"SELECT MASTER_GTID_WAIT('{target}', {limit:g})") == 0, replica.status().get("Last_Error")


@contextmanager
def started(settings: Mapping[str, str] | None = None, *, replicas: int = 0) -> Iterator[MariadbPrimary]:
    """A primary of one's own for a block; servers that others use must not be stopped."""
    primary = MariadbPrimary(settings)
    try:
        primary.start()
        for _ in range(replicas):
            primary.replica()
        yield primary
    finally:
        primary.remove()
