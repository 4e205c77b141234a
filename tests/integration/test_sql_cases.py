"""The field's cases about SQL, from YAML to a judged run, on real PostgreSQL and SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import casebook
from holdtrue.databases import Examined, examine_invariant
from holdtrue.errors import CatalogRefused
from holdtrue.inspection import ask_now, choose
from holdtrue.model import Failure, FailureReason, Outcome
from servers.invariants import HASHER
from servers.postgres import FreshDatabase, wait_for_replay, wait_until
from servers.stage import NAME, Stage, unchecked


@pytest.fixture
def stage(postgres_database: FreshDatabase, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(postgres_database, tmp_path)
    yield stage
    stage.close()


COUNTED = ["014", "015", "017", "020", "021", "024", "025", "027", "029", "032", "055", "058", "062", "063", "078"]
BOTH = [
    (number, dialect)
    for number in COUNTED
    for dialect in ("postgresql", "sqlite")
    if casebook.case(number).setup_sql(dialect)
]


@pytest.mark.parametrize(("number", "dialect"), BOTH)
def test_a_case_gives_the_count_that_a_bare_driver_sees(stage: Stage, number: str, dialect: str) -> None:
    """Semantics 3.1: the text is run untouched."""
    case = casebook.case(number)
    examined = stage.play(case, dialect).run()
    assert examined.outcome is Outcome.VIOLATED
    assert examined.complete
    assert examined.tallied.counted == case.expect["count"]


def test_case_027_the_sample_keeps_the_order_of_the_query(stage: Stage) -> None:
    for dialect in ("postgresql", "sqlite"):
        examined = stage.play(casebook.case("027"), dialect).run()
        assert [row[0] for row in examined.tallied.sample.rows] == ["2", "4"]


def test_case_029_both_columns_of_one_name_are_shown(stage: Stage) -> None:
    for dialect in ("postgresql", "sqlite"):
        played = stage.play(casebook.case("029"), dialect, columns={"id": "safe", "id_2": "safe"})
        sample = played.run().tallied.sample
        assert sample.columns == ("id", "id_2", "owner", "owner_2")
        assert played.rows == [("1", "1", "10", "11")]
        assert sample.rows[0][:2] == ("1", "1")


def test_case_032_null_stays_null(stage: Stage) -> None:
    for dialect in ("postgresql", "sqlite"):
        examined = stage.play(casebook.case("032"), dialect).run()
        assert sorted(examined.tallied.sample.rows, key=str) == [("7", None), (None, None)]


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_case_033_a_count_that_is_null_is_an_error_that_says_what_to_write(stage: Stage, dialect: str) -> None:
    """Semantics 1.5."""
    examined = stage.play(casebook.case("033"), dialect).run()
    assert examined.outcome is Outcome.ERRORED
    assert examined.failure is not None
    assert examined.failure.reason is FailureReason.NULL_COUNT
    assert "query returned NULL" in examined.failure.sentence


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_case_034_a_bare_count_is_refused_with_the_remedy(stage: Stage, dialect: str) -> None:
    """Semantics 1.5: it never alarms on 0; with ``returns: count`` it holds."""
    case = casebook.case("034")
    with pytest.raises(CatalogRefused) as refused:
        stage.play(case, dialect)
    assert any("returns: count" in str(one) for one in refused.value.problems)


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_case_034_as_a_count_it_holds(stage: Stage, dialect: str) -> None:
    examined = stage.play(casebook.case("034"), dialect, returns="count", columns=None).run()
    assert (examined.outcome, examined.tallied.counted) == (Outcome.HELD, 0)


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_case_037_two_statements_are_refused_by_catalog_and_server_alike(stage: Stage, dialect: str) -> None:
    """Semantics 3.2: no result is guessed, even if the catalog's inspection had been passed."""
    case = casebook.case("037")
    with pytest.raises(CatalogRefused):
        stage.play(case, dialect)
    harmless = casebook.Case(
        {**case.raw, "setup_sql": {}, "invariant": {**case.raw["invariant"], "sql": "SELECT 1 AS id FROM invoices"}}
    )
    examined = unchecked(stage.play(harmless, dialect), case.sql(dialect)).run()
    assert examined.outcome is Outcome.ERRORED
    assert examined.tallied.returned == 0


def test_case_039_a_query_that_deletes_is_told_that_it_tried_to_write(stage: Stage) -> None:
    case = casebook.case("039")
    with pytest.raises(CatalogRefused):
        stage.postgresql(case)
    stage.database.execute("DROP TABLE sessions")
    harmless = casebook.Case({**case.raw, "invariant": {**case.raw["invariant"], "sql": "SELECT id FROM sessions"}})
    examined = unchecked(stage.postgresql(harmless), case.sql("postgresql")).run()
    assert examined.failure is not None
    assert examined.failure.reason is FailureReason.WRITES
    assert stage.database.value("SELECT count(*) FROM sessions") == 2


def test_case_045_count_and_rows_come_from_one_execution(stage: Stage) -> None:
    """Semantics 3.1: the server's log shows the text once a run."""
    case = casebook.case("045")
    played = stage.postgresql(case)
    replica = stage.database.replica
    replica.configure(log_statement="all")
    try:
        before = replica.log_file.read_text(encoding="utf-8", errors="replace").count(
            "flaky" if False else "random() < 0.3"
        )
        examined = played.run()
        assert examined.tallied.counted == len(played.rows)
        text = replica.log_file.read_text(encoding="utf-8", errors="replace")
        assert text.count("random() < 0.3") == before + 1
    finally:
        replica.reset()


def test_case_046_a_time_limit_ends_the_statement_on_the_server(stage: Stage) -> None:
    examined = stage.postgresql(casebook.case("046"), columns=None).run()
    assert examined.outcome is Outcome.ERRORED
    assert examined.failure is not None
    assert (examined.failure.reason, examined.failure.sentence) == (FailureReason.TIMEOUT, "timeout after 1 s")
    assert examined.statement < timedelta(seconds=2)
    left = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}' AND state <> 'idle'"
    wait_until(lambda: stage.database.replica.value(left) == 0, "no backend is left at work")


def test_case_049_a_wait_for_a_lock_is_told_apart_from_a_slow_query(stage: Stage) -> None:
    """On the standby, where the migration's lock arrives by replay; afterwards the next run holds."""
    played = stage.postgresql(casebook.case("049"), timeout="1s", columns=None)
    with stage.database.connect(autocommit=False) as migration:
        migration.execute("LOCK TABLE hot IN ACCESS EXCLUSIVE MODE")
        migration.execute("SELECT pg_switch_wal()")
        locked = "SELECT count(*) FROM pg_locks WHERE relation = 'hot'::regclass AND mode = 'AccessExclusiveLock' AND granted"
        wait_until(lambda: stage.database.replica.value(locked, stage.database.name) == 1, "the lock is replayed")
        answer = played.look()
        failure = answer if isinstance(answer, Failure) else answer.failure
        assert failure is not None
        assert failure.reason is FailureReason.LOCK_WAIT
        waiting = (
            f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}' AND wait_event_type = 'Lock'"
        )
        assert stage.database.replica.value(waiting) == 0
        migration.rollback()
    wait_for_replay(stage.database.replica)
    examined = played.run()
    assert (examined.outcome, examined.tallied.counted) == (Outcome.HELD, 0)


def test_case_051_nothing_idles_in_a_transaction(stage: Stage) -> None:
    played = stage.postgresql(casebook.case("051"))
    idle = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    idle += f" AND application_name LIKE '{NAME}%'"
    (invariant,) = played.catalog.invariants
    for sql in (invariant.sql, "SELECT absent FROM t", "SELECT 1 AS id FROM pg_sleep(9)"):
        played.catalog = replace(
            played.catalog, invariants=(replace(invariant, sql=sql, timeout=timedelta(milliseconds=300)),)
        )
        played.look()
        wait_until(lambda: stage.database.replica.value(idle) == 0, "no session idles in a transaction")


def test_case_052_a_million_rows_are_counted_and_a_handful_kept(stage: Stage) -> None:
    """A tenth of a million here, so that the suite stays short; bench/million_rows.py has the whole and its memory."""
    case = casebook.case("052")
    fewer = [one.replace("1000000", "100000") for one in case.setup_sql("postgresql")]
    small = casebook.Case({**case.raw, "setup_sql": {"postgresql": fewer}})
    played = stage.postgresql(small, timeout="60s")
    (invariant,) = played.catalog.invariants
    answer = played.databases.look(
        casebook.DATABASE,
        time_limit=invariant.timeout,
        newest_good=None,
        examine=lambda look: examine_invariant(look, invariant, hasher=HASHER),
    )
    assert isinstance(answer, Examined)
    assert (answer.tallied.counted, answer.complete) == (100_000, True)
    assert len(answer.tallied.sample.rows) <= 20
    assert len(answer.tallied.keys) <= 10_000


def test_case_053_huge_cells_are_cut_with_a_mark(stage: Stage) -> None:
    case = casebook.case("053")
    examined = stage.postgresql(case, timeout="60s").run()
    assert examined.tallied.counted == case.expect["count"]
    sample = examined.tallied.sample
    longest = max(len(cell or "") for row in sample.rows for cell in row)
    assert longest < 5_000
    assert any("…" in (cell or "") for row in sample.rows for cell in row)
    assert len(set(sample.rows)) == len(sample.rows)


def test_case_055_columns_are_named_as_the_database_has_them(stage: Stage) -> None:
    assert stage.postgresql(casebook.case("055")).run().tallied.sample.columns == ("OrderId", "Total", "total")


def test_case_058_without_the_search_path_the_table_is_not_found(stage: Stage) -> None:
    """The setting belongs to the database and never leaks; without it there is no answer from another schema."""
    case = casebook.case("058")
    stage.database.execute([*case.setup_sql("postgresql"), "DROP TABLE public.jobs"])
    plain = casebook.Case({**case.raw, "setup_sql": {}, "environment": {}})
    del plain.raw["invariant"]["search_path"]
    examined = stage.postgresql(plain).run()
    assert examined.failure is not None
    assert examined.failure.sqlstate == "42P01"
    assert "relation does not exist" in examined.failure.sentence


def test_case_059_a_missing_grant_is_an_error_in_our_own_words(stage: Stage) -> None:
    case = casebook.case("059")
    role = f"monitor_{stage.database.name}"
    stage.database.primary.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x' IN ROLE pg_monitor")
    try:
        url = stage.database.replica.url(stage.database.name, role, "x")
        played = stage.postgresql(case, url=url, columns=None)
        examined = played.run()
        assert examined.outcome is Outcome.ERRORED
        assert examined.failure is not None
        assert (examined.failure.reason, examined.failure.sqlstate) == (FailureReason.FORBIDDEN, "42501")
        assert "payroll" not in examined.failure.sentence
        played.databases.close()
    finally:
        stage.database.primary.execute(f"DROP ROLE {role}")


def test_the_product_asks_a_whole_catalog_side_by_side(stage: Stage) -> None:
    """One failing invariant hides no other (case 059's second half), through what ``holdtrue run`` uses."""
    played = stage.postgresql(casebook.case("014"))
    (good,) = played.catalog.invariants
    bad = replace(good, name="bad", sql="SELECT absent FROM invoices")
    catalog = replace(played.catalog, invariants=(bad, good))
    seen: list[str] = []
    answers = ask_now(
        played.databases,
        catalog,
        choose(catalog, [], []),
        HASHER,
        on_done=lambda one: seen.append(one.invariant.name),
    )
    assert [one.outcome for one in answers] == [Outcome.ERRORED, Outcome.VIOLATED]
    assert seen == ["bad", good.name]
