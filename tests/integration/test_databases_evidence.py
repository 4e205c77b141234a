"""Evidence: the rows behind a violation, their parents, their writers and their schema, taken in the run itself."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.model import BaseRows, Evidence, Invariant, Returns
from servers.invariants import ask, invariant, postgres_config, sqlite_config
from servers.postgres import FreshDatabase, started

TABLES = [
    "CREATE TYPE state AS ENUM ('pending', 'settled')",
    "CREATE DOMAIN euros AS numeric(10,2) CHECK (VALUE >= 0)",
    "CREATE TABLE customers(id int PRIMARY KEY, email text NOT NULL)",
    "CREATE TABLE disputes(id text PRIMARY KEY, customer_id int REFERENCES customers, parent text REFERENCES disputes)",
    """CREATE TABLE refunds(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, dispute_id text NOT NULL REFERENCES disputes,
     state state NOT NULL, amount euros NOT NULL, doubled numeric GENERATED ALWAYS AS (amount * 2) STORED, note text)""",
    "CREATE INDEX refunds_by_dispute ON refunds(dispute_id)",
    "CREATE FUNCTION quiet() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER watch BEFORE INSERT ON refunds FOR EACH ROW EXECUTE FUNCTION quiet()",
    "INSERT INTO customers VALUES (1, 'ada@example.test'), (2, 'other@example.test')",
    "INSERT INTO disputes VALUES ('dsp_0', 1, NULL), ('dsp_1', 1, 'dsp_0')",
    "INSERT INTO refunds(dispute_id, state, amount, note) VALUES ('dsp_1', 'settled', 5, 'first')",
]
DOUBLED = "SELECT dispute_id, count(*) AS refunds FROM refunds WHERE state = 'settled' GROUP BY 1 HAVING count(*) > 1"
SAFE = frozenset(
    {"dispute_id", "refunds", "refunds.id", "refunds.dispute_id", "refunds.state", "refunds.amount", "disputes.id"}
    | {"disputes.customer_id", "disputes.parent", "customers.id"}
)


def rule(**changes: object) -> Invariant:
    return invariant(
        **{
            "sql": DOUBLED,
            "key": ("dispute_id",),
            "columns": SAFE,
            "base_rows": (BaseRows("refunds", (("dispute_id", "dispute_id"),)),),
            **changes,
        },
    )


def taken(databases: Databases, asked: Invariant, **options: object) -> tuple[Evidence, ...]:
    answer = ask(databases, asked, never_seen=lambda tallied, complete: tuple(tallied.keys), **options)
    assert isinstance(answer, Examined), answer
    return answer.evidence


@pytest.fixture
def refunds(postgres_database: FreshDatabase) -> FreshDatabase:
    postgres_database.execute(TABLES)
    return postgres_database


@pytest.fixture
def databases(postgres_database: FreshDatabase) -> Iterator[Databases]:
    databases = Databases(environ={})
    databases.configure([postgres_config(postgres_database.standby_url)])
    yield databases
    databases.close()


def test_base_rows_their_parents_and_writers_are_taken(databases: Databases, refunds: FreshDatabase) -> None:
    """Semantics 9.1: as server text, parents first, each with its transaction and its commit time."""
    xid = int(
        refunds.value(
            "INSERT INTO refunds(dispute_id, state, amount) VALUES ('dsp_1', 'settled', 6) RETURNING xmin::text"
        )
    )
    refunds.execute("SELECT 1")
    (evidence,) = taken(databases, rule())
    assert evidence.incomplete == ""
    assert (evidence.violation_columns, evidence.violation) == (("dispute_id", "refunds"), ("dsp_1", "2"))
    tables = [row.table for row in evidence.rows]
    assert sorted(tables) == ["customers", "disputes", "disputes", "refunds", "refunds"]
    assert [row.is_parent for row in evidence.rows if row.table == "refunds"] == [False, False]
    assert tables.index("customers") < tables.index("refunds")
    first, second = sorted((row for row in evidence.rows if row.table == "refunds"), key=lambda row: row.xid or 0)
    assert second.xid == xid
    assert first.xid is not None
    assert first.xid < xid
    assert second.committed_at is not None
    assert dict(zip(second.columns, second.values, strict=True)) == {
        "id": "2",
        "dispute_id": "dsp_1",
        "state": "settled",
        "amount": "6.00",
        "note": None,
    }
    assert dict(zip(second.columns, second.types, strict=True))["amount"] == "numeric(10,2)"


def test_a_base_row_that_another_one_refers_to_is_a_parent(databases: Databases, refunds: FreshDatabase) -> None:
    """Semantics 9.1: declared or not, what is referred to must be loaded first."""
    refunds.execute("INSERT INTO refunds(dispute_id, state, amount) VALUES ('dsp_1', 'settled', 6)")
    both = (*rule().base_rows, BaseRows("disputes", (("id", "dispute_id"),)))
    (evidence,) = taken(databases, rule(base_rows=both))
    found = [(row.table, row.is_parent) for row in evidence.rows]
    assert found.count(("disputes", True)) == 2
    assert ("disputes", False) not in found
    assert found.index(("customers", True)) < found.index(("disputes", True)) < found.index(("refunds", False))


def test_what_is_not_declared_safe_leaves_as_a_stand_in(databases: Databases, refunds: FreshDatabase) -> None:
    """Semantics 4.4: masked before it can reach the store, equal for equal values, in every run."""
    refunds.execute(
        "INSERT INTO refunds(dispute_id, state, amount, note) VALUES ('dsp_1', 'settled', 6, 'secret-note')"
    )
    (evidence,) = taken(databases, rule())
    assert "secret-note" not in repr(evidence)
    assert "ada@example.test" not in repr(evidence)
    assert evidence.pseudonymised == ("customers.email", "refunds.note")
    (again,) = taken(databases, rule())
    assert sorted(again.rows, key=repr) == sorted(evidence.rows, key=repr)


def test_a_writer_open_across_the_run_can_be_told_from_those_before(
    databases: Databases, refunds: FreshDatabase
) -> None:
    """Semantics 9.3: the band of the good run lists the writer whose row a later run finds."""
    with refunds.connect(autocommit=False) as writer:
        writer.execute("INSERT INTO refunds(dispute_id, state, amount) VALUES ('dsp_1', 'settled', 6)")
        xid = int(writer.execute("SELECT pg_current_xact_id()::text").fetchone()[0])
        refunds.execute("INSERT INTO customers VALUES (3, 'later@example.test')")
        before = ask(databases, rule())
        assert isinstance(before, Examined)
        assert before.position.in_progress == (xid,)
        writer.commit()
    refunds.execute("SELECT 1")
    (evidence,) = taken(databases, rule())
    assert xid in {row.xid for row in evidence.rows if row.table == "refunds"}


def test_the_schema_can_be_loaded_elsewhere_and_says_what_it_leaves_out(
    databases: Databases, refunds: FreshDatabase
) -> None:
    """Semantics 9.4: types, enums, domains, keys, checks, foreign keys, indexes; triggers are listed as left out."""
    refunds.execute("INSERT INTO refunds(dispute_id, state, amount) VALUES ('dsp_1', 'settled', 6)")
    (evidence,) = taken(databases, rule())
    assert evidence.left_out == ("trigger watch on refunds",)
    name = refunds.name + "_again"
    refunds.primary.create_database(name)
    try:
        refunds.primary.execute(evidence.schema_sql, name)
        facts = (
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype <> 'n' AND conrelid <> 0"
            " UNION ALL SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indrelid AND c.relnamespace = 'public'::regnamespace"
            " UNION ALL SELECT attname, format_type(atttypid, atttypmod) || attnotnull::text || attgenerated::text"
            " FROM pg_attribute a"
            " JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
            " WHERE attnum > 0 ORDER BY 1, 2"
        )
        assert refunds.primary.query(facts, name) == refunds.query(facts)
    finally:
        refunds.primary.drop_database(name)


def test_a_table_whose_name_holds_quotes_is_found_as_sql_quotes_it_and_as_a_text_names_it(
    databases: Databases, refunds: FreshDatabase
) -> None:
    """Semantics 9.1, 9.4: the parser gives the bare names of the tables that a text reads."""
    refunds.execute(
        [
            'CREATE TABLE "odd ""refunds" AS TABLE refunds',
            'CREATE TABLE "beside ""it""" (id int)',
            "INSERT INTO \"odd \"\"refunds\"(dispute_id, state, amount) VALUES ('dsp_1', 'settled', 6)",
        ]
    )
    asked = rule(
        sql=DOUBLED.replace("FROM refunds", 'FROM "odd ""refunds"'),
        base_rows=(BaseRows('"odd ""refunds"', (("dispute_id", "dispute_id"),)),),
        columns=SAFE | {'odd "refunds.state'},
        tables=('odd "refunds', 'beside "it"'),
    )
    (evidence,) = taken(databases, asked)
    assert evidence.incomplete == ""
    assert {row.table for row in evidence.rows} == {'odd "refunds'}
    assert 'CREATE TABLE "public"."beside ""it"""' in evidence.schema_sql


def test_sqlite_finds_a_table_whose_name_holds_quotes(tmp_path: Path) -> None:
    """Semantics 9.1."""
    path = tmp_path / "monitored.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE "odd ""refunds" (id INTEGER PRIMARY KEY, dispute_id, state)')
        connection.execute("""INSERT INTO "odd ""refunds" VALUES (1, 'd', 'settled'), (2, 'd', 'settled')""")
        connection.commit()
    databases = Databases(environ={})
    databases.configure([sqlite_config(path)])
    asked = rule(
        sql=DOUBLED.replace("FROM refunds", 'FROM "odd ""refunds"'),
        base_rows=(BaseRows('main."odd ""refunds"', (("dispute_id", "dispute_id"),)),),
    )
    (evidence,) = taken(databases, asked)
    databases.close()
    assert evidence.incomplete == ""
    assert len(evidence.rows) == 2


def test_without_declared_base_rows_it_says_so(databases: Databases, refunds: FreshDatabase) -> None:
    refunds.execute("INSERT INTO refunds(dispute_id, state, amount) VALUES ('dsp_1', 'settled', 6)")
    (evidence,) = taken(databases, rule(base_rows=()))
    assert (evidence.rows, evidence.incomplete) == ((), "no base_rows declared")


@pytest.mark.parametrize(
    ("base", "says"),
    [
        (BaseRows("absent", (("dispute_id", "dispute_id"),)), "table absent was not found"),
        (BaseRows("refunds", (("nothing", "dispute_id"),)), "columns that refunds does not have: nothing"),
        (BaseRows("refunds", (("dispute_id", "nothing"),)), "columns that the query does not return: nothing"),
        (BaseRows("refunds", (("id", "dispute_id"),)), "a value could not be read"),
        (BaseRows('refunds"; DROP TABLE refunds; --', (("id", "dispute_id"),)), "was not found"),
    ],
)
def test_a_failure_is_recorded_and_changes_no_outcome(
    databases: Databases, refunds: FreshDatabase, base: BaseRows, says: str
) -> None:
    """Semantics 9.1."""
    refunds.execute("INSERT INTO refunds(dispute_id, state, amount) VALUES ('dsp_1', 'settled', 6)")
    answer = ask(databases, rule(base_rows=(base,)), never_seen=lambda tallied, complete: tuple(tallied.keys))
    assert isinstance(answer, Examined)
    assert answer.tallied.counted == 1
    assert answer.complete
    (evidence,) = answer.evidence
    assert says in evidence.incomplete
    assert refunds.value("SELECT count(*) FROM refunds") == 2


def test_a_table_that_may_not_be_read_is_named_with_its_grant(refunds: FreshDatabase) -> None:
    """Semantics 9.1: a parent, which no text names; the name of a table is no value of a row."""
    login, parent = f"reader_{refunds.name}", '"Disputing"'
    refunds.execute(
        [
            "INSERT INTO refunds(dispute_id, state, amount) VALUES ('dsp_1', 'settled', 6)",
            f"ALTER TABLE disputes RENAME TO {parent}",
            f"CREATE ROLE {login} LOGIN PASSWORD 'x'",
            f"GRANT pg_monitor TO {login}",
            f"GRANT SELECT ON refunds TO {login}",
        ]
    )
    databases = Databases(environ={})
    databases.configure([postgres_config(refunds.replica.url(refunds.name, login, "x"))])
    try:
        (evidence,) = taken(databases, rule())
        assert evidence.incomplete == (
            "permission denied: the login may not read all of Disputing, a foreign-key parent"
            ' (GRANT SELECT ON "public"."Disputing" to it)'
        )
        refunds.execute(f"GRANT SELECT ON {parent}, customers TO {login}")
        (evidence,) = taken(databases, rule())
        assert evidence.incomplete == ""
    finally:
        databases.close()
        refunds.execute([f"DROP OWNED BY {login}", f"DROP ROLE {login}"])


def test_evidence_is_taken_for_at_most_twenty_unseen_keys(
    databases: Databases, postgres_database: FreshDatabase
) -> None:
    postgres_database.execute(["CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 60)"])
    asked = invariant(
        "SELECT id FROM t ORDER BY id",
        key=("id",),
        columns=frozenset({"id", "t.id"}),
        base_rows=(BaseRows("t", (("id", "id"),)),),
    )
    from servers.invariants import HASHER

    known = {HASHER.hash([str(number)]) for number in range(1, 31)}
    found = taken(databases, asked, is_known=known.__contains__)
    assert [one.violation for one in found] == [(str(number),) for number in range(31, 51)]
    assert all(one.rows for one in found)
    assert taken(databases, asked, evidence_limit=0) == ()


def test_rows_beyond_the_limit_are_said_to_be_missing(databases: Databases, postgres_database: FreshDatabase) -> None:
    postgres_database.execute(["CREATE TABLE t(id int)", "INSERT INTO t SELECT 1 FROM generate_series(1, 300)"])
    asked = invariant(
        "SELECT DISTINCT id FROM t",
        key=("id",),
        columns=frozenset({"id", "t.id"}),
        base_rows=(BaseRows("t", (("id", "id"),)),),
    )
    (evidence,) = taken(databases, asked)
    assert len(evidence.rows) == 200
    assert evidence.incomplete == "more than 200 rows"


def test_a_run_cut_short_keeps_the_violation_and_says_that_its_base_rows_are_missing(
    databases: Databases, refunds: FreshDatabase
) -> None:
    text = "SELECT 'dsp_1' AS dispute_id, repeat('x', 9000) UNION ALL SELECT 'dsp_2', (SELECT 'y' FROM pg_sleep(20))"
    answer = ask(
        databases,
        invariant(
            text, key=("dispute_id",), columns=SAFE, timeout=timedelta(milliseconds=500), base_rows=rule().base_rows
        ),
        never_seen=lambda tallied, complete: tuple(tallied.keys),
    )
    assert isinstance(answer, Examined)
    (evidence,) = answer.evidence
    assert evidence.violation[0] == "dsp_1"
    assert evidence.incomplete == "the run was cut short before base rows could be read"


def test_the_rows_of_a_count_come_from_rows_sql(databases: Databases, refunds: FreshDatabase) -> None:
    """Semantics 9.1 and 3.1: they supply sample and evidence, never the count; a disagreement is said."""
    refunds.execute("INSERT INTO refunds(dispute_id, state, amount) VALUES ('dsp_1', 'settled', 6)")
    asked = rule(returns=Returns.COUNT, sql="SELECT 7", rows_sql=DOUBLED)
    answer = ask(databases, asked, never_seen=lambda tallied, complete: tuple(tallied.keys))
    assert isinstance(answer, Examined)
    assert answer.tallied.counted == 7
    assert answer.tallied.sample.rows == (("dsp_1", "2"),)
    assert "disagrees" in answer.rows_note
    assert len(answer.evidence) == 1
    broken = ask(databases, rule(returns=Returns.COUNT, sql="SELECT 7", rows_sql="SELECT absent"))
    assert isinstance(broken, Examined)
    assert (broken.tallied.counted, broken.complete) == (7, True)
    assert "could not be asked" in broken.rows_note


def test_without_commit_timestamps_rows_carry_their_transaction_alone() -> None:
    with started(settings={"track_commit_timestamp": "off"}) as primary:
        primary.execute([*TABLES, "INSERT INTO refunds(dispute_id, state, amount) VALUES ('dsp_1', 'settled', 6)"])
        databases = Databases(environ={})
        databases.configure([postgres_config(primary.url(), allow_primary=True)])
        (evidence,) = taken(databases, rule())
        databases.close()
        assert evidence.incomplete == ""
        assert {row.committed_at for row in evidence.rows} == {None}
        assert None not in {row.xid for row in evidence.rows}


def test_a_sqlite_file_gives_base_rows_parents_and_schema(tmp_path: Path) -> None:
    """Semantics 9.1, 9.3: no writers there; the types are the storage classes of each value."""
    path = tmp_path / "refunds.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE disputes(id TEXT PRIMARY KEY, owner TEXT);"
        "CREATE TABLE refunds(id INTEGER PRIMARY KEY, dispute_id TEXT REFERENCES disputes, loose, state TEXT);"
        "CREATE INDEX by_dispute ON refunds(dispute_id);"
        "CREATE TRIGGER quiet AFTER INSERT ON refunds BEGIN SELECT 1; END;"
        "INSERT INTO disputes VALUES ('dsp_1', 'ada');"
        "INSERT INTO refunds VALUES (1, 'dsp_1', 1, 'settled'), (2, 'dsp_1', '1', 'settled'), (3, 'other', x'00', 'settled');"
    )
    connection.close()
    databases = Databases(environ={})
    databases.configure([sqlite_config(path)])
    (evidence,) = taken(databases, rule(columns=SAFE | {"refunds.loose"}))
    databases.close()
    assert evidence.incomplete == ""
    assert [row.table for row in evidence.rows] == ["disputes", "refunds", "refunds"]
    assert [row.types[2] for row in evidence.rows if row.table == "refunds"] in (
        ["text", "integer"],
        ["integer", "text"],
    )
    assert "CREATE TABLE refunds" in evidence.schema_sql
    assert "CREATE INDEX by_dispute" in evidence.schema_sql
    assert evidence.left_out == ("trigger quiet on refunds",)
    assert "ada" not in repr(evidence.rows)
