"""the MariaDB or MySQL server on which scratch databases are made: the one that is named, or a mariadbd of our own"""

from __future__ import annotations

import contextlib
import os
import pwd
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

from holdtrue.rehearsal.scratch import ScratchFailed

MYSQL_URL_VARIABLE: Final = "HOLDTRUE_SCRATCH_MYSQL_URL"
_PROGRAM: Final = "mariadbd"
_BESIDE_THE_PATH: Final = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin"
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 15.0
# The server lives as long as the pipe on descriptor 3 is open, which is as long as we live: no orphan after a SIGKILL.
_KEEPER: Final = (
    'exec 3<&0; "$@" </dev/null 3<&- & child=$!; read -r _ <&3; kill -TERM "$child" 2>/dev/null; wait "$child"'
)


class MysqlScratchServer:
    """Starts a server at the first call if none is named in ``environ``; it ends with us.

    Ours knows no logins and no network: it listens on a socket in a folder that nobody else may enter.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        """``environ`` may name the server in HOLDTRUE_SCRATCH_MYSQL_URL."""
        self._environ = environ
        self._folder: Path | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the server is a throw-away one, on which there is nothing of anybody else's."""
        return not self._environ.get(MYSQL_URL_VARIABLE, "")

    def url(self) -> str:
        """A URL whose login may create databases and, on a named server, users.

        Raises:
            ScratchFailed: no server is named, and none can be started.
        """
        if not self.is_ours:
            return self._environ[MYSQL_URL_VARIABLE]
        if self._folder is None:
            self._start()
        return f"mysql://root@localhost/?unix_socket={quote(str(self._socket), safe='')}"

    @property
    def _socket(self) -> Path:
        return (self._folder or Path()) / "s"

    def _start(self) -> None:
        program = shutil.which(_PROGRAM, path=self._environ.get("PATH")) or shutil.which(
            _PROGRAM, path=_BESIDE_THE_PATH
        )
        if program is None:
            raise ScratchFailed(
                "there is no MariaDB for a scratch database",
                remedy=f"set {MYSQL_URL_VARIABLE} to a server whose login may create databases and users, or install"
                " mariadb-server: its mariadbd is started when it is found on the PATH",
            )
        self._folder = folder = Path(tempfile.mkdtemp(prefix="holdtrue-mariadb-"))
        for name in ("data", "work", "plugins"):
            (folder / name).mkdir()
        options: dict[str, Any] = {}
        as_user = []
        if os.getuid() == 0 and _anybody_may_run(Path(program)):
            account = pwd.getpwnam("nobody")
            options = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            for path in (folder, *folder.iterdir()):
                os.chown(path, account.pw_uid, account.pw_gid)
        elif os.getuid() == 0:
            as_user = ["--user=root"]
        arguments = [
            *("--no-defaults", f"--datadir={folder}/data", f"--tmpdir={folder}/work", f"--socket={self._socket}"),
            *(f"--pid-file={folder}/pid", "--skip-networking", "--skip-grant-tables", "--skip-log-bin", *as_user),
            *("--local-infile=OFF", f"--secure-file-priv={folder}/work", f"--plugin-dir={folder}/plugins"),
            *("--character-set-server=utf8mb4", "--default-time-zone=+00:00", "--performance-schema=OFF"),
            *("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0"),
        ]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("MYSQL")}
        with (folder / "log").open("wb") as log:
            self._keeper = subprocess.Popen(  # noqa: S603  our own constant script, and the server on the PATH
                ["/bin/sh", "-c", _KEEPER, "keeper", program, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours to handle: it must not stop the server under its clients
                env={**environ, "LC_ALL": "C", "TZ": "UTC"},
                cwd="/",
                **options,
            )
        self._wait(program)

    def _wait(self, program: str) -> None:
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self._socket))
                return
            if self._keeper is None or self._keeper.poll() is not None:
                break
            time.sleep(0.02)
        last = (self._folder or Path()).joinpath("log").read_text(encoding="utf-8", errors="replace").splitlines()
        said = next((line for line in reversed(last) if "[ERROR]" in line), "")
        raise ScratchFailed(
            f"{program} did not start for a scratch database" + (f": {said[-300:]}" if said else ""),
            remedy=f"set {MYSQL_URL_VARIABLE} to a server",
        )

    def close(self) -> None:
        """Stop the server if it is ours, and delete its folder."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            with contextlib.suppress(OSError):
                if keeper.stdin is not None:
                    keeper.stdin.close()
            try:
                keeper.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int((self._folder or Path()).joinpath("pid").read_text(encoding="ascii")), 9)
                keeper.wait(_STOP_SECONDS)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _anybody_may_run(program: Path) -> bool:
    """Whether the user nobody can reach the server's program; as root it runs otherwise as root, behind the same fences."""
    resolved = program.resolve()
    return bool(resolved.stat().st_mode & stat.S_IXOTH) and all(
        one.stat().st_mode & stat.S_IXOTH for one in resolved.parents
    )
