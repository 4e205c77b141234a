"""The rules in invariants/, on real SQLite and PostgreSQL: healthy data holds, each break is found and nothing else."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdtrue.catalog import CONFIG, build_catalog, computed_columns
from holdtrue.cli.app import build_app
from holdtrue.model import Catalog, Dialect, Returns
from servers.postgres import PostgresPrimary

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "invariants"
STARTER = ROOT / "app" / "holdtrue" / "catalog" / "starter"
SQLITE = "replicas: [{name: r, url: 'sqlite:///x.db'}], allow_primary: true"
POSTGRES = "replicas: [{name: r, url: 'postgresql://u@h/d'}]"
TABLES = (
    "CREATE TABLE accounts (id varchar(20) PRIMARY KEY, credit_balance_eur numeric(12, 2), version integer)",
    "CREATE TABLE credit_log (id integer PRIMARY KEY, account_id varchar(20), amount_eur numeric(12, 2), created_at timestamp)",
    "CREATE TABLE disputes (id varchar(20) PRIMARY KEY, account_id varchar(20), amount_eur numeric, opened_at timestamp)",
    (
        "CREATE TABLE refunds (id integer PRIMARY KEY, dispute_id varchar(20), amount_eur numeric(12, 2), state varchar(20),"
        " created_at timestamp)"
    ),
    (
        "CREATE TABLE jobs (job_id varchar(20) PRIMARY KEY, state varchar(20), lease_owner varchar(20), lease_until timestamp,"
        " created_at timestamp)"
    ),
    "CREATE TABLE invoices (id integer PRIMARY KEY, receipt_key varchar(80))",
    "CREATE TABLE receipts (key varchar(80) PRIMARY KEY, listed_at timestamp)",
)
HEALTHY = (
    "INSERT INTO accounts VALUES ('acc_1', 0.30, 3), ('acc_2', 0, 0)",
    "INSERT INTO credit_log VALUES (1, 'acc_1', 0.10, NULL), (2, 'acc_1', 0.20, NULL)",
    "INSERT INTO refunds VALUES (1, 'dsp_1', 40, 'settled', '2026-01-01 10:00:00'), (2, 'dsp_1', 40, 'failed', NULL)",
    "INSERT INTO jobs VALUES ('job_1', 'in_progress', 'w1', '2999-01-01 00:00:00', NULL), ('job_2', 'done', NULL, NULL, NULL)",
    "INSERT INTO invoices VALUES (1, 'a.pdf')",
    "INSERT INTO receipts VALUES ('a.pdf', NULL)",
)
Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[tuple[Callable[[str], object], Ask]]:
    """A healthy refunds system: how to change it, and how to ask it."""
    if request.param == "sqlite":
        with closing(sqlite3.connect(":memory:")) as connection:
            for statement in (*TABLES, *HEALTHY):
                connection.execute(statement)
            yield connection.execute, lambda sql: connection.execute(sql).fetchall()
        return
    primary: PostgresPrimary = request.getfixturevalue("postgres_primary")
    # One transaction that is rolled back: as good as a database of one's own, and there at once.
    with primary.connect("postgres", autocommit=True) as session, session.transaction(force_rollback=True):
        for statement in (*TABLES, *HEALTHY):
            session.execute(statement)
        yield session.execute, lambda sql: session.execute(sql).fetchall()


def _catalog(name: str, database: str, settings: str) -> Catalog:
    texts = {CONFIG: f"databases: {{{database}: {{{settings}}}}}\n", f"invariants/{name}": (SHIPPED / name).read_text()}
    return build_catalog(texts, environ={})


def _answers(ask: Ask) -> dict[str, list[tuple[Any, ...]] | int]:
    found: dict[str, list[tuple[Any, ...]] | int] = {}
    for one in _catalog("refunds.yaml", "payments", SQLITE).invariants:
        rows = ask(one.sql)
        found[one.name] = rows[0][0] if one.returns is Returns.COUNT else rows
        if one.rows_sql is not None:
            assert len(ask(one.rows_sql)) == rows[0][0]
    return found


@pytest.mark.parametrize(("name", "database_name"), [("refunds.yaml", "payments"), ("starter.yaml", "app")])
@pytest.mark.parametrize("settings", [SQLITE, POSTGRES])
def test_every_shipped_invariant_is_accepted(name: str, database_name: str, settings: str) -> None:
    catalog = _catalog(name, database_name, settings)
    assert catalog.invariants
    assert all("not acted on yet" in one.message for one in catalog.warnings)


def test_the_starter_is_what_init_writes() -> None:
    assert (SHIPPED / "starter.yaml").read_bytes() == (STARTER / "invariants" / "first.yaml").read_bytes()


def test_what_init_writes_points_to_what_every_installation_has() -> None:
    """Whoever installed the package has no folder of documents; the commands that are named run and describe each key."""
    for path in (STARTER / "holdtrue.yaml", STARTER / "invariants" / "first.yaml"):
        text = path.read_text()
        assert "docs/" not in text
        [which] = re.findall(r"^# All keys.*`holdtrue json-schema (\w+)`", text, re.MULTILINE)
        answer = CliRunner().invoke(build_app("json-schema"), ["json-schema", which])
        assert answer.exit_code == 0
        assert all("description" in one for one in json.loads(answer.stdout)["properties"].values())


@pytest.mark.parametrize(("name", "database_name"), [("refunds.yaml", "payments"), ("starter.yaml", "app")])
def test_every_column_that_a_shipped_text_computes_with_is_safe(name: str, database_name: str) -> None:
    """semantics 4.4: else it could not be promoted"""
    for one in _catalog(name, database_name, POSTGRES).invariants:
        text = one.rows_sql or one.sql
        assert set(computed_columns(text, Dialect.POSTGRESQL)) <= one.columns, one.name


def test_healthy_data_holds(database: tuple[Callable[[str], object], Ask]) -> None:
    _, ask = database
    assert _answers(ask) == {
        "one_settled_refund_per_dispute": [],
        "credit_balance_equals_its_log": [],
        "every_receipt_has_one_invoice": [],
        "no_job_left_in_progress": 0,
    }


@pytest.mark.parametrize(
    ("damage", "name", "keys"),
    [
        (
            "INSERT INTO refunds VALUES (9, 'dsp_1', 40, 'settled', '2026-01-01 10:00:09')",
            "one_settled_refund_per_dispute",
            [("dsp_1",)],
        ),
        (
            "UPDATE accounts SET credit_balance_eur = 0.20 WHERE id = 'acc_1'",
            "credit_balance_equals_its_log",
            [("acc_1",)],
        ),
        (
            "UPDATE accounts SET credit_balance_eur = 5 WHERE id = 'acc_2'",
            "credit_balance_equals_its_log",
            [("acc_2",)],
        ),
        ("DELETE FROM credit_log WHERE id = 2", "credit_balance_equals_its_log", [("acc_1",)]),
        (
            "INSERT INTO receipts VALUES ('b.pdf', NULL)",
            "every_receipt_has_one_invoice",
            [("b.pdf", "in the bucket, but not on exactly one invoice")],
        ),
        (
            "INSERT INTO invoices VALUES (2, 'a.pdf')",
            "every_receipt_has_one_invoice",
            [("a.pdf", "in the bucket, but not on exactly one invoice")],
        ),
        (
            "INSERT INTO invoices VALUES (2, 'c.pdf'), (3, 'c.pdf')",
            "every_receipt_has_one_invoice",
            [("c.pdf", "on an invoice, but not in the bucket")],
        ),
        (
            "INSERT INTO jobs VALUES ('job_9', 'in_progress', 'w', '2001-01-01 00:00:00', NULL)",
            "no_job_left_in_progress",
            1,
        ),
        ("INSERT INTO jobs VALUES ('job_9', 'in_progress', NULL, NULL, NULL)", "no_job_left_in_progress", 1),
    ],
)
def test_each_break_is_found_by_its_rule_alone(
    database: tuple[Callable[[str], object], Ask], damage: str, name: str, keys: list[tuple[str, ...]] | int
) -> None:
    change, ask = database
    change(damage)
    answers = _answers(ask)
    found = answers.pop(name)
    assert found == keys if isinstance(found, int) else [row[: len(keys[0])] for row in found] == keys  # type: ignore[index]
    assert not any(answers.values())
