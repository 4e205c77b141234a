"""Where `holdtrue test` makes scratch databases of MariaDB: on the server that is named, or on a mariadbd of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from holdtrue.rehearsal import mysql_server
from holdtrue.rehearsal.scratch import ScratchFailed
from servers.mariadb import ADMIN, MariadbPrimary
from servers.service import holdtrue


def rule(sql: str, *, violating: str, healthy: str = "[]", name: str = "rule") -> str:
    return f'{{name: {name}, sql: "{sql}", examples: {{violating: {violating}, healthy: {healthy}}}}}'


def command(folder: Path, environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """``holdtrue test`` as a process of its own."""
    return holdtrue("test", *arguments, cwd=folder, env=environ, timeout=90)


def mysql_place(folder: Path, schema: str, *invariants: str) -> Path:
    """A catalog on a MariaDB that nobody can reach."""
    (folder / "invariants").mkdir()
    listed = "\n".join(f"  - {one}" for one in invariants)
    (folder / "invariants" / "a.yaml").write_text(f"defaults: {{database: shop}}\ninvariants:\n{listed}\n")
    database = {"replicas": [{"name": "r", "url": "mysql://nobody@127.0.0.1:1/x"}], "schema_file": "s.sql"}
    (folder / "holdtrue.yaml").write_text(json.dumps({"databases": {"shop": database}}))
    (folder / "s.sql").write_text(schema)
    return folder


def test_a_mariadbd_on_the_path_is_started_for_scratch_databases_and_ends_with_them(tmp_path: Path) -> None:
    schema = (
        "CREATE TABLE t (id integer PRIMARY KEY AUTO_INCREMENT, e enum('a', 'b'), v varchar(20)) AUTO_INCREMENT = 40;"
    )
    folder = mysql_place(
        tmp_path,
        schema,
        rule("SELECT id FROM t WHERE id > 40", violating="[{t: [{e: a}, {e: b}]}]", healthy="[{t: [{e: a}]}, {}]"),
        rule("SELECT id FROM t WHERE e = 'a'", violating="[{t: [{e: private-4711}]}]", name="unfit"),
    )
    (folder / "tmp").mkdir(mode=0o755)
    done = command(folder, {"TMPDIR": str(folder / "tmp")} if os.getuid() else {}, "--format", "json")
    found = {one["invariant"]: one for one in json.loads(done.stdout)["tested"]}
    assert (done.returncode, found["rule"]["result"]) == (1, "proven"), done.stdout + done.stderr
    assert found["unfit"]["examples"][0]["sentence"].startswith("a row of t does not fit: t.e cannot hold its value")
    assert "private-4711" not in done.stdout + done.stderr
    assert not list((folder / "tmp").iterdir())


def test_without_a_mariadb_it_is_said_how_to_have_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_server, "_PROGRAM", "mariadbd-that-is-not-there")
    with pytest.raises(ScratchFailed, match="there is no MariaDB for a scratch database") as refused:
        mysql_server.MysqlScratchServer({"PATH": str(tmp_path)}).url()
    assert "HOLDTRUE_SCRATCH_MYSQL_URL" in str(refused.value)


def test_a_server_that_is_somebodys_is_touched_in_our_own_database_alone(
    tmp_path: Path, mariadb_primary: MariadbPrimary
) -> None:
    mariadb_primary.execute(["CREATE DATABASE theirs", "CREATE TABLE theirs.kept (id int)"])
    try:
        for number, schema in enumerate(
            (
                "DROP TABLE theirs.kept;",
                "CREATE DATABASE more; USE more; CREATE TABLE t (id int);",
                "USE theirs; DROP TABLE kept;",
            )
        ):
            folder = tmp_path / str(number)
            folder.mkdir()
            mysql_place(folder, schema, rule("SELECT id FROM t", violating="[{t: [{id: 1}]}]"))
            done = command(folder, {"HOLDTRUE_SCRATCH_MYSQL_URL": mariadb_primary.url(user=ADMIN)})
            assert done.returncode == 3, done.stdout + done.stderr
            assert "s.sql: the login may not do this" in done.stdout
            assert mariadb_primary.password not in done.stdout + done.stderr
        assert mariadb_primary.value("SELECT count(*) FROM theirs.kept") == 0
        assert (
            mariadb_primary.value("SELECT count(*) FROM information_schema.schemata WHERE schema_name LIKE 'holdtrue%'")
            == 0
        )
        assert mariadb_primary.value("SELECT count(*) FROM mysql.user WHERE user LIKE 'holdtrue\\_%'") == 0
    finally:
        mariadb_primary.drop_database("theirs")
        mariadb_primary.drop_database("more")


def test_a_login_that_may_make_nothing_is_told_of(tmp_path: Path, mariadb_primary: MariadbPrimary) -> None:
    folder = mysql_place(tmp_path, "CREATE TABLE t (id int);", rule("SELECT id FROM t", violating="[{t: [{id: 1}]}]"))
    done = command(folder, {"HOLDTRUE_SCRATCH_MYSQL_URL": mariadb_primary.url()})
    assert done.returncode == 3
    assert "it must be allowed to create databases and users" in done.stdout
