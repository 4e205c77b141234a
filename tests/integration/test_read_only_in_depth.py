"""Every hole that we know of in "read-only", per dialect, and each fence that stops it when those in front are taken away.

A login that MAY write tries it on a primary: the worst case. Fences, in the order in which a text meets them:

- ``check``: the catalog refuses the text;
- ``driver``: what asks the database refuses it before the server sees it;
- what the server makes of it by itself: ``protocol`` (one statement), ``transaction`` or ``session`` (read-only), ``rights``
  (of the login), ``authoriser``, ``file`` (SQLite's is open for reading, in a transaction), ``undone`` (it ran, and the end of
  the look takes it back), or ``nothing``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdtrue.catalog.sql import inspect_sql
from holdtrue.databases import Databases, Examined
from holdtrue.databases.mysql_text import refuse_unless_reading
from holdtrue.databases.postgresql_text import refuse_unless_query
from holdtrue.model import Dialect, Failure, FailureReason
from servers.invariants import ask, invariant, mysql_config, primary_config, sqlite_config
from servers.mariadb import ADMIN, MariadbPrimary
from servers.mariadb import started as mariadb_started
from servers.postgres import FreshDatabase

Table = dict[str, tuple[str, str]]
"""Hole to (text, the fences that stop it)."""


def failure_of(answer: Examined | Failure) -> Failure | None:
    return answer if isinstance(answer, Failure) else answer.failure


def checked(sql: str, dialect: Dialect) -> bool:
    """Whether the catalog refuses this text."""
    found = inspect_sql(sql, dialect)
    return any(not one.one_row for one in found.problems) or (dialect is Dialect.MYSQL and not found.parsed)


def fences(
    table: Table, dialect: Dialect, refuses: Callable[[str], bool], server: Callable[[str], str]
) -> dict[str, str]:
    """By hole, all fences that stop it, each tried alone."""
    found = {}
    for hole, (sql, _) in table.items():
        words = ["check"] if checked(sql, dialect) else []
        words += ["driver"] if refuses(sql) else []
        found[hole] = " ".join([*words, server(sql)])
    return found


def differences(table: Table, found: dict[str, str]) -> list[str]:
    return [f"{hole}: {found[hole]}, not {stops}" for hole, (_, stops) in table.items() if found[hole] != stops]


POSTGRESQL: Table = {
    "change rows": ("DELETE FROM t", "check driver transaction"),
    "change rows in a CTE": (
        "WITH gone AS (DELETE FROM t RETURNING id) SELECT id FROM gone",
        "check transaction",
    ),
    "change rows in a function": ("SELECT emptied() AS id", "transaction"),
    "change rows in a function as its owner": ("SELECT emptied_as_owner() AS id", "transaction"),
    "change rows through a view's rule": ("INSERT INTO v VALUES (9)", "check driver transaction"),
    "empty a table": ("TRUNCATE t", "check driver transaction"),
    "explain a write and make it": ("EXPLAIN ANALYZE DELETE FROM t", "check driver transaction"),
    "make a table": ("CREATE TABLE escaped(id int)", "check driver transaction"),
    "make a table by SELECT INTO": ("SELECT id INTO escaped FROM t", "check transaction"),
    "make a temporary table": ("CREATE TEMP TABLE escaped(id int)", "check driver transaction"),
    "make a temporary table in a function": (
        "SELECT executed('CREATE TEMP TABLE escaped(id int)') AS id",
        "transaction",
    ),
    "take a number from a sequence": ("SELECT nextval('s') AS id", "check transaction"),
    "set a sequence": ("SELECT setval('s', 99) AS id", "check transaction"),
    "lock rows": ("SELECT id FROM t FOR UPDATE", "check transaction"),
    "lock a table": ("LOCK TABLE t IN ACCESS EXCLUSIVE MODE", "check driver undone"),
    "a second statement": ("SELECT 1 AS id; DELETE FROM t", "check protocol"),
    "end the transaction and go on": ("COMMIT; DELETE FROM t", "check driver protocol"),
    "end the transaction": ("COMMIT", "check driver undone"),
    "end the transaction in a function": ("SELECT executed('COMMIT') AS id", "transaction"),
    "leave read-only": ("SET TRANSACTION READ WRITE", "check driver transaction"),
    "leave read-only in a function": ("SELECT executed('SET TRANSACTION READ WRITE') AS id", "transaction"),
    "leave read-only by a setting": (
        "SELECT set_config('transaction_read_only', 'off', false) AS id",
        "check transaction",
    ),
    "later transactions read-write": (
        "SELECT set_config('default_transaction_read_only', 'off', false) AS id",
        "check undone",
    ),
    "later sessions see a setting": ("SELECT set_config('search_path', 'elsewhere', false) AS id", "check undone"),
    "run a block": ("DO $$ BEGIN DELETE FROM t; END $$", "check driver transaction"),
    "call a procedure": ("CALL cleared()", "check driver transaction"),
    "start a program": ("COPY (SELECT 1) TO PROGRAM 'touch {file}'", "check driver rights"),
    "write a file": ("COPY (SELECT 1) TO '{file}'", "check driver rights"),
    "write a file from a large object": ("SELECT lo_export(4711, '{file}') AS id", "check rights"),
    "read a file": ("SELECT pg_read_file('/etc/passwd') AS id", "rights"),
    "make a large object": ("SELECT lo_create(0) AS id", "check transaction"),
    "fill a large object": ("SELECT lo_from_bytea(0, 'x') AS id", "check transaction"),
    "delete a large object": ("SELECT lo_unlink(4711) AS id", "check transaction"),
    "notify": ("SELECT pg_notify('heard', 'x') AS id", "check undone"),
    "notify as a statement": ("NOTIFY heard", "check driver undone"),
    "listen": ("LISTEN heard", "check driver undone"),
    "hold a session's lock": ("SELECT pg_advisory_lock(7) AS id", "check undone"),
    "prepare for the next text": ("PREPARE kept AS SELECT 1", "check driver nothing"),
    "make a role": ("CREATE ROLE escaped", "check driver transaction"),
    "end other sessions": ("SELECT pg_terminate_backend({victim}) AS id", "check rights"),
    "pause replay": ("SELECT pg_wal_replay_pause() AS id", "check rights"),
    "keep WAL for ever": ("SELECT pg_create_physical_replication_slot('escaped') AS id", "check rights"),
    "change the server's settings": ("ALTER SYSTEM SET work_mem = '1GB'", "check driver transaction"),
    "refresh a view": ("REFRESH MATERIALIZED VIEW m", "check driver transaction"),
    "vacuum": ("VACUUM t", "check driver transaction"),
}


@pytest.fixture
def writer(postgres_database: FreshDatabase, tmp_path: Path) -> Iterator[str]:
    """A login that owns everything in its database and may do nothing beyond it."""
    name = f"writer_{postgres_database.name}"
    one = postgres_database
    one.execute([f"CREATE ROLE {name} LOGIN PASSWORD 'x'", f"ALTER DATABASE {one.name} OWNER TO {name}"])
    with one.primary.connect(one.name) as connection:
        connection.execute(f"SET ROLE {name}".encode())
        for text in (
            "CREATE TABLE t(id int)",
            "INSERT INTO t VALUES (1), (2)",
            "CREATE SEQUENCE s",
            "CREATE VIEW v AS SELECT id FROM t",
            "CREATE MATERIALIZED VIEW m AS SELECT id FROM t",
            "CREATE FUNCTION emptied() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM t; RETURN 1; END'",
            "CREATE FUNCTION emptied_as_owner() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN DELETE FROM t; END'",
            "CREATE FUNCTION executed(text) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE $1; RETURN 1; END'",
            "CREATE PROCEDURE cleared() LANGUAGE sql AS 'DELETE FROM t'",
            "SELECT lo_from_bytea(4711, 'x')",
        ):
            connection.execute(text.encode())
    yield one.primary.url(one.name, name, "x")
    one.execute(f"ALTER DATABASE {one.name} OWNER TO postgres")
    one.execute([f"DROP OWNED BY {name}", f"DROP ROLE {name}"])


_BY_STATE = {
    "25006": "transaction",
    "25001": "transaction",
    "25P01": "transaction",
    "0A000": "transaction",
    "2D000": "transaction",
    "42601": "protocol",
    "42501": "rights",
}


def test_postgresql_each_hole_and_what_stops_it(
    writer: str, postgres_database: FreshDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Semantics 3.2, 3.6, on a primary."""
    one = postgres_database
    heard: list[Any] = []
    with one.connect(autocommit=True) as listener:
        listener.add_notify_handler(heard.append)
        listener.execute("LISTEN heard")
        victim = listener.info.backend_pid
        table = {
            hole: (sql.format(file=tmp_path / "escaped", victim=victim), stops)
            for hole, (sql, stops) in POSTGRESQL.items()
        }
        databases = Databases(environ={}, application_name="holdtrue-holes")
        databases.configure([primary_config(writer)])

        def rows(text: str) -> list[Any]:
            return listener.execute(text.encode()).fetchall()

        def state() -> list[Any]:
            return [
                rows("SELECT id FROM t ORDER BY id"),
                rows("SELECT last_value, is_called FROM s"),
                rows("SELECT relname FROM pg_class WHERE relpersistence = 't' OR relname LIKE 'escaped%'"),
                rows("SELECT oid FROM pg_largeobject_metadata"),
                rows("SELECT rolname FROM pg_roles WHERE rolname = 'escaped'"),
                rows("SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'escaped'"),
                rows("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'"),
                rows("SELECT setting FROM pg_file_settings WHERE name = 'work_mem'"),
                (tmp_path / "escaped").exists(),
                list(heard),
                kept(),
            ]

        def kept() -> list[Any]:
            """What the session itself has kept, as the next text on it sees it."""
            seen: list[Any] = []
            text = (
                "SELECT current_setting('search_path'), current_setting('default_transaction_read_only'),"
                " (SELECT count(*) FROM pg_prepared_statements WHERE name = 'kept'),"
                " (SELECT count(*) FROM pg_listening_channels())"
            )
            assert isinstance(ask(databases, invariant(text), also=lambda _: seen.append), Examined)
            return seen

        before = state()

        def server(sql: str) -> str:
            answer = ask(databases, invariant(sql, timeout=timedelta(seconds=5)))
            failure = failure_of(answer)
            stopped = _BY_STATE.get((failure.sqlstate if failure is not None else None) or "")
            if state() != before:
                assert stopped is None, (sql, failure)
                databases.configure([])
                databases.configure([primary_config(writer)])
                assert state() == before, sql
                return "nothing"
            return stopped or "undone"

        def refuses(sql: str) -> bool:
            return refuse_unless_query(sql) is not None

        monkeypatch.setattr("holdtrue.databases.postgresql.refuse_unless_query", lambda _: None)
        found = fences(table, Dialect.POSTGRESQL, refuses, server)
        databases.close()
    assert differences(table, found) == []
    assert [hole for hole, stops in found.items() if stops == "nothing"] == []


MARIADB: Table = {
    "change rows": ("DELETE FROM t", "check driver session"),
    "change rows in a function": ("SELECT emptied_by_function() AS id", "session"),
    "empty a table": ("TRUNCATE TABLE t", "check driver session"),
    "make a table, which commits": ("CREATE TABLE leaked(x int)", "check driver session"),
    "drop a table, which commits": ("DROP TABLE t", "check driver session"),
    "make a temporary table": ("CREATE TEMPORARY TABLE leaked(x int)", "check driver session"),
    "explain a write and make it": ("ANALYZE DELETE FROM t", "check driver session"),
    "write a file": ("SELECT 1 AS id INTO OUTFILE '{file}'", "check driver nothing"),
    "write a file raw": ("SELECT 1 AS id INTO DUMPFILE '{file}'", "check driver nothing"),
    "write a file from a comment": ("SELECT 1 AS id /*! INTO OUTFILE '{file}' */", "check driver nothing"),
    "read a file into a table": ("LOAD DATA INFILE '/etc/passwd' INTO TABLE t", "check driver session"),
    "leave read-only": ("SET SESSION TRANSACTION READ WRITE", "check driver undone"),
    "leave read-only for one transaction": ("SET TRANSACTION READ WRITE", "check driver session"),
    "begin another transaction": ("START TRANSACTION READ WRITE", "check driver undone"),
    "a second statement": ("SELECT 1 AS id; DELETE FROM t", "check protocol"),
    "a block": ("BEGIN NOT ATOMIC DELETE FROM t; END", "check driver session"),
    "a block that leaves read-only first": (
        "BEGIN NOT ATOMIC COMMIT; SET SESSION TRANSACTION READ WRITE; DELETE FROM t; END",
        "check driver nothing",
    ),
    "a text made at run time": ("EXECUTE IMMEDIATE 'DELETE FROM t'", "check driver session"),
    "call a procedure": ("CALL emptied()", "check driver session"),
    "take a number from a sequence": ("SELECT NEXT VALUE FOR numbers AS id", "check session"),
    "lock rows": ("SELECT id FROM t FOR UPDATE", "check driver session"),
    "lock tables": ("LOCK TABLES t WRITE", "check driver session"),
    "lock everything": ("FLUSH TABLES WITH READ LOCK", "check driver undone"),
    "hold a session's lock": ("SELECT GET_LOCK('kept', 0) AS id", "check undone"),
    "remember in the session": ("SELECT @kept := 7 AS id", "undone"),
    "change the server's settings": ("SET GLOBAL max_connections = 99", "check driver nothing"),
    "make an account": ("CREATE USER leaked", "check driver session"),
    "open a handler": ("HANDLER t OPEN", "check driver undone"),
    "prepare for the next text": ("PREPARE kept FROM 'SELECT 1'", "check driver undone"),
}


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariadbPrimary]:
    """A server of its own: some holes change all of it."""
    with mariadb_started() as server:
        yield server


def test_mariadb_each_hole_and_what_stops_it(mariadb: MariadbPrimary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Semantics 3.2, 3.6, on a primary, with all rights: what only inspection stops is why a login must have SELECT alone."""
    assert mariadb.folder is not None
    file = mariadb.folder / "tmp" / "escaped"
    table = {hole: (sql.format(file=file), stops) for hole, (sql, stops) in MARIADB.items()}

    def rebuild() -> None:
        file.unlink(missing_ok=True)
        mariadb.execute(["DROP DATABASE IF EXISTS holes", "CREATE DATABASE holes", "SET GLOBAL max_connections = 151"])
        mariadb.execute(
            [
                "CREATE TABLE t(id int PRIMARY KEY)",
                "INSERT INTO t VALUES (1)",
                "CREATE SEQUENCE numbers",
                "CREATE PROCEDURE emptied() DELETE FROM t",
                "CREATE FUNCTION emptied_by_function() RETURNS int BEGIN DELETE FROM t; RETURN 1; END",
            ],
            "holes",
        )

    rebuild()
    databases = Databases(environ={}, application_name="holdtrue-holes")
    config = mysql_config(mariadb.url("holes", ADMIN), allow_primary=True)
    databases.configure([config])

    watcher = mariadb.connect()

    def rows(text: str) -> list[Any]:
        with watcher.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def state() -> list[Any]:
        seen: list[Any] = []
        kept = "SELECT @kept AS kept, @@session.tx_read_only AS ro, CONNECTION_ID() > 0 AS there FROM t"
        answer = ask(databases, invariant(kept, timeout=timedelta(seconds=5)), also=lambda _: seen.append)
        assert isinstance(answer, Examined), answer
        return [
            seen,
            rows("SELECT * FROM holes.t"),
            rows("SHOW TABLES FROM holes"),
            rows("SELECT next_not_cached_value FROM holes.numbers"),
            rows("SELECT user FROM mysql.user WHERE user = 'leaked'"),
            rows("SELECT @@global.max_connections, IS_FREE_LOCK('kept'), @@global.read_only"),
            rows("SELECT COUNT(*) FROM information_schema.innodb_trx"),
            file.exists(),
        ]

    before = state()

    def server(sql: str) -> str:
        failure = failure_of(ask(databases, invariant(sql, timeout=timedelta(seconds=5))))
        if state() != before:
            rebuild()
            assert state() == before
            return "nothing"
        if failure is None or failure.reason is FailureReason.SHAPE or "no query" in failure.sentence:
            return "undone"
        words = {FailureReason.WRITES: "session", FailureReason.FORBIDDEN: "rights"}
        return words.get(
            failure.reason, "protocol" if "more than one statement" in failure.sentence else failure.sentence
        )

    monkeypatch.setattr("holdtrue.databases.mysql.refuse_unless_reading", lambda _, **__: None)
    found = fences(table, Dialect.MYSQL, lambda sql: refuse_unless_reading(sql) is not None, server)
    databases.close()
    watcher.close()
    assert differences(table, found) == []
    assert [hole for hole, stops in found.items() if stops == "nothing"] == []


SQLITE: Table = {
    "change rows": ("DELETE FROM t", "check authoriser file"),
    "change rows and return them": ("INSERT INTO t VALUES (3) RETURNING id", "check authoriser file"),
    "drop a table": ("DROP TABLE t", "check authoriser file"),
    "make a temporary table": ("CREATE TEMP TABLE escaped(id)", "check authoriser nothing"),
    "another file": ("ATTACH DATABASE '{file}' AS other", "check authoriser nothing"),
    "a copy": ("VACUUM INTO '{file}'", "check authoriser file"),
    "a pragma": ("PRAGMA query_only = 0", "check authoriser nothing"),
    "the journal's mode": ("PRAGMA journal_mode = WAL", "check authoriser file"),
    "a pragma as a table": ("SELECT * FROM pragma_user_version", "authoriser nothing"),
    "a library": ("SELECT load_extension('x') AS id", "check authoriser file"),
    "end the transaction": ("COMMIT", "check authoriser nothing"),
    "a lock": ("BEGIN IMMEDIATE", "check authoriser file"),
    "a second statement": ("SELECT 1 AS id; DELETE FROM t", "check protocol"),
    "the schema's table": ("UPDATE sqlite_schema SET sql = ''", "check authoriser file"),
    "an index": ("REINDEX", "check authoriser nothing"),
}


def test_sqlite_each_hole_and_what_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Design 3.7: nothing but reading is authorised, in a file that is opened read-only."""
    path, file = tmp_path / "shop.db", tmp_path / "escaped"
    with sqlite3.connect(path) as connection:
        connection.executescript("CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2);")
    connection.close()
    table = {hole: (sql.format(file=file), stops) for hole, (sql, stops) in SQLITE.items()}
    bytes_before = path.read_bytes()

    def asked(sql: str) -> Failure | None:
        databases = Databases(environ={})
        databases.configure([sqlite_config(path)])
        failure = failure_of(ask(databases, invariant(sql, timeout=timedelta(seconds=5))))
        databases.close()
        assert path.read_bytes() == bytes_before, sql
        return failure

    def server(sql: str) -> str:
        with monkeypatch.context() as guard:
            first = asked(sql)
            assert not file.exists()
            if first is not None and "more than one statement" in first.sentence:
                return "protocol"
            assert first is not None, sql
            guard.setattr("holdtrue.databases.sqlite.SqliteLink._authorise", lambda *_: sqlite3.SQLITE_OK)
            second = asked(sql)
        file.unlink(missing_ok=True)
        stopped = second is not None and "no query" not in second.sentence
        return "authoriser file" if stopped else "authoriser nothing"

    found = fences(table, Dialect.SQLITE, lambda _: False, server)
    assert differences(table, found) == []
