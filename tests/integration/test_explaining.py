"""Plans on real servers: nothing is executed, whatever the text is, and the tables' sizes are told."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue.catalog import table_aliases
from holdtrue.databases import Databases, Explains, Look, Plan
from holdtrue.inspection import plan_findings, plan_reach
from holdtrue.inspection.plans import PlanFindingKind
from holdtrue.model import Dialect, Failure, FailureReason
from servers.invariants import mysql_config, postgres_config, primary_config, sqlite_config
from servers.mariadb import FreshMariadb
from servers.postgres import FreshDatabase

LIMIT = timedelta(seconds=20)
HOSTILE = [
    "DELETE FROM t",
    "UPDATE t SET id = 0",
    "SELECT id FROM t; DELETE FROM t",
    "ANALYZE SELECT id FROM t",
    "(ANALYZE) SELECT id FROM t",
    "ANALYZE DELETE FROM t",
    "EXPLAIN SELECT id FROM t",
    "CREATE TABLE escaped(id int)",
    "DROP TABLE t",
    "",
    "-- nothing",
    "SELECT 1\0; DELETE FROM t",
]


def plan(databases: Databases, sql: str, dialect: Dialect) -> Plan | Failure:
    def examine(look: Look) -> Plan | Failure:
        assert isinstance(look, Explains)
        return look.explain(sql, table_aliases(sql, dialect))

    return databases.look("db", time_limit=LIMIT, newest_good=None, examine=examine)


def planned(databases: Databases, sql: str, dialect: Dialect) -> Plan:
    found = plan(databases, sql, dialect)
    assert isinstance(found, Plan), found
    return found


class TestPostgresql:
    @pytest.fixture
    def filled(self, postgres_database: FreshDatabase) -> FreshDatabase:
        postgres_database.execute(
            [
                "CREATE TABLE t(id int PRIMARY KEY, state text)",
                "CREATE SCHEMA other",
                "CREATE TABLE other.never_analysed(id int)",
                "INSERT INTO t SELECT n, 'open' FROM generate_series(1, 3000) AS n",
                "INSERT INTO other.never_analysed SELECT 1",
                "CREATE SEQUENCE s",
                "ANALYZE t",
            ]
        )
        return postgres_database

    @pytest.fixture
    def standby(self, filled: FreshDatabase) -> Iterator[Databases]:
        databases = Databases(environ={})
        databases.configure([postgres_config(filled.standby_url)])
        yield databases
        databases.close()

    def test_a_whole_scan_is_told_from_one_by_index(self, standby: Databases) -> None:
        whole = planned(standby, "SELECT id FROM t WHERE state = 'gone'", Dialect.POSTGRESQL)
        (step,) = [one for one in whole.steps if one.tables]
        assert (step.tables, step.whole, step.rows) == (("t",), True, None)
        (size,) = whole.tables
        assert (size.table, size.rows) == ("t", 3000)
        assert size.size is not None
        assert size.size > 0
        keyed = planned(standby, "SELECT id FROM t WHERE id = 7", Dialect.POSTGRESQL)
        assert [(one.tables, one.whole, one.rows) for one in keyed.steps if one.tables] == [(("t",), False, 1.0)]

    def test_a_table_that_was_never_analysed_has_no_known_size(self, standby: Databases) -> None:
        found = planned(standby, "SELECT id FROM other.never_analysed", Dialect.POSTGRESQL)
        assert [(one.table, one.rows) for one in found.tables] == [("other.never_analysed", None)]

    @pytest.mark.parametrize("text", HOSTILE)
    def test_what_is_no_query_is_not_explained(self, standby: Databases, filled: FreshDatabase, text: str) -> None:
        """semantics 3.2: the protocol refuses a second statement."""
        found = plan(standby, text, Dialect.POSTGRESQL)
        assert isinstance(found, Failure)
        assert filled.value("SELECT count(*) FROM t") == 3000

    def test_nothing_is_executed_even_where_it_could_write(self, filled: FreshDatabase) -> None:
        """On a primary: neither a writable CTE nor a sequence moves, and a sleep takes no time of its limit."""
        databases = Databases(environ={})
        databases.configure([primary_config(filled.primary_url)])
        try:
            for text in (
                "WITH gone AS (DELETE FROM t RETURNING id) SELECT id FROM gone",
                "SELECT nextval('s') FROM t",
                "SELECT pg_sleep(1000) FROM t",
                "/* ( */ SELECT id INTO copied FROM t",
            ):
                plan(databases, text, Dialect.POSTGRESQL)
            assert isinstance(plan(databases, "SELECT pg_sleep(1000) FROM t", Dialect.POSTGRESQL), Plan)
        finally:
            databases.close()
        assert filled.value("SELECT count(*) FROM t") == 3000
        assert filled.value("SELECT is_called FROM s") is False
        assert filled.value("SELECT to_regclass('copied')") is None

    def test_a_value_of_a_row_that_a_function_brought_is_not_shown(self, filled: FreshDatabase) -> None:
        """semantics 4.4: a function that is called immutable is worked out for the plan, whatever it reads."""
        for name, type_, value in (("note", "text", "'private-' || id"), ("number", "int", "id")):
            body = f"BEGIN RETURN (SELECT {value} FROM t WHERE id = 2711); END"
            filled.execute([f"CREATE FUNCTION {name}() RETURNS {type_} IMMUTABLE LANGUAGE plpgsql AS $${body}$$"])
        databases = Databases(environ={})
        databases.configure([postgres_config(filled.standby_url)])
        try:
            text = "SELECT id FROM t WHERE state IN ('open', 'half done') AND state <> note() AND id + 7 <> number()"
            found = planned(databases, text, Dialect.POSTGRESQL)
        finally:
            databases.close()
        said = " ".join(one.text for one in found.steps)
        assert "2711" not in said
        assert "private" not in said
        assert "half done" in said
        assert "id + 7" in said
        assert "'…'::text" in said

    def test_an_error_says_its_place_in_the_users_own_text(self, standby: Databases) -> None:
        text = "SELECT id, absent FROM t"
        found = plan(standby, text, Dialect.POSTGRESQL)
        assert isinstance(found, Failure)
        assert (found.sqlstate, found.position) == ("42703", text.index("absent") + 1)

    def test_the_look_is_usable_after_a_plan_that_failed(self, standby: Databases) -> None:
        def examine(look: Look) -> tuple[object, object]:
            assert isinstance(look, Explains)
            return look.explain("SELECT absent FROM t", {}), look.ask("SELECT count(*) FROM t", limit=1)

        answer = standby.look("db", time_limit=LIMIT, newest_good=None, examine=examine)
        assert not isinstance(answer, Failure)
        assert isinstance(answer[0], Failure)
        assert answer[1].rows == (("3000",),)  # type: ignore[attr-defined]

    def test_a_nested_loop_and_a_subquery_are_done_again_and_again(self, standby: Databases) -> None:
        found = planned(
            standby,
            "SELECT id, (SELECT count(*) FROM t AS o WHERE o.state = t.state) FROM t WHERE id < 100",
            Dialect.POSTGRESQL,
        )
        again = max(one.times for one in found.steps if one.tables)
        assert 50 < again < 200


class TestMariadb:
    @pytest.fixture
    def filled(self, mariadb_database: FreshMariadb) -> FreshMariadb:
        rows = ", ".join(f"({number}, 'open')" for number in range(1, 1001))
        mariadb_database.execute(
            ["CREATE TABLE t(id int PRIMARY KEY, state varchar(20))", f"INSERT INTO t VALUES {rows}", "ANALYZE TABLE t"]
        )
        return mariadb_database

    @pytest.fixture
    def replica(self, filled: FreshMariadb) -> Iterator[Databases]:
        databases = Databases(environ={})
        databases.configure([mysql_config(filled.replica_url)])
        yield databases
        databases.close()

    def test_a_whole_scan_is_told_from_one_by_index(self, replica: Databases) -> None:
        whole = planned(replica, "SELECT o.id FROM t AS o WHERE o.state = 'gone'", Dialect.MYSQL)
        (step,) = whole.steps
        assert (step.tables, step.whole) == (("t",), True)
        assert step.rows is not None
        assert 500 <= step.rows <= 1500
        (size,) = whole.tables
        assert size.table == "t"
        assert size.rows is not None
        assert 500 <= size.rows <= 1500
        (keyed,) = planned(replica, "SELECT id FROM t WHERE id = 7", Dialect.MYSQL).steps
        assert (keyed.whole, keyed.rows) == (False, 1.0)

    @pytest.mark.parametrize(
        "text",
        [
            *HOSTILE,
            "SELECT id FROM t INTO OUTFILE '/tmp/holdtrue-escaped'",
            "SELECT id FROM t FOR UPDATE",
            "SELECT /*!99999 1 */ id FROM t /*! INTO OUTFILE '/tmp/holdtrue-escaped' */",
            "FORMAT=JSON DELETE FROM t",
            "t",
        ],
    )
    def test_what_is_no_query_is_not_explained(self, replica: Databases, filled: FreshMariadb, text: str) -> None:
        assert isinstance(plan(replica, text, Dialect.MYSQL), Failure)
        assert filled.value("SELECT count(*) FROM t") == 1000

    def test_what_is_read_through_a_view_is_counted(self, replica: Databases, filled: FreshMariadb) -> None:
        filled.execute(["CREATE VIEW gone AS SELECT hidden.id FROM t AS hidden WHERE hidden.state = 'gone'"])
        found = planned(replica, "SELECT id FROM gone", Dialect.MYSQL)
        assert [(one.tables, one.whole) for one in found.steps] == [(("hidden",), True)]
        assert 500 <= plan_reach(found).rows <= 1500

    def test_nothing_is_executed(self, replica: Databases) -> None:
        assert isinstance(plan(replica, "SELECT id FROM t WHERE SLEEP(1000) = 0", Dialect.MYSQL), Plan)


class TestSqlite:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "shop.db"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, state TEXT)")
        connection.execute('CREATE TABLE "odd ""name"(k TEXT PRIMARY KEY) WITHOUT ROWID')
        connection.executemany("INSERT INTO t VALUES (?, 'open')", [(number,) for number in range(1, 501)])
        connection.commit()
        connection.close()
        return path

    @pytest.fixture
    def databases(self, file: Path) -> Iterator[Databases]:
        databases = Databases(environ={})
        databases.configure([sqlite_config(file)])
        yield databases
        databases.close()

    def test_a_whole_scan_is_told_from_one_by_index(self, databases: Databases) -> None:
        whole = planned(databases, "SELECT o.id FROM t AS o WHERE o.state = 'gone'", Dialect.SQLITE)
        assert [(one.tables, one.whole) for one in whole.steps] == [(("t",), True)]
        assert [(one.table, one.rows) for one in whole.tables] == [("t", 500)]
        keyed = planned(databases, "SELECT id FROM t WHERE id = 7", Dialect.SQLITE)
        assert [(one.tables, one.whole) for one in keyed.steps] == [(("t",), False)]

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT id FROM gone",
            "SELECT g.id FROM gone AS g",
            "SELECT most FROM summed WHERE most < 0",
            "WITH c AS (SELECT id FROM gone) SELECT a.id FROM c AS a JOIN c AS b ON a.id = b.id",
        ],
    )
    def test_what_is_read_through_a_view_is_not_taken_for_nothing(
        self, databases: Databases, file: Path, text: str
    ) -> None:
        """Nor is the view asked for its rows, which would be to execute it."""
        connection = sqlite3.connect(file)
        connection.execute("CREATE VIEW gone AS SELECT id FROM t WHERE state = 'gone'")
        connection.execute("CREATE VIEW summed AS SELECT state, max(id) AS most FROM t GROUP BY state")
        connection.close()
        found = planned(databases, text, Dialect.SQLITE)
        assert {one.tables for one in found.steps if one.whole} == {("t",)}
        assert [one.rows for one in found.tables] == [None]
        assert plan_reach(found).at_least
        assert [one.kind for one in plan_findings(found, LIMIT)] == [PlanFindingKind.UNKNOWN_SIZE]

    @pytest.mark.parametrize(
        "text",
        [
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 9) SELECT m.x FROM n AS m",
            "SELECT x.v FROM (SELECT 1 AS v UNION SELECT 2) AS x",
        ],
    )
    def test_rows_that_the_text_makes_itself_are_no_table(self, databases: Databases, text: str) -> None:
        found = planned(databases, text, Dialect.SQLITE)
        assert not [one for one in found.steps if one.tables]
        assert plan_findings(found, LIMIT) == ()

    def test_a_text_that_our_parser_cannot_read_is_not_taken_for_nothing(self, databases: Databases) -> None:
        def examine(look: Look) -> Plan | Failure:
            assert isinstance(look, Explains)
            return look.explain("SELECT o.id FROM t AS o WHERE o.state = 'gone'", {})

        found = databases.look("db", time_limit=LIMIT, newest_good=None, examine=examine)
        assert isinstance(found, Plan)
        assert [one.kind for one in plan_findings(found, LIMIT)] == [PlanFindingKind.UNKNOWN_SIZE]

    def test_a_name_is_quoted_and_a_table_without_rowid_has_no_known_size(self, databases: Databases) -> None:
        found = planned(databases, 'SELECT k FROM "odd ""name"', Dialect.SQLITE)
        assert [(one.table, one.rows) for one in found.tables] == [('odd "name', None)]

    @pytest.mark.parametrize(
        "text", [*HOSTILE, "PRAGMA user_version = 7", "ATTACH '/tmp/x' AS x", "QUERY PLAN SELECT 1"]
    )
    def test_what_is_no_query_is_not_explained(self, databases: Databases, file: Path, text: str) -> None:
        found = plan(databases, text, Dialect.SQLITE)
        assert isinstance(found, Failure)
        assert found.reason in (FailureReason.WRITES, FailureReason.QUERY)
        connection = sqlite3.connect(file)
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (500,)
        connection.close()
