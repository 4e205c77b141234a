"""Evidence on a real MariaDB replica: the rows behind a violation, their parents and their schema."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.model import BaseRows, Evidence, Invariant
from servers.invariants import ask, invariant, mysql_config
from servers.mariadb import FreshMariadb

DISPUTES = """CREATE TABLE disputes(id varchar(20) PRIMARY KEY, customer_id int, parent varchar(20), token varbinary(4),
 FOREIGN KEY (customer_id) REFERENCES customers(id), FOREIGN KEY (parent) REFERENCES disputes(id))"""
REFUNDS = """CREATE TABLE refunds(id bigint AUTO_INCREMENT PRIMARY KEY, dispute_id varchar(20) NOT NULL,
 state enum('pending','settled'), amount decimal(10,2), doubled decimal(12,2) AS (amount * 2) STORED, note longtext,
 KEY by_dispute (dispute_id), FOREIGN KEY (dispute_id) REFERENCES disputes(id))"""
TABLES = [
    "CREATE TABLE customers(id int PRIMARY KEY, email varchar(80) NOT NULL)",
    DISPUTES,
    REFUNDS,
    "CREATE TRIGGER watch BEFORE INSERT ON refunds FOR EACH ROW SET NEW.note = NEW.note",
    "INSERT INTO customers VALUES (1, 'ada@example.test'), (2, 'other@example.test')",
    "INSERT INTO disputes VALUES ('dsp_0', 1, NULL, x'00ff'), ('dsp_1', 1, 'dsp_0', NULL)",
    "INSERT INTO refunds(dispute_id, state, amount, note) VALUES ('dsp_1', 'settled', 5, 'first')",
    "INSERT INTO refunds(dispute_id, state, amount, note) VALUES ('dsp_1', 'settled', 6, 'second')",
]
DOUBLED = "SELECT dispute_id, count(*) AS refunds FROM refunds WHERE state = 'settled' GROUP BY 1 HAVING count(*) > 1"
SAFE = frozenset(
    {"dispute_id", "refunds", "refunds.id", "refunds.dispute_id", "refunds.state", "refunds.amount", "disputes.id"}
    | {"disputes.customer_id", "disputes.parent", "customers.id"}
)


def rule(**changes: object) -> Invariant:
    base = (BaseRows("refunds", (("dispute_id", "dispute_id"),)),)
    return invariant(**{"sql": DOUBLED, "key": ("dispute_id",), "columns": SAFE, "base_rows": base, **changes})


def taken(databases: Databases, asked: Invariant) -> Evidence:
    answer = ask(databases, asked, never_seen=lambda tallied, complete: tuple(tallied.keys))
    assert isinstance(answer, Examined), answer
    (evidence,) = answer.evidence
    return evidence


@pytest.fixture
def databases(mariadb_database: FreshMariadb) -> Iterator[Databases]:
    mariadb_database.execute(TABLES)
    databases = Databases(environ={})
    databases.configure([mysql_config(mariadb_database.replica_url)])
    yield databases
    databases.close()


def test_base_rows_and_parents_are_taken_in_loadable_order_and_masked(databases: Databases) -> None:
    """Semantics 9.1: parents first; computed columns are left out; what is not safe is a stand-in of its type."""
    evidence = taken(databases, rule())
    assert (evidence.violation_columns, evidence.violation) == (("dispute_id", "refunds"), ("dsp_1", "2"))
    assert [one.table for one in evidence.rows] == ["customers", "disputes", "disputes", "refunds", "refunds"]
    assert [one.is_parent for one in evidence.rows] == [True, True, True, False, False]
    refund = dict(zip(evidence.rows[-1].columns, evidence.rows[-1].values, strict=True))
    assert (refund["dispute_id"], refund["state"], refund["amount"]) == ("dsp_1", "settled", "5.00")
    assert "doubled" not in refund
    assert refund["note"] not in (None, "first")
    assert "ada@example.test" not in repr(evidence)
    assert {"customers.email", "refunds.note"} <= set(evidence.pseudonymised)
    assert evidence.incomplete == "disputes.token is withheld (no stand-in for its type: declare it safe)"
    assert all(one.xid is None and one.committed_at is None for one in evidence.rows)


def test_the_schema_is_the_servers_own_and_triggers_are_listed(databases: Databases) -> None:
    evidence = taken(databases, rule())
    made = [line for line in evidence.schema_sql.splitlines() if line.startswith("CREATE TABLE")]
    assert made == ["CREATE TABLE `customers` (", "CREATE TABLE `disputes` (", "CREATE TABLE `refunds` ("]
    assert "AUTO_INCREMENT=" not in evidence.schema_sql
    # Seeing a trigger needs the TRIGGER right, which a reader has no need of.
    assert evidence.left_out == ()


@pytest.mark.parametrize(
    ("base", "says"),
    [
        (BaseRows("absent", (("id", "dispute_id"),)), "table absent was not found"),
        (BaseRows("refunds", (("nope", "dispute_id"),)), "refunds does not have: nope"),
        (BaseRows("refunds", (("dispute_id", "nope"),)), "the query does not return: nope"),
        (BaseRows("customers", (("email", "dispute_id"),)), "no row of customers matches this violation"),
        (BaseRows("mysql.absent`; DROP", (("id", "dispute_id"),)), "was not found"),
    ],
)
def test_what_is_missing_is_said_and_changes_nothing(databases: Databases, base: BaseRows, says: str) -> None:
    """Semantics 9.1."""
    assert says in taken(databases, rule(base_rows=(base,))).incomplete


def test_a_parent_that_may_not_be_read_is_named_with_its_grant(
    databases: Databases, mariadb_database: FreshMariadb
) -> None:
    """Semantics 9.1."""
    shop = mariadb_database
    rights = [f"GRANT SELECT ON `{shop.name}`.refunds", "GRANT SLAVE MONITOR ON *.*"]
    shop.execute(
        [f"CREATE USER '{shop.name}'@'%' IDENTIFIED BY 'x'", *(f"{one} TO '{shop.name}'@'%'" for one in rights)]
    )
    databases.configure([mysql_config(shop.replica.url(shop.name, shop.name, "x"))])
    try:
        assert taken(databases, rule()).incomplete == (
            "permission denied: the login may not read all of disputes, a foreign-key parent"
            " (GRANT SELECT ON `disputes` to it)"
        )
    finally:
        databases.close()
        shop.execute(f"DROP USER '{shop.name}'@'%'")


def test_bytes_find_their_rows_and_other_databases_can_be_named(
    databases: Databases, mariadb_database: FreshMariadb
) -> None:
    sql = "SELECT token FROM disputes WHERE token IS NOT NULL"
    base = BaseRows(f"{mariadb_database.name}.disputes", (("token", "token"),))
    evidence = taken(databases, rule(sql=sql, key=("token",), base_rows=(base,)))
    assert [one.table for one in evidence.rows][-1] == f"{mariadb_database.name}.disputes"
    assert len(evidence.rows) == 2
