from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from holdtrue.errors import StoreOutdated, StoreUnreachable
from holdtrue.store import Store, open_store, schema
from holdtrue.store.schema import HEAD
from servers.postgres import PostgresPrimary


@pytest.fixture(params=["sqlite", "postgresql"])
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store that has no schema yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'bare.db'}"
        return
    primary: PostgresPrimary = request.getfixturevalue("postgres_primary")
    primary.create_database("bare_store")
    try:
        yield primary.url("bare_store")
    finally:
        primary.drop_database("bare_store")


@pytest.fixture
def store(bare: str) -> Iterator[Store]:
    opened = open_store(bare)
    try:
        yield opened
    finally:
        opened.close()


def change(store: Store, statement: str) -> None:
    with store._engine.write() as connection:
        connection.execute(text(statement))


def test_a_new_store_says_what_to_do_and_then_has_no_drift(store: Store) -> None:
    assert store.check() == ("the store has no schema yet (run `holdtrue store upgrade`)",)
    with pytest.raises(StoreOutdated, match="holdtrue store upgrade"):
        store.require_current()
    with pytest.raises(StoreOutdated, match="holdtrue store upgrade"):
        store.reads.overview()
    store.upgrade()
    assert store.check() == ()
    store.require_current()
    store.upgrade()
    assert store.reads.overview() == ()


def test_the_newest_migration_is_the_one_this_version_speaks() -> None:
    folder = Path(shutil.__file__).parent  # any module's folder: the next line is the one that matters
    assert folder.exists()

    versions = sorted((Path(schema.__file__).parent / "migrations" / "versions").glob("[0-9]*.py"))
    assert versions[-1].name.startswith(f"{HEAD}_")


def test_several_processes_may_upgrade_at_once(bare: str) -> None:
    stores = [open_store(bare) for _ in range(4)]
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(Store.prepare, stores))
        assert stores[0].check() == ()
    finally:
        for opened in stores:
            opened.close()


def test_a_schema_of_a_newer_version_is_left_alone(store: Store) -> None:
    store.upgrade()
    change(store, "UPDATE alembic_version SET version_num = '9999'")
    (problem,) = store.check()
    assert "'9999' is not known" in problem
    for refused in (store.upgrade, store.require_current, store.prepare):
        with pytest.raises(StoreOutdated):
            refused()


def test_a_table_that_drifted_is_named(store: Store) -> None:
    store.upgrade()
    change(store, "DROP TABLE accepted_systems")
    change(store, "ALTER TABLE audit ADD COLUMN surprise INTEGER")
    problems = "\n".join(store.check())
    assert "accepted_systems" in problems
    assert "surprise" in problems


def test_a_damaged_file_is_said_to_be_damaged(tmp_path: Path, sqlite_template: Path) -> None:
    path = tmp_path / "damaged.db"
    shutil.copy(sqlite_template, path)
    raw = bytearray(path.read_bytes())
    for place in range(4096, len(raw), 4096):
        raw[place : place + 200] = b"\xff" * 200
    path.write_bytes(raw)
    store = open_store(f"sqlite:///{path}")
    try:
        assert damage_of(store)
    finally:
        store.close()


def damage_of(store: Store) -> str:
    """What is said of a damaged file: by ``check``, or before it when not even the catalog of tables can be read."""
    try:
        problems = "; ".join(store.check())
    except StoreUnreachable as problem:
        problems = str(problem)
    return problems if "damaged" in problems or "cannot be used" in problems else ""


def test_a_row_without_its_owner_is_found(tmp_path: Path, sqlite_template: Path) -> None:
    path = tmp_path / "orphans.db"
    shutil.copy(sqlite_template, path)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO tickets (id, episode_id, created_at, created_by, files) VALUES ('t', 7, '', '', '')"
        )
    connection.close()
    store = open_store(f"sqlite:///{path}")
    try:
        assert store.check() == ("rows of tickets lost what they belong to",)
    finally:
        store.close()


def test_a_file_that_is_no_database_is_unreachable(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(b"no database at all, and longer than its header would be" * 99)
    store = open_store(f"sqlite:///{path}")
    try:
        with pytest.raises(StoreUnreachable, match="cannot be used"):
            store.ping()
    finally:
        store.close()


def test_a_store_of_the_first_version_is_upgraded_with_what_it_holds(store: Store) -> None:
    """A column that came later has a value for every row that was there before."""
    from alembic import command

    with store._engine.write() as connection:
        command.upgrade(schema._config(connection), "0001")
        given: dict[str, dict[str, object]] = {
            "entries": {"id": 1, "invariant": "rule", "database": "payments", "definition": "d1", "token": 7},
            "standings": {
                "entry_id": 1,
                "health": "ok",
                "good_definition": "d1",
                "secret_id": "s1",
                "key_columns": "id",
            },
            "runs": {"id": 1, "entry_id": 1, "kind": "scheduled", "outcome": "held", "definition": "d1", "duration": 0},
            "ledger_keys": {"entry_id": 1, "key": "k1", "disposition": "counted", "novelty": "new"},
        }
        for name, values in given.items():
            # What is not said here is filled by type: it only has to be there.
            filled: dict[str, object] = {}
            for column in inspect(connection).get_columns(name):
                kind = str(column["type"]).upper()
                moment = "TIME" in kind or column["name"] in MOMENTS
                plain = (
                    "2026-11-29 12:00:00.000000+00"
                    if moment
                    else False
                    if "BOOL" in kind
                    else 0
                    if "INT" in kind
                    else ""
                )
                if column["name"] in values or not column["nullable"]:
                    filled[column["name"]] = values.get(column["name"], plain)
            names = ", ".join(f'"{one}"' for one in filled)
            marks = ", ".join(f":{one}" for one in filled)
            connection.execute(text(f"INSERT INTO {name} ({names}) VALUES ({marks})"), filled)
    with pytest.raises(StoreOutdated, match="upgrade"):
        store.require_current()
    store.upgrade()
    assert store.check() == ()
    with store._engine.read() as connection:
        run = connection.execute(text("SELECT healed, suspicious FROM runs")).one()
        key = connection.execute(text("SELECT key, present_since, young_since FROM ledger_keys")).one()
        tags = connection.execute(text("SELECT tags FROM entries")).scalar_one()
    assert (tuple(run), tuple(key), tags) == ((0, ""), ("k1", None, None), "")
    assert store.silences.list(ended_too=True) == ()


MOMENTS = ("since", "next_due", "due_at", "started_at", "first_seen", "last_changed")


def test_alerts_of_the_first_schema_are_kept_and_have_their_entrys_name(store: Store) -> None:
    """Semantics 7.6: an alert that fired before names were kept goes on under the name of its entry."""
    with store._engine.write() as connection:
        schema._alembic_command().upgrade(schema._config(connection), "0001")
        connection.execute(
            text(
                "INSERT INTO entries (id, invariant, database, since, generation, definition, severity, owner, schedule_key,"
                " schedule_generation, next_due, attempts, token) VALUES (1, 'refunds', 'payments', :at, 1, 'd1', 'critical',"
                " 'oncall', '1m', 1, :at, 0, 0)"
            ),
            {"at": "2026-11-29T12:00:00.000000Z"},
        )
        connection.execute(
            text(
                "INSERT INTO episodes (id, entry_id, subject, state, opened_at, definition, severity, owner, fired_at, count,"
                " count_complete, peak, violated_in_a_row, held_in_a_row, told_count, new_since_told, at_first_look, events,"
                " acknowledged_by, note) VALUES (1, 1, 'violation', 'firing', :at, 'd1', 'critical', 'oncall', :at, 3, true,"
                " 3, 1, 0, 3, 0, false, 1, '', '')"
            ),
            {"at": "2026-11-29T12:00:00.000000Z"},
        )
    store.upgrade()
    assert store.check() == ()
    [episode] = store.alerts.firing()
    assert (episode.invariant, episode.fired_as, episode.count) == ("refunds", "", 3)
