"""Each shape of broken rule, from a look at a file to a folder whose guesses were tried before they left (semantics 9.2)."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdtrue.catalog import inspect_sql
from holdtrue.databases import Databases
from holdtrue.errors import PromotionRefused
from holdtrue.model import BaseRows, Dialect, Invariant, States
from scenes.promoting import RULE, catalog, look, opened_house, promote, save
from servers.invariants import sqlite_config
from stores import House


@pytest.fixture
def house(sqlite_url: str) -> Iterator[House]:
    with opened_house(sqlite_url) as made:
        yield made


class Ticketed:
    """A file that held, broke, and became a ticket."""

    def __init__(self, house: House, path: Path, rule: Invariant, schema: str, first_look: bool = False) -> None:
        self.house, self.path, self.schema, self.first_look = house, path, schema, first_look
        safe = frozenset(rule.key) | frozenset(
            f"{one.table}.{name}" for one in rule.base_rows for name in _columns(schema)
        )
        tables = inspect_sql(rule.sql, Dialect.SQLITE).tables
        self.rule = replace(rule, columns=safe, tables=tables)

    def promote(self, before: Sequence[str], after: Sequence[str]) -> dict[str, Any]:
        """The ticket's two records and its incident."""
        config = sqlite_config(self.path)
        databases = Databases(environ={})
        databases.configure([config])
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.executescript(self.schema + ";".join(before))
            if not self.first_look:
                save(self.house, look(databases, self.rule))
            connection.executescript(";".join(after))
            alert = save(self.house, look(databases, self.rule))
        databases.close()
        files = dict(promote(self.house, catalog(self.rule, config), alert, by="ana").files)
        return {**json.loads(files["ticket.json"]), **json.loads(files["incident.json"]), "files": files}


def _columns(schema: str) -> set[str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {row[1] for table in tables for row in connection.execute(f"PRAGMA table_info({table})")}


JOBS = """CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT NOT NULL DEFAULT 'queued'
 CHECK (state IN ('queued', 'offered', 'running', 'done')), lease_until TEXT, worker TEXT);"""
STUCK = replace(
    RULE,
    sql="SELECT id FROM jobs WHERE state = 'running' AND lease_until < datetime('now')",
    key=("id",),
    base_rows=(BaseRows("jobs", (("id", "id"),)),),
)
TAKEN = "INSERT INTO jobs VALUES (1, 'running', datetime('now', '-5 minutes'), 'w1')"


@pytest.mark.parametrize(
    ("moves", "state"),
    [
        ((), "queued"),
        ((("offered", "running"), ("running", "done")), "offered"),
        ((("lost", "running"), ("offered", "running")), "offered"),
    ],
)
def test_a_job_that_was_left_in_work_has_a_former_state_that_its_schema_takes(
    moves: tuple[tuple[str, str], ...], state: str, tmp_path: Path, house: House
) -> None:
    """A declared state that the CHECK refuses is passed over: what leaves was tried."""
    states = (States("jobs.state", moves),) if moves else ()
    made = Ticketed(house, tmp_path / "a.db", replace(STUCK, states=states), JOBS).promote([], [TAKEN])
    assert made["seed"][0]["rows"] == [["1", state, None, None]]
    assert made["rehearsed"]["result"] == "breaks"
    assert f"jobs.state: guessed as '{state}'" in made["marked"]


def test_a_state_machine_under_which_nothing_comes_before_leaves_an_inserted_row(tmp_path: Path, house: House) -> None:
    states = (States("jobs.state", (("running", "done"),)),)
    made = Ticketed(house, tmp_path / "a.db", replace(STUCK, states=states), JOBS).promote([], [TAKEN])
    assert made["seed"] == []
    assert len(made["observed"]) == 1


@pytest.mark.parametrize("first_look", [False, True])
def test_a_balance_that_drifted_holds_before(first_look: bool, tmp_path: Path, house: House) -> None:
    """semantics 9.2: at the first look too, where everything in the seed is a guess."""
    schema = """CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
     CREATE TABLE entries (id INTEGER PRIMARY KEY, account INTEGER REFERENCES accounts, cents INTEGER NOT NULL);"""
    rule = replace(
        RULE,
        sql="SELECT a.id FROM accounts a WHERE a.balance <> (SELECT coalesce(sum(e.cents), 0) FROM entries e"
        " WHERE e.account = a.id)",
        key=("id",),
        base_rows=(BaseRows("accounts", (("id", "id"),)), BaseRows("entries", (("account", "id"),))),
    )
    before = ["INSERT INTO accounts VALUES (1, 0)"]
    after = ["INSERT INTO entries VALUES (1, 1, 40), (2, 1, 40)", "UPDATE accounts SET balance = 40"]
    made = Ticketed(house, tmp_path / "a.db", rule, schema, first_look).promote(before, after)
    assert {one["table"]: one["rows"] for one in made["seed"]} == {"accounts": [["1", "0"]]}
    assert made["rehearsed"]["result"] == "breaks"
    assert ("no run before it" in made["split"]) is first_look


ORPHAN = """CREATE TABLE receipts (id INTEGER PRIMARY KEY, batch INTEGER NOT NULL, state TEXT NOT NULL);
 CREATE TABLE batches (id INTEGER PRIMARY KEY, note TEXT);"""
ORPHANED = replace(
    RULE,
    sql="SELECT r.id FROM receipts r LEFT JOIN batches b ON b.id = r.batch WHERE b.id IS NULL",
    key=("id",),
    base_rows=(BaseRows("receipts", (("id", "id"),)),),
)


def test_an_orphan_is_tried_with_the_table_that_its_rule_reads_and_the_lost_row_is_asked_for(
    tmp_path: Path, house: House
) -> None:
    """semantics 9.1, 9.4: no row of the parent's table was kept, and its schema was."""
    made = Ticketed(house, tmp_path / "a.db", ORPHANED, ORPHAN).promote(
        ["INSERT INTO batches VALUES (1, 'x')"], ["DELETE FROM batches", "INSERT INTO receipts VALUES (7, 1, 'in')"]
    )
    assert made["rehearsed"]["result"] == "breaks"
    assert "CREATE TABLE batches" in made["files"]["incident_schema.sql"]
    assert any("insert it in pre_image(db)" in mark for mark in made["marked"])
    assert "def pre_image(db):" in made["files"][f"test_incident_{RULE.name}_1.py"]


def test_a_parent_that_is_gone_is_named(tmp_path: Path, house: House) -> None:
    """semantics 9.1: SQLite checks no foreign key by itself."""
    schema = ORPHAN.replace("batch INTEGER NOT NULL", "batch INTEGER NOT NULL REFERENCES batches")
    made = Ticketed(house, tmp_path / "a.db", ORPHANED, schema).promote(
        [], ["INSERT INTO receipts VALUES (7, 1, 'in')"]
    )
    header = made["files"][f"test_incident_{RULE.name}_1.py"]
    assert "incomplete       a row of batches that receipts refers to is gone" in header


def test_a_reference_that_is_missing_may_have_been_due_to_a_state_of_before(tmp_path: Path, house: House) -> None:
    rule = replace(
        RULE,
        sql="SELECT r.id FROM receipts r WHERE r.state = 'filed' AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.id = r.batch)",
        key=("id",),
        base_rows=(BaseRows("receipts", (("id", "id"),)),),
        states=(States("receipts.state", (("in", "filed"),)),),
    )
    made = Ticketed(house, tmp_path / "a.db", rule, ORPHAN).promote(
        ["INSERT INTO receipts VALUES (7, 1, 'in')"], ["UPDATE receipts SET state = 'filed'"]
    )
    assert made["seed"][0]["rows"] == [["7", "1", "in"]]
    assert made["observed"][0]["rows"] == [["7", "1", "filed"]]


STOCK = "CREATE TABLE stock (id INTEGER PRIMARY KEY, least INTEGER); CREATE TABLE items (id INTEGER, stock INTEGER);"
BEFORE = ["INSERT INTO stock VALUES (1, 2)", "INSERT INTO items VALUES (1, 1), (2, 1)"]
SHORT = replace(
    RULE,
    sql="SELECT s.id FROM stock s WHERE s.least > (SELECT count(*) FROM items i WHERE i.stock = s.id)",
    key=("id",),
    base_rows=(BaseRows("stock", (("id", "id"),)), BaseRows("items", (("stock", "id"),))),
)


def test_a_rule_that_a_delete_broke_breaks_by_what_is_left(tmp_path: Path, house: House) -> None:
    made = Ticketed(house, tmp_path / "a.db", SHORT, STOCK).promote(BEFORE, ["DELETE FROM items WHERE id = 2"])
    assert made["rehearsed"]["result"] == "breaks"


def test_a_table_that_base_rows_leave_out_is_named_where_the_rest_breaks_nothing(tmp_path: Path, house: House) -> None:
    rule = replace(SHORT, base_rows=SHORT.base_rows[1:])
    with pytest.raises(PromotionRefused, match="with the observed rows the rule still holds") as found:
        Ticketed(house, tmp_path / "a.db", rule, STOCK).promote(BEFORE, ["DELETE FROM items WHERE id = 2"])
    assert "what else the text reads has to be declared in base_rows (kept: items)" in found.value.remedy
