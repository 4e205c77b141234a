"""Passwords as people have them: any character, from a variable, a file or a command, and rotated while we run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.model import Failure, FailureReason, ReplicaConfig, Secret
from servers.invariants import ask, invariant, postgres_config
from servers.mariadb import FreshMariadb
from servers.postgres import FreshDatabase, wait_for_replay, wait_until

PASSWORD = "p@ss:w/o#rd?%41&x=1 {y} 'z' ü"


class Login:
    """A login of this test alone, on primary and standby."""

    def __init__(self, database: FreshDatabase) -> None:
        self.database = database
        self.name = f"login_{database.name}"
        self.set(PASSWORD, "CREATE")

    def set(self, password: str, verb: str = "ALTER") -> None:
        doubled = password.replace("'", "''")
        more = " IN ROLE pg_monitor" if verb == "CREATE" else ""
        self.database.execute(f"{verb} ROLE {self.name} LOGIN PASSWORD '{doubled}'{more}")

    @property
    def url(self) -> str:
        return f"postgresql://{self.name}@127.0.0.1:{self.database.replica.port}/{self.database.name}"


@pytest.fixture
def login(postgres_database: FreshDatabase) -> Iterator[Login]:
    login = Login(postgres_database)
    yield login
    postgres_database.execute(f"DROP ROLE {login.name}")
    wait_for_replay(postgres_database.replica)


def doctor(folder: Path, databases: dict[str, Any], **environ: str) -> tuple[dict[str, set[str]], str]:
    """By database the names of what was found, and all that was printed."""
    (folder / "holdtrue.yaml").write_text(json.dumps({"databases": databases}), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "holdtrue", "doctor", "--format", "json"],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    report = json.loads(done.stdout)
    return {
        one["database"]: {finding["name"] for finding in one["findings"]} for one in report["replicas"]
    }, done.stdout + done.stderr


def printing(text: str) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.stdout.buffer.write({text!r}.encode())"]


def test_a_password_is_taken_from_a_variable_a_file_or_a_command(login: Login, tmp_path: Path) -> None:
    """Semantics 1.7, case 074: verbatim, but for the last line break of a file or a command."""
    (tmp_path / "word").write_text(PASSWORD + "\n", encoding="utf-8")
    ways: dict[str, dict[str, Any]] = {
        "variable": {"password": "${WORD}"},
        "file": {"password": f"${{file:{tmp_path / 'word'}}}"},
        "command": {"password_command": printing(PASSWORD + "\n")},
        "windows": {"password_command": printing(PASSWORD + "\r\n")},
        "wrong": {"password_command": printing("wrong-4711")},
        "failing": {"password_command": [sys.executable, "-c", "print('half-4711'); raise SystemExit(3)"]},
        "absent": {"password_command": ["/nowhere/vault"]},
        "bytes": {"password_command": [sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'\\xff')"]},
    }
    databases = {name: {"replicas": [{"name": "r1", "url": login.url, **way}]} for name, way in ways.items()}
    found, printed = doctor(tmp_path, databases, WORD=PASSWORD)
    assert {name for name, what in found.items() if "asked" in what} == {"variable", "file", "command", "windows"}
    assert "password_command ended with 3" in printed
    assert "password_command could not be started" in printed
    assert "password_command printed no UTF-8 text" in printed
    assert "4711" not in printed
    assert "w/o#rd" not in printed


def test_mariadb_takes_the_same_password(mariadb_database: FreshMariadb, tmp_path: Path) -> None:
    name = f"u_{mariadb_database.name}"[:30]
    doubled = PASSWORD.replace("'", "''")
    mariadb_database.execute(
        [f"CREATE USER {name}@'%' IDENTIFIED BY '{doubled}'", f"GRANT SELECT, SLAVE MONITOR ON *.* TO {name}@'%'"]
    )
    try:
        address = f"mysql://{name}@127.0.0.1:{mariadb_database.replica.port}/{mariadb_database.name}"
        databases = {
            "command": {"replicas": [{"name": "r1", "url": address, "password_command": printing(PASSWORD)}]},
            "wrong": {"replicas": [{"name": "r1", "url": address, "password": "${WORD}"}]},
        }
        found, printed = doctor(tmp_path, databases, WORD="wrong")
        assert "asked" in found["command"]
        assert found["wrong"] == {"unreachable"}
        assert "w/o#rd" not in printed
    finally:
        mariadb_database.execute(f"DROP USER {name}@'%'")


def test_a_password_that_was_rotated_is_read_at_the_next_connection(login: Login, tmp_path: Path) -> None:
    """Semantics 1.7: no restart, no reload."""
    word = tmp_path / "word"
    word.write_text(PASSWORD, encoding="utf-8")
    program = f"import pathlib; print(pathlib.Path({str(word)!r}).read_text(encoding='utf-8'))"
    command = (sys.executable, "-X", "utf8", "-c", program)
    databases = Databases(environ={}, application_name="holdtrue-rotates")
    config = postgres_config("postgresql://unused")
    replica = ReplicaConfig("r1", Secret(login.url), password_command=command)
    databases.configure([type(config)(config.name, config.dialect, (replica,))])
    assert isinstance(ask(databases, invariant()), Examined)
    login.set("the next one")
    sessions = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = 'holdtrue-rotates'"
    server = login.database.replica
    assert server.value(sessions) == 1
    wait_until(lambda: server.value(sessions) == 0, "the session has ended")
    refused = ask(databases, invariant())
    assert isinstance(refused, Failure)
    assert refused.reason is FailureReason.REFUSED
    word.write_text("the next one", encoding="utf-8")
    assert isinstance(ask(databases, invariant()), Examined)
    databases.close()
