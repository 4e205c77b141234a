"""TLS is a setting of a database: each mode against real certificates, the right ones and the wrong ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.model import Failure, FailureReason, Outcome
from servers.certificates import Authority, Files
from servers.invariants import ask, invariant, mysql_config, primary_config
from servers.mariadb import MariadbPrimary
from servers.mariadb import started as mariadb_started
from servers.postgres_tls import BY_CERTIFICATE, TlsPostgres, tls_postgres

NOT_ACCEPTED = "connection refused: the server's certificate was not accepted"
NOT_AGREED = "connection refused: no encrypted connection could be agreed on"
NOT_ALLOWED = "connection refused: the server does not allow this login from here"

# In TLS 1.3 a server refuses a client's certificate after it has agreed: its word and its end of the line race each other.
HUNG_UP = {
    "connection refused: the server did not accept the client certificate",
    "connection refused: the server closed the connection",
    NOT_AGREED,
}


@dataclass
class Paths:
    """Files of the client: the right authority, another one, and certificates of either."""

    right: Path
    wrong: Path
    client: Files
    stranger: Files


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def paths(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Paths:
    folder, other = tmp_path_factory.mktemp("tls"), Authority()
    return Paths(
        authority.file(folder / "right"),
        other.file(folder / "wrong"),
        authority.client(folder / "client", BY_CERTIFICATE),
        other.client(folder / "stranger", BY_CERTIFICATE),
    )


@pytest.fixture(scope="module")
def postgres(authority: Authority) -> Iterator[TlsPostgres]:
    with tls_postgres(authority) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb(authority: Authority) -> Iterator[MariadbPrimary]:
    from servers.keeping import own  # beside the server that needs it

    # Not below pytest's own folder: a server that is another user may not go into that.
    folder = Path(tempfile.mkdtemp(prefix="holdtrue-test-tls-"))
    folder.chmod(0o755)
    files = authority.server(folder)
    own(folder)
    settings = {
        "ssl-cert": str(files.certificate),
        "ssl-key": str(files.key),
        "ssl-ca": str(files.authority),
    }
    try:
        with mariadb_started(settings) as server:
            server.execute(
                [
                    f"CREATE USER {BY_CERTIFICATE}@'%' IDENTIFIED BY 'x' REQUIRE X509",
                    f"GRANT SELECT ON *.* TO {BY_CERTIFICATE}@'%'",
                    "CREATE USER encrypted@'%' IDENTIFIED BY 'x' REQUIRE SSL",
                    "GRANT SELECT ON *.* TO encrypted@'%'",
                ]
            )
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def why(config: Any, text: str = "SELECT 1 AS id") -> tuple[str, str | None]:
    """Why no run was made, or nothing; and the first cell of the first row."""
    databases = Databases(environ={})
    databases.configure([config])
    rows: list[Any] = []
    answer = ask(databases, invariant(text), also=lambda _: rows.append)
    databases.close()
    if isinstance(answer, Failure):
        assert answer.reason is FailureReason.REFUSED
        return answer.sentence, None
    assert isinstance(answer, Examined)
    assert answer.outcome is Outcome.VIOLATED
    return "", rows[0][0]


ENCRYPTED = "SELECT ssl::text AS id FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


@pytest.mark.parametrize(
    ("host", "parameters", "expected"),
    [
        ("localhost", "sslmode=disable", NOT_ALLOWED),
        ("localhost", "sslmode=prefer", ""),
        ("localhost", "sslmode=require", ""),
        ("localhost", "sslmode=verify-ca&sslrootcert={right}", ""),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert={right}", ""),
        ("localhost", "sslmode=verify-ca&sslrootcert={wrong}", NOT_ACCEPTED),
        ("localhost", "sslmode=verify-full&sslrootcert={right}", ""),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert={right}", NOT_ACCEPTED),
        ("localhost", "sslmode=verify-full&sslrootcert={wrong}", NOT_ACCEPTED),
        ("localhost", "sslmode=verify-full&sslrootcert=/nowhere/ca.pem", NOT_ACCEPTED),
        # Whoever names an authority wants it checked, as libpq has it.
        ("localhost", "sslmode=require&sslrootcert={wrong}", NOT_ACCEPTED),
    ],
)
def test_postgresql_each_mode_is_as_sure_as_it_says(
    postgres: TlsPostgres, paths: Paths, host: str, parameters: str, expected: str
) -> None:
    asked = parameters.format(right=paths.right, wrong=paths.wrong)
    url = f"{postgres.address('postgres', host, postgres.password)}?{asked}"
    failure, cell = why(primary_config(url), ENCRYPTED)
    assert failure == expected
    assert cell == (None if expected else "true")


def test_postgresql_without_tls_nothing_is_encrypted_and_what_demands_it_is_refused(
    postgres: TlsPostgres, postgres_primary: Any
) -> None:
    url = postgres.address("plain", password="plain")
    assert why(primary_config(f"{url}?sslmode=disable"), ENCRYPTED) == ("", "false")
    for mode in ("require", "verify-ca", "verify-full"):
        failure, _ = why(primary_config(f"{postgres_primary.url()}?sslmode={mode}"))
        assert failure in (NOT_AGREED, NOT_ACCEPTED)


def test_postgresql_a_client_certificate_lets_in_and_another_ones_does_not(postgres: TlsPostgres, paths: Paths) -> None:
    url = f"{postgres.address(BY_CERTIFICATE)}?sslmode=verify-full&sslrootcert={paths.right}"
    good = f"&sslcert={paths.client.certificate}&sslkey={paths.client.key}"
    assert why(primary_config(url + good)) == ("", "1")
    bad = f"&sslcert={paths.stranger.certificate}&sslkey={paths.stranger.key}"
    assert why(primary_config(url))[0] == "connection refused: the server wants a client certificate (sslcert, sslkey)"
    assert why(primary_config(url + bad))[0] in HUNG_UP


MYSQL_ENCRYPTED = (
    "SELECT VARIABLE_VALUE AS id FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'SSL_VERSION'"
)


@pytest.mark.parametrize(
    ("host", "parameters", "expected"),
    [
        ("localhost", "ssl_mode=disabled", "refused"),
        ("localhost", "", ""),
        ("localhost", "ssl_mode=required", ""),
        ("localhost", "ssl_mode=required&ssl_ca={wrong}", ""),
        ("localhost", "ssl_ca={right}", ""),
        ("127.0.0.1", "ssl_mode=verify_ca&ssl_ca={right}", ""),
        ("localhost", "ssl_mode=verify_ca&ssl_ca={wrong}", NOT_ACCEPTED),
        ("localhost", "ssl_mode=verify_identity&ssl_ca={right}", ""),
        ("127.0.0.1", "ssl_mode=verify_identity&ssl_ca={right}", NOT_ACCEPTED),
        ("localhost", "ssl_ca={wrong}&ssl_verify_identity=true", NOT_ACCEPTED),
        ("localhost", "ssl_ca=/nowhere/ca.pem", "connection refused: a file that the URL names is not there"),
    ],
)
def test_mariadb_each_mode_is_as_sure_as_it_says(
    mariadb: MariadbPrimary, paths: Paths, host: str, parameters: str, expected: str
) -> None:
    asked = parameters.format(right=paths.right, wrong=paths.wrong)
    url = f"mysql://encrypted:x@{host}:{mariadb.port}/mysql" + (f"?{asked}" if asked else "")
    failure, cell = why(mysql_config(url, allow_primary=True), MYSQL_ENCRYPTED)
    assert failure.startswith("connection refused") if expected == "refused" else failure == expected
    assert (cell or "").startswith("TLS") is (not expected)


def test_mariadb_a_client_certificate_lets_in_and_none_does_not(mariadb: MariadbPrimary, paths: Paths) -> None:
    url = f"mysql://{BY_CERTIFICATE}:x@localhost:{mariadb.port}/mysql?ssl_ca={paths.right}"
    good = f"&ssl_cert={paths.client.certificate}&ssl_key={paths.client.key}"
    assert why(mysql_config(url + good, allow_primary=True)) == ("", "1")
    bad = f"&ssl_cert={paths.stranger.certificate}&ssl_key={paths.stranger.key}"
    # MariaDB does not tell a missing certificate from a wrong password.
    assert why(mysql_config(url, allow_primary=True))[0] == "connection refused: wrong user or password"
    failure, _ = why(mysql_config(url + bad, allow_primary=True))
    assert failure in HUNG_UP


def test_doctor_tells_how_a_connection_is_encrypted(
    postgres: TlsPostgres, mariadb: MariadbPrimary, paths: Paths, tmp_path: Path
) -> None:
    """From the outside: what the server says of the session, version and cipher."""
    environ = {
        "PG": f"{postgres.address('postgres', password=postgres.password)}?sslmode=verify-full&sslrootcert={paths.right}",
        "PLAIN": f"{postgres.address('plain', password='plain')}?sslmode=disable",
        "MARIA": f"mysql://encrypted:x@localhost:{mariadb.port}/mysql?ssl_mode=verify_identity&ssl_ca={paths.right}",
    }
    databases = {
        name.lower(): {
            "dialect": "mysql" if name == "MARIA" else "postgresql",
            "replicas": [{"name": "r1", "url": f"${{{name}}}"}],
            "allow_primary": True,
        }
        for name in environ
    }
    (tmp_path / "holdtrue.yaml").write_text(json.dumps({"databases": databases}), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "holdtrue", "doctor", "--format", "json"],
        cwd=tmp_path,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = {
        one["database"]: finding["sentence"]
        for one in json.loads(done.stdout)["replicas"]
        for finding in one["findings"]
        if finding["name"] == "encrypted"
    }
    assert said["pg"].startswith("encrypted: TLSv1.")
    assert said["maria"].startswith("encrypted: TLSv1.")
    assert said["plain"].startswith("not encrypted")


def test_a_misspelt_parameter_is_refused_at_load_with_file_and_line(tmp_path: Path) -> None:
    """From the outside: nothing is asked with a demand for safety that means none."""
    (tmp_path / "holdtrue.yaml").write_text(
        "databases:\n  shop:\n    replicas:\n      - name: r1\n        url: postgresql://${U}@h/d?sslmod=verify-full\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "holdtrue", "check"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    said = done.stdout + done.stderr
    assert "holdtrue.yaml:5:" in said
    assert "'sslmod' (did you mean 'sslmode'?)" in said
