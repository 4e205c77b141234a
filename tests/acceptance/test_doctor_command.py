"""`holdtrue doctor` as a person meets it: a real process, real servers, and what it says of each."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pytest

from servers.mariadb import ADMIN, FreshMariadb
from servers.pgbouncer import pooler
from servers.postgres import FreshDatabase, Topology, started, wait_for_replay, wait_until

PASSWORD = "only-on-loopback"


class Folder:
    """A holdtrue.yaml of one's own, without any invariant."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environ: dict[str, str] = {}

    def write(self, **databases: dict[str, Any]) -> None:
        """URLs that hold a password go into the environment: a catalog that writes them out is refused."""
        for name, one in databases.items():
            for replica in one["replicas"]:
                if "@" in replica["url"]:
                    variable = f"URL_{name}_{replica['name']}".upper()
                    self.environ[variable] = replica["url"]
                    one.setdefault("dialect", "mysql" if replica["url"].startswith("mysql") else "postgresql")
                    replica["url"] = f"${{{variable}}}"
        (self.path / "holdtrue.yaml").write_text(json.dumps({"databases": databases}), encoding="utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDTRUE_")}
        return subprocess.run(
            [sys.executable, "-m", "holdtrue", "doctor", *arguments],
            cwd=self.path,
            env={**kept, "NO_COLOR": "1", **self.environ},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def look(self, *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
        """The exit code, and by ``database/replica`` what was said."""
        done = self.run(*arguments, "--format", "json")
        assert done.stderr == "", done.stderr
        report = json.loads(done.stdout)
        assert report["exit_code"] == done.returncode
        return done.returncode, {f"{one['database']}/{one['replica']}": one for one in report["replicas"]}


def names(replica: dict[str, Any], severity: str = "") -> set[str]:
    return {one["name"] for one in replica["findings"] if not severity or one["severity"] == severity}


def sentence(replica: dict[str, Any], name: str) -> str:
    (found,) = [one for one in replica["findings"] if one["name"] == name]
    assert found["remedy"] or found["severity"] == "fine"
    return str(found["sentence"])


def database(*urls: str, **settings: Any) -> dict[str, Any]:
    return {"replicas": [{"name": f"r{number}", "url": url} for number, url in enumerate(urls, 1)], **settings}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def logins(postgres_database: FreshDatabase) -> Iterator[dict[str, str]]:
    """Three logins of this test's database: one as documented, one without pg_monitor, one that may write."""
    stem = postgres_database.name
    roles = {one: f"{one}_{stem}" for one in ("reader", "blind", "writer")}
    postgres_database.execute(
        [
            "CREATE TABLE refunds(id int)",
            "CREATE FUNCTION refund() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
            "REVOKE EXECUTE ON FUNCTION refund() FROM PUBLIC",
            f"CREATE ROLE {roles['reader']} LOGIN PASSWORD '{PASSWORD}' IN ROLE pg_monitor",
            f"CREATE ROLE {roles['blind']} LOGIN PASSWORD '{PASSWORD}'",
            f"CREATE ROLE {roles['writer']} LOGIN CREATEDB PASSWORD '{PASSWORD}' IN ROLE pg_monitor, pg_signal_backend",
            f"GRANT SELECT ON refunds TO {roles['reader']}, {roles['blind']}",
            f"GRANT ALL ON refunds TO {roles['writer']}",
            f"GRANT CREATE ON SCHEMA public TO {roles['writer']}",
            f"GRANT EXECUTE ON FUNCTION refund(), pg_read_file(text) TO {roles['writer']}",
        ]
    )
    yield roles
    postgres_database.execute([f"DROP OWNED BY {one}" for one in roles.values()])
    postgres_database.execute([f"DROP ROLE {one}" for one in roles.values()])
    wait_for_replay(postgres_database.replica)


def url(port: int, login: str, dbname: str, password: str = PASSWORD) -> str:
    return f"postgresql://{login}:{quote(password, safe='')}@127.0.0.1:{port}/{dbname}"


def test_logins_on_a_standby_are_told_apart_by_what_they_may_do(
    folder: Folder, postgres_database: FreshDatabase, logins: dict[str, str]
) -> None:
    """Semantics 2.1: without pg_monitor doctor says which blindness remains."""
    port, dbname = postgres_database.replica.port, postgres_database.name
    folder.write(
        **{one: database(url(port, login, dbname)) for one, login in logins.items()},
        super=database(postgres_database.standby_url),
    )
    code, said = folder.look()
    assert code == 0
    reader = said["reader/r1"]
    assert names(reader, "warning") == set()
    assert {"asked", "reads_only", "sender", "versions", "clock", "encrypted"} <= names(reader)
    assert (reader["role"], reader["lag_seconds"], reader["freshness_proven"]) == ("standby", 0, True)
    assert sentence(reader, "versions").startswith("PostgreSQL 1")
    blind = said["blind/r1"]
    assert names(blind, "warning") == {"no_pg_monitor"}
    assert blind["freshness_proven"] is False
    writer = said["writer/r1"]
    assert names(writer, "warning") == {
        "attributes",
        "powerful_roles",
        "can_write",
        "can_create",
        "dangerous_functions",
        "definers",
    }
    assert "public.refunds" in sentence(writer, "can_write")
    assert "pg_read_file" in sentence(writer, "dangerous_functions")
    assert names(said["super/r1"], "warning") == {"superuser"}
    assert folder.look("reader", "--strict")[0] == 0
    assert folder.look("writer", "--strict")[0] == 1


def test_a_primary_a_dead_port_and_a_wrong_password_are_problems_with_remedies(
    folder: Folder, postgres_database: FreshDatabase
) -> None:
    primary, dead = postgres_database.primary_url, "postgresql://somebody@127.0.0.1:1/none"
    wrong = url(postgres_database.replica.port, "postgres", postgres_database.name, "wrong-secret-4711")
    folder.write(primary=database(primary), allowed=database(primary, allow_primary=True), away=database(dead, wrong))
    code, said = folder.look()
    assert code == 3
    assert names(said["primary/r1"], "problem") == {"would_not_be_asked"}
    # Its rights are told all the same.
    assert "superuser" in names(said["primary/r1"], "warning")
    assert "primary" in names(said["allowed/r1"], "warning")
    assert names(said["away/r1"]) == names(said["away/r2"]) == {"unreachable"}
    assert "nobody listens" in sentence(said["away/r1"], "unreachable")
    assert "wrong user or password" in sentence(said["away/r2"], "unreachable")
    done = folder.run("away")
    assert done.returncode == 3
    assert "4711" not in done.stdout + done.stderr
    assert "2 replicas looked at, 2 problems, no warnings" in done.stdout
    # 1 wins over 3, as everywhere.
    assert folder.look("--strict")[0] == 1


def test_a_standby_that_is_cut_off_or_paused_is_said_to_be(folder: Folder) -> None:
    """Semantics 2.1, 2.2."""
    with started() as primary:
        replica = primary.standby()
        folder.write(db=database(replica.url()), as_it_is=database(replica.url(), freshness="none"))
        replica.pause_replay()
        assert "replay is paused" in sentence(folder.look("db")[1]["db/r1"], "would_not_be_asked")
        replica.resume_replay()
        primary.stop()
        wait_until(
            lambda: replica.value("SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'") == 0,
            "the receiver has gone",
        )
        code, said = folder.look()
        assert code == 3
        assert "no WAL receiver" in sentence(said["db/r1"], "would_not_be_asked")
        assert "freshness_not_proven" in names(said["as_it_is/r1"], "warning")


def test_a_heartbeat_that_cannot_be_read_is_a_problem_and_the_rest_is_told_all_the_same(
    folder: Folder, postgres_database: FreshDatabase
) -> None:
    """Semantics 2.1."""
    settings = {"freshness": "heartbeat", "heartbeat": "SELECT max(beat_at) FROM heartbeat"}
    folder.write(db=database(postgres_database.standby_url, **settings))
    code, said = folder.look()
    assert code == 3
    assert "heartbeat" in sentence(said["db/r1"], "would_not_be_asked")
    assert {"versions", "superuser", "clock"} <= names(said["db/r1"])
    beat = "CREATE TABLE heartbeat AS SELECT now() AS beat_at"
    postgres_database.execute(beat)
    code, said = folder.look()
    assert code == 0
    assert said["db/r1"]["freshness_proven"] is True


def test_a_standby_of_a_standby_is_told_where_both_are_known(folder: Folder, postgres_topology: Topology) -> None:
    """Semantics 2.1: streaming proves the link to the sender only."""
    servers = postgres_topology
    folder.write(db=database(servers.first.url(), servers.cascaded.url()), alone=database(servers.cascaded.url()))
    code, said = folder.look()
    assert code == 0
    assert "cascaded" not in names(said["db/r1"])
    assert "(r1)" in sentence(said["db/r2"], "cascaded")
    assert str(servers.first.port) in sentence(said["alone/r1"], "sender")


def test_a_pooler_is_told_by_its_process_number(folder: Folder, postgres_database: FreshDatabase) -> None:
    with pooler(postgres_database) as transaction, pooler(postgres_database, "statement") as statement:
        folder.write(
            pooled=database(transaction.url()),
            straight=database(postgres_database.standby_url),
            statement=database(statement.url()),
        )
        code, said = folder.look()
    assert "pooler" in names(said["pooled/r1"], "fine")
    assert "pooler" not in names(said["straight/r1"])
    assert code == 3
    assert "statement mode" in sentence(said["statement/r1"], "would_not_be_asked")


def test_mariadb_is_told_by_its_grants_its_positions_and_its_engines(
    folder: Folder, mariadb_database: FreshMariadb
) -> None:
    mariadb_database.execute(["CREATE TABLE kept(id int) ENGINE=InnoDB", "CREATE TABLE old(id int) ENGINE=MyISAM"])
    replica, name = mariadb_database.replica, mariadb_database.name
    folder.write(
        reader=database(replica.url(name)),
        admin=database(replica.url(name, ADMIN)),
        primary=database(mariadb_database.primary_url),
    )
    code, said = folder.look()
    assert code == 3
    reader = said["reader/r1"]
    assert names(reader, "warning") == {"no_snapshot"}
    assert "(old)" in sentence(reader, "no_snapshot")
    assert {"reads_only", "gtid", "gtid_domain", "row_format", "versions", "asked", "encrypted"} <= names(reader)
    assert sentence(reader, "versions").startswith("MariaDB 1")
    assert reader["role"] == "standby"
    assert {"can_write", "files"} <= names(said["admin/r1"], "warning")
    assert names(said["primary/r1"], "problem") == {"would_not_be_asked"}


def test_a_sqlite_file_is_told_by_its_journal_and_its_rights(folder: Folder) -> None:
    connection = sqlite3.connect(folder.path / "shop.db")
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE t(id)")
    connection.close()
    folder.write(
        shop=database("sqlite:///shop.db", allow_primary=True),
        absent=database("sqlite:///absent.db", allow_primary=True),
    )
    code, said = folder.look()
    assert code == 3
    assert names(said["shop/r1"]) == {"asked", "versions", "file", "journal", "file_rights"}
    assert "wal" in sentence(said["shop/r1"], "journal")
    assert names(said["absent/r1"]) == {"unreachable"}
    assert not (folder.path / "absent.db").exists()
    assert folder.look("shop")[0] == 0


def test_any_other_database_is_never_fine(folder: Folder) -> None:
    with duckdb.connect(str(folder.path / "w.duckdb")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER)")
    url = f"duckdb:///{folder.path / 'w.duckdb'}?access_mode=READ_ONLY"
    folder.write(warehouse=database(url, freshness="none", allow_primary=True))
    code, said = folder.look()
    assert code == 0
    assert "lower_level" in names(said["warehouse/r1"], "warning")
    assert folder.look("--strict")[0] == 1


def test_a_name_that_is_no_database_and_a_catalog_without_one_are_refused(folder: Folder) -> None:
    folder.write(shop=database("sqlite:///shop.db", allow_primary=True))
    done = folder.run("shopp")
    assert done.returncode == 2
    assert "did you mean 'shop'?" in done.stderr
    folder.write()
    assert folder.run().returncode == 2
    (folder.path / "holdtrue.yaml").write_text("databases: [", encoding="utf-8")
    assert folder.run().returncode == 2


def test_the_text_for_people_has_every_remedy_below_its_sentence(folder: Folder) -> None:
    folder.write(shop=database("sqlite:///shop.db", allow_primary=True))
    done = folder.run()
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    assert lines[0] == "shop (sqlite)"
    at = next(number for number, line in enumerate(lines) if "problem" in line)
    assert re.search(
        r"the SQLite file that the URL names is not there \(database \w+, replica \w+, holdtrue.yaml:\d+\)", lines[at]
    )
    assert lines[at + 1].strip().startswith("→ ")
