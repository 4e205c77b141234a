"""A PostgreSQL that speaks TLS, which the wheel's does not: the system's own, with certificates made for the test."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from holdtrue.embedded import EmbeddedPostgres, scratch_folder
from servers.certificates import Authority
from servers.keeping import copy_for_servers, may_be_run, own, program
from servers.postgres import PostgresServer

BY_CERTIFICATE = "by_certificate"
"""A login that needs no password but a certificate in its name."""


class TlsPostgres(PostgresServer):
    """A primary whose logins come encrypted, except ``plain``, who may come either way."""

    def __init__(self, authority: Authority) -> None:
        super().__init__(EmbeddedPostgres(scratch_folder("holdtrue-test-tls-"), binaries=_binaries()))
        self.authority = authority

    def start(self) -> None:
        folder = self.server.folder
        files = self.authority.server(folder / "tls")
        own(folder)
        self.server.settings |= {
            "ssl": "on",
            "ssl_cert_file": str(files.certificate),
            "ssl_key_file": str(files.key),
            "ssl_ca_file": str(files.authority),
            "jit": "off",
        }
        self.server.start()
        (self.server.data / "pg_hba.conf").write_text(
            f"hostssl all {BY_CERTIFICATE} 127.0.0.1/32 cert\n"
            f"host all {BY_CERTIFICATE} 127.0.0.1/32 reject\n"
            "hostssl all all 127.0.0.1/32 scram-sha-256\n"
            "hostnossl all plain 127.0.0.1/32 scram-sha-256\n"
            "hostnossl all all 127.0.0.1/32 reject\n",
            encoding="ascii",
        )
        self.execute(
            [
                "SELECT pg_reload_conf()",
                f"CREATE ROLE {BY_CERTIFICATE} LOGIN",
                "CREATE ROLE plain LOGIN PASSWORD 'plain'",
            ]
        )

    def address(self, user: str, host: str = "localhost", password: str = "") -> str:
        """A URL by host name: the certificate is ``localhost``'s."""
        login = user + (f":{quote(password, safe='')}" if password else "")
        return f"postgresql://{login}@{host}:{self.port}/postgres"


def _binaries() -> Path:
    """A folder with ``postgres`` and ``initdb``: the wrappers of scripts/system-deps, or copies that nobody can run."""
    found = program("postgres")
    if may_be_run(found.path):
        if not found.libraries:
            return found.path.parent
        folder = scratch_folder("holdtrue-test-tls-programs-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _wrappers(found.path.parent, found.libraries, folder)
    version = found.path.parents[1]
    share = version.parents[2] / "share" / "postgresql" / version.name
    folder = copy_for_servers(
        found,
        {version: f"usr/lib/postgresql/{version.name}", share: f"usr/share/postgresql/{version.name}"},
    )
    return _wrappers(folder / "usr/lib/postgresql" / version.name / "bin", str(folder / "libraries"), folder)


def _wrappers(programs: Path, libraries: str, folder: Path) -> Path:
    place = folder / "bin"
    place.mkdir(mode=0o755)
    for name in ("postgres", "initdb"):
        script = place / name
        script.write_text(f'#!/bin/sh\nexport LD_LIBRARY_PATH="{libraries}"\nexec "{programs / name}" "$@"\n')
        script.chmod(0o755)
    return place


@contextmanager
def tls_postgres(authority: Authority) -> Iterator[TlsPostgres]:
    """A server for a block."""
    server = TlsPostgres(authority)
    try:
        server.start()
        yield server
    finally:
        server.server.remove()
