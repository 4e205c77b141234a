"""From a violation on a real standby, through the store, to a test that fails on the bug and passes on the fix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from holdtrue.catalog import Inspection, computed_columns
from holdtrue.databases import Databases
from holdtrue.errors import NotFound, PromotionRefused
from holdtrue.model import (
    BaseRows,
    DatabaseConfig,
    Dialect,
    Evidence,
    Invariant,
    Outcome,
    Returns,
)
from holdtrue.testing import BarrierDatabase, BarrierFailed
from racy import duplicate, schema
from scenes.promoting import RULE, SAFE, SCRATCH, catalog, incident_of, look, opened_house, preview, promote, save
from servers.invariants import postgres_config, sqlite_config
from servers.postgres import FreshDatabase, PostgresPrimary, wait_for_replay
from stores import House


@pytest.fixture(autouse=True)
def _scratch_server(postgres_primary: PostgresPrimary) -> None:
    """Exports are tried on the server that is there."""
    SCRATCH["HOLDTRUE_SCRATCH_URL"] = postgres_primary.url()


@pytest.fixture
def house(sqlite_url: str) -> Iterator[House]:
    with opened_house(sqlite_url) as made:
        yield made


@pytest.fixture
def standby(postgres_database: FreshDatabase) -> Iterator[Databases]:
    databases = Databases(environ={}, application_name="holdtrue-promotion")
    databases.configure([postgres_config(postgres_database.standby_url)])
    statements = [one for one in schema.POSTGRESQL.split(";") if one.strip()]
    postgres_database.execute([*statements, *schema.ROWS])
    postgres_database.execute(
        "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'failed'), ('dsp_1', 40, 'failed')"
    )
    yield databases
    databases.close()


def settle(connection: Any) -> None:
    connection.execute("INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'settled')")


def test_a_writer_kept_open_across_the_last_good_run_is_found_in_observed(
    standby: Databases, postgres_database: FreshDatabase, house: House, tmp_path: Path
) -> None:
    """semantics 3.2, 9.3: its id is below the snapshot's xmax; the standby's own list of running ones is empty."""
    with postgres_database.connect(autocommit=False) as slow:
        settle(slow)
        slow_xid = slow.execute("SELECT pg_current_xact_id()::text::int8").fetchone()[0]  # type: ignore[index]
        # Others commit meanwhile, so that the open one lies inside the band of the next snapshot.
        postgres_database.execute("INSERT INTO accounts VALUES ('acc_2', 0, 0)")
        good = look(standby)
        assert good.outcome is Outcome.HELD
        xmin, xmax = (int(one) for one in good.position.snapshot.split(":")[:2])
        assert slow_xid < xmax
        assert slow_xid in (good.position.in_progress or ())
        assert slow_xid >= xmin
        save(house, good)
        with postgres_database.connect(autocommit=False) as quick:
            settle(quick)
            quick.commit()
        slow.commit()
    wait_for_replay(postgres_database.replica)
    bad = look(standby)
    assert bad.outcome is Outcome.VIOLATED
    alert = save(house, bad)
    ticket = promote(house, catalog(), alert, by="ana")
    frozen = incident_of(ticket, tmp_path / ticket.id)
    observed = {one.table: one.rows for one in frozen.incident.observed}
    seed = {one.table: one for one in frozen.incident.seed}
    assert [row[3] for row in observed["refunds"]] == ["settled", "settled"]
    assert [row[3] for row in seed["refunds"].rows] == ["failed", "failed"]
    assert set(seed) == {"accounts", "disputes", "refunds"}
    record = json.loads(dict(ticket.files)["ticket.json"])
    assert record["writers"][0]["transaction"] == slow_xid
    assert record["overlap"].startswith("proved by commit order")
    assert record["split"] == "by transaction"
    assert record["page"] == f"https://holdtrue.example/alerts/{alert}"
    assert house.store.tickets.get(ticket.id).files == ticket.files
    assert any(line.action == "alert.promote" for line in house.store.reads.audit(10))


def race_on_standby(standby: Databases, database: FreshDatabase, house: House, *, looks_between: bool = False) -> int:
    save(house, look(standby))
    with database.connect() as connection:
        settle(connection)
        if looks_between:
            wait_for_replay(database.replica)
            save(house, look(standby))
        settle(connection)
    wait_for_replay(database.replica)
    return save(house, look(standby))


@pytest.mark.parametrize("looks_between", [False, True], ids=["one look after both", "a look between the two commits"])
def test_the_scaffold_fails_on_the_bug_and_passes_on_each_fix(
    standby: Databases,
    postgres_database: FreshDatabase,
    house: House,
    tmp_path: Path,
    postgres_primary: PostgresPrimary,
    *,
    looks_between: bool,
) -> None:
    alert = race_on_standby(standby, postgres_database, house, looks_between=looks_between)
    frozen = incident_of(promote(house, catalog(), alert, by="ana"), tmp_path / "one")
    # Keys are not declared safe: what the code is called with stands in the frozen block.
    dispute = next(one for one in frozen.incident.seed if one.table == "disputes").rows[0][0]
    assert dispute != "dsp_1"

    def build(url: str) -> None:
        engine = create_engine(url)
        with engine.begin() as connection:
            for statement in schema.POSTGRESQL.split(";"):
                if statement.strip():
                    connection.exec_driver_sql(statement)
        engine.dispose()

    def run_with(code: Any) -> Any:
        def run(db: BarrierDatabase) -> None:
            code(db.engine)

        return run

    database = BarrierDatabase("postgresql", build, postgres_primary.url)
    previous = duplicate.DISPUTE["d"]
    duplicate.DISPUTE["d"] = str(dispute)
    try:
        with pytest.raises(BarrierFailed, match="violated: one_settled_refund_per_dispute returned 1 row"):
            frozen.check(run_with(duplicate.buggy), run_with(duplicate.buggy), database)
        for fix in (duplicate.right_lock_parent, duplicate.right_serializable):
            frozen.check(run_with(fix), run_with(fix), database)
        with database.engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM refunds")
            connection.exec_driver_sql(schema.UNIQUE)
        frozen.check(run_with(duplicate.right_unique_index), run_with(duplicate.right_unique_index), database)
    finally:
        duplicate.DISPUTE["d"] = previous
        database.close()


def test_a_parent_that_came_in_the_window_is_in_the_seed_though_it_is_a_declared_base_row(
    standby: Databases, postgres_database: FreshDatabase, house: House, tmp_path: Path
) -> None:
    """semantics 9.1, 9.3: without it no party could write; the text does not read it, so it cannot have broken the rule."""
    save(house, look(standby))
    postgres_database.execute(
        [
            "INSERT INTO disputes VALUES ('dsp_2', 'acc_1', 40)",
            "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_2', 40, 'settled')",
            "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_2', 40, 'settled')",
        ]
    )
    both = (*RULE.base_rows, BaseRows("disputes", (("id", "dispute_id"),)))
    rule = replace(RULE, base_rows=both, tables=("refunds",), columns=SAFE | {"refunds.dispute_id", "disputes.id"})
    alert = save(house, look(standby, rule))
    ticket = promote(house, catalog(rule), alert, by="ana")
    incident = incident_of(ticket, tmp_path / ticket.id).incident
    seed = {one.table: one.rows for one in incident.seed}
    assert [row[0] for row in seed["disputes"]] == ["dsp_2"]
    assert "refunds" not in seed
    assert any("disputes" in mark and "written in the window" in mark for mark in incident.marked)


def test_hashed_columns_leave_as_fresh_stand_ins_that_still_join(
    standby: Databases, postgres_database: FreshDatabase, house: House
) -> None:
    """semantics 4.4: equal for equal input across tables, under a salt that is thrown away."""
    alert = race_on_standby(standby, postgres_database, house)
    one, two = (preview(house, catalog(), alert, by="ana") for _ in range(2))
    kept = [row for item in house.store.alerts.get(alert).evidence for row in item.evidence.rows]
    stored = {value for row in kept if row.table == "disputes" for value in row.values}
    for ticket in (one, two):
        data = json.loads(dict(ticket.files)["incident.json"])
        tables = {part["table"]: part for part in data["seed"]}
        dispute = tables["disputes"]["rows"][0][0]
        assert {row[1] for row in tables["refunds"]["rows"]} == {dispute}
        assert tables["disputes"]["rows"][0][1] == tables["accounts"]["rows"][0][0]
        assert dispute not in stored
        assert all("dsp_1" not in text and "acc_1" not in text for _, text in ticket.files)
    assert dict(one.files)["incident.json"] != dict(two.files)["incident.json"]
    assert "disputes.id" in json.loads(dict(one.files)["ticket.json"])["stand_ins"]
    assert house.store.tickets.list(alert) == (), "a preview keeps nothing"


def broken_in_a_file(path: Path, house: House, rule: Invariant = RULE) -> tuple[int, DatabaseConfig]:
    """The alert of two refunds that settle in a SQLite file between two looks."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        for statement in (*schema.SQLITE.split(";"), *schema.ROWS):
            if statement.strip():
                connection.exec_driver_sql(statement)
    databases = Databases(environ={})
    config = sqlite_config(path)
    databases.configure([config])
    try:
        save(house, look(databases, rule))
        with engine.begin() as connection:
            for _ in range(2):
                connection.exec_driver_sql(duplicate.INSERT.replace(":d", "'dsp_1'"))
        return save(house, look(databases, rule)), config
    finally:
        databases.close()
        engine.dispose()


def test_a_row_that_others_refer_to_and_that_the_seed_lacks_is_named_among_the_guesses(
    tmp_path: Path, house: House
) -> None:
    """semantics 9.2, 9.3: the text reads the table and no writer is known: the race inserted the row, or updated it."""
    both = (*RULE.base_rows, BaseRows("disputes", (("id", "dispute_id"),)))
    rule = replace(RULE, base_rows=both, tables=("refunds", "disputes"), columns=SAFE | {"disputes.id"})
    alert, config = broken_in_a_file(tmp_path / "refunds.db", house, rule)
    ticket = preview(house, catalog(rule, config), alert, by="ana")
    frozen = json.loads(dict(ticket.files)["incident.json"])
    assert [one["table"] for one in frozen["observed"]] == ["disputes", "refunds"]
    assert "disputes: the seed has no row of it; insert it if it was there before the race" in frozen["marked"]
    assert "def pre_image(db):" in dict(ticket.files)[f"test_incident_{ticket.id}.py"]


def test_a_column_that_the_text_writes_in_another_case_is_the_same_column_in_a_file(
    tmp_path: Path, house: House
) -> None:
    """semantics 4.4: SQLite finds `STATE`; a stand-in for it would change what the text finds."""
    shouted = replace(RULE, sql=schema.ONE_SETTLED.replace("state", "STATE"), columns=SAFE - {"refunds.state"})
    alert, config = broken_in_a_file(tmp_path / "refunds.db", house, shouted)
    with pytest.raises(PromotionRefused, match=r"columns: \{refunds\.state: safe\}"):
        promote(house, catalog(shouted, config), alert, by="ana")


def test_a_file_is_split_by_key_and_says_so(tmp_path: Path, house: House) -> None:
    """semantics 9.3: SQLite keeps no writers."""
    alert, config = broken_in_a_file(tmp_path / "refunds.db", house)
    ticket = promote(house, catalog(config=config), alert, by="ana")
    frozen = incident_of(ticket, tmp_path / "ticket")
    assert json.loads(dict(ticket.files)["ticket.json"])["split"] == "by key, not by transaction"
    assert {one.table for one in frozen.incident.seed} == {"accounts", "disputes"}
    assert len([row for one in frozen.incident.observed for row in one.rows]) == 2

    def build(url: str) -> None:
        fresh = create_engine(url)
        with fresh.begin() as connection:
            for statement in schema.SQLITE.split(";"):
                if statement.strip():
                    connection.exec_driver_sql(statement)
        fresh.dispose()

    database = BarrierDatabase("sqlite", build, lambda: "")
    dispute = next(one for one in frozen.incident.seed if one.table == "disputes").rows[0][0]
    previous = duplicate.DISPUTE["d"]
    duplicate.DISPUTE["d"] = str(dispute)
    try:
        with pytest.raises(BarrierFailed, match="violated: "):
            frozen.check(lambda db: duplicate.buggy(db.engine), lambda db: duplicate.buggy(db.engine), database)
    finally:
        duplicate.DISPUTE["d"] = previous
        database.close()


def alert_with(house: House, *evidence: Evidence) -> int:
    (claim,) = house.claim()
    house.save(house.finished(claim, Outcome.VIOLATED, evidence=evidence))
    return house.store.alerts.find_open(RULE.name)[0].id


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"returns": Returns.COUNT}, "rows_sql: SELECT"),
        ({"base_rows": ()}, "base_rows: "),
        ({}, "no rows were kept"),
        ({"name": "another"}, "has left the catalog"),
    ],
)
def test_what_cannot_become_a_ticket_is_refused_with_the_line_to_add(
    changes: dict[str, Any], says: str, house: House
) -> None:
    """semantics 9.1."""
    alert = alert_with(house)
    with pytest.raises(PromotionRefused) as found:
        promote(house, catalog(replace(RULE, **changes)), alert, by="ana")
    assert says in str(found.value)
    assert house.store.tickets.list(alert) == ()


def test_a_column_that_the_text_computes_with_must_be_safe(
    standby: Databases, postgres_database: FreshDatabase, house: House
) -> None:
    """semantics 4.4: the YAML line to add is printed; a database's cap counts too."""
    assert "refunds.state" in computed_columns(schema.ONE_SETTLED, Dialect.POSTGRESQL)
    alert = race_on_standby(standby, postgres_database, house)
    unsafe = catalog(replace(RULE, columns=SAFE - {"refunds.state"}))
    with pytest.raises(PromotionRefused, match=r"columns: \{refunds\.state: safe\}"):
        promote(house, unsafe, alert, by="ana")
    capped = catalog(RULE, replace(postgres_config("postgresql://nowhere"), safe_columns=frozenset({"refunds.id"})))
    with pytest.raises(PromotionRefused, match=r"safe_columns of the database: \[refunds\.state\]"):
        promote(house, capped, alert, by="ana")
    by_pattern = catalog(RULE, replace(postgres_config("postgresql://nowhere"), safe_columns=frozenset({"refunds.*"})))
    assert preview(house, by_pattern, alert, by="ana").files


def test_where_nobody_can_tell_what_the_text_computes_with_every_column_must_be_safe(
    standby: Databases, postgres_database: FreshDatabase, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """semantics 4.4, 1.6: what the parser cannot read may compute with anything."""
    alert = race_on_standby(standby, postgres_database, house)
    monkeypatch.setattr("holdtrue.promotion.making.inspect_sql", lambda sql, dialect: Inspection(parsed=False))
    with pytest.raises(PromotionRefused, match=r"cannot be inspected.*disputes\.account_id: safe"):
        promote(house, catalog(), alert, by="ana")


def test_rows_of_a_former_definition_are_not_put_beside_the_present_text(
    standby: Databases, postgres_database: FreshDatabase, house: House
) -> None:
    """semantics 1.1, 9.2: a ticket's text is the one that found its rows."""
    alert = race_on_standby(standby, postgres_database, house)
    changed = catalog(replace(RULE, definition="another"))
    with pytest.raises(PromotionRefused, match="another definition"):
        promote(house, changed, alert, by="ana")


def test_an_alert_of_a_database_without_barrier_tests_is_refused_with_what_to_do(house: House) -> None:
    """semantics 9.4: an incident is replayed on its own kind of database only."""
    alert = alert_with(house)
    on_another = catalog(RULE, postgres_config("duckdb://nowhere", dialect=Dialect.OTHER))
    with pytest.raises(PromotionRefused, match="a barrier test there is not offered") as found:
        promote(house, on_another, alert, by="ana")
    assert "the alert's page" in (found.value.remedy or "")
    assert house.store.tickets.list(alert) == ()


def test_an_alert_that_does_not_exist_is_not_found(house: House) -> None:
    with pytest.raises(NotFound):
        promote(house, catalog(), 4711, by="ana")
