"""The field's cases about SQL and drivers, from YAML to a judged run, on real PostgreSQL and SQLite."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import casebook
from holdtrue.catalog import build_catalog
from holdtrue.databases import Databases, Examined, Look, examine_invariant
from holdtrue.errors import CatalogRefused
from holdtrue.inspection import ask_now, choose
from holdtrue.model import Catalog, Failure, FailureReason, Outcome, Row
from servers.invariants import HASHER
from servers.postgres import FreshDatabase, started, wait_for_replay, wait_until

NAME = "holdtrue-cases"


@dataclass
class Played:
    """A case in the product: its catalog, its databases, and the raw rows of the last run."""

    catalog: Catalog
    databases: Databases
    rows: list[Row] = field(default_factory=list)
    columns: tuple[str, ...] = ()

    def run(self) -> Examined:
        """One run that came to an examination."""
        answer = self.look()
        assert isinstance(answer, Examined), answer
        return answer

    def look(self, **options: Any) -> Examined | Failure:
        (invariant,) = self.catalog.invariants

        def begin(columns: Any) -> Any:
            self.columns = tuple(column.name for column in columns)
            self.rows = []
            return self.rows.append

        def examine(look: Look) -> Examined:
            return examine_invariant(look, invariant, hasher=HASHER, also=begin)

        return self.databases.look(
            casebook.DATABASE, time_limit=invariant.timeout, newest_good=None, examine=examine, **options
        )


class Stage:
    """Plays cases; everything it opens is closed at the end."""

    def __init__(self, database: FreshDatabase, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self._open: list[Databases] = []

    def postgresql(
        self, case: casebook.Case, *, url: str = "", environ: Mapping[str, str] | None = None, **invariant: object
    ) -> Played:
        """On the standby, or where ``url`` says."""
        # The wheel's server is built without libxml: there the case's xml column is text.
        self.database.execute([one.replace(" x xml,", " x text,") for one in case.setup_sql("postgresql")])
        settings = {"replicas": [{"name": "r1", "url": "${URL}"}], **case.database_settings()}
        config = json.dumps({"databases": {casebook.DATABASE: settings}})
        values = {"URL": url or self.database.standby_url, **(environ or {})}
        return self._played(case, "postgresql", config, values, invariant)

    def sqlite(self, case: casebook.Case, **invariant: object) -> Played:
        """On a file."""
        path = self.folder / "cases.db"
        with sqlite3.connect(path) as connection:
            for statement in case.setup_sql("sqlite"):
                connection.execute(statement)
        connection.close()
        return self._played(case, "sqlite", casebook.sqlite_config(str(path)), {}, invariant)

    def play(self, case: casebook.Case, dialect: str, **invariant: object) -> Played:
        return self.postgresql(case, **invariant) if dialect == "postgresql" else self.sqlite(case, **invariant)  # type: ignore[arg-type]

    def _played(
        self,
        case: casebook.Case,
        dialect: str,
        config: str,
        environ: Mapping[str, str],
        invariant: Mapping[str, object],
    ) -> Played:
        texts = {"holdtrue.yaml": config, "invariants/case.yaml": case.invariants_file(dialect, **invariant)}
        catalog = build_catalog(texts, environ=environ)
        databases = Databases(environ=environ, application_name=NAME)
        self._open.append(databases)
        databases.configure(catalog.config.databases)
        return Played(catalog, databases)

    def close(self) -> None:
        for databases in self._open:
            databases.interrupt_all()
            databases.close()


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


def unchecked(played: Played, sql: str) -> Played:
    """The same with a text that no catalog would let through."""
    (invariant,) = played.catalog.invariants
    played.catalog = replace(played.catalog, invariants=(replace(invariant, sql=sql),))
    return played


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


def test_case_062_every_type_is_the_servers_own_text(stage: Stage) -> None:
    played = stage.postgresql(casebook.case("062"), columns=None)
    assert played.run().tallied.counted == 1
    shown = dict(zip(played.columns, played.rows[0], strict=True))
    assert shown["n"] == "12345678901234.5600"
    assert shown["b"] == "\\x00ff27"
    assert shown["a"] == "{1,NULL,3}"
    assert shown["j"] == '{"k": [1, 1.10, null]}'
    assert shown["js"] == '{"k":1,"k":2}'
    assert shown["e"] == ""
    assert shown["ttz"] == "10:00:00+05:30"
    assert None not in played.rows[0]
    json.loads(json.dumps(played.rows), parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise AssertionError(constant)


def test_case_063_not_a_number_and_infinity_are_text(stage: Stage) -> None:
    played = stage.postgresql(casebook.case("063"))
    played.run()
    assert played.rows == [("1", "NaN", "NaN"), ("2", "Infinity", "-Infinity")]
    played = stage.sqlite(casebook.case("063"))
    played.run()
    assert played.rows == [("1", "Infinity", "-Infinity"), ("2", "Infinity", "0.0")]


def test_case_073_the_first_run_after_the_sessions_were_killed_succeeds(stage: Stage) -> None:
    played = stage.postgresql(casebook.case("073"))
    assert played.run().tallied.counted == 1
    kill = f"SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = '{NAME}'"
    assert stage.database.replica.value(kill) == 1
    for _ in range(2):
        assert played.run().tallied.counted == 1


def test_case_073_a_restarted_server_is_found_again_without_a_restart_of_ours(stage: Stage) -> None:
    with started() as primary:
        case = casebook.case("073")
        primary.execute(list(case.setup_sql("postgresql")))
        config = {"replicas": [{"name": "r1", "url": "${URL}"}], "allow_primary": True}
        played = stage._played(
            case, "postgresql", json.dumps({"databases": {casebook.DATABASE: config}}), {"URL": primary.url()}, {}
        )
        assert played.run().tallied.counted == 1
        primary.stop()
        during = played.look()
        assert isinstance(during, Failure)
        assert during.reason is FailureReason.REFUSED
        primary.start()
        assert played.run().tallied.counted == 1


PASSWORD = "p@ss:w/o#rd?%41&x=1 {y} 'z'"


def test_case_074_a_password_may_have_any_character(stage: Stage) -> None:
    case = casebook.case("074")
    role = f"login_{stage.database.name}"
    doubled = PASSWORD.replace("'", "''")
    stage.database.primary.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{doubled}' IN ROLE pg_monitor")
    wait_for_replay(stage.database.replica)
    address = f"127.0.0.1:{stage.database.replica.port}/{stage.database.name}"
    try:
        apart = {"name": "r1", "url": f"postgresql://{role}@{address}", "password": "${WORD}"}
        inside = {"name": "r1", "url": f"postgresql://{role}:${{ENCODED}}@{address}"}
        environ = {"WORD": PASSWORD, "ENCODED": quote(PASSWORD, safe="")}
        for replica in (apart, inside):
            config = json.dumps({"databases": {casebook.DATABASE: {"replicas": [replica]}}})
            played = stage._played(case, "postgresql", config, environ, {})
            assert played.run().outcome is Outcome.HELD
            wrong = stage._played(case, "postgresql", config, {"WORD": "wrong", "ENCODED": "wrong"}, {}).look()
            assert isinstance(wrong, Failure)
            assert wrong.sentence == "connection refused: wrong user or password"
            played.databases.close()
        broken = stage._played(
            case, "postgresql", config.replace("${ENCODED}", "${BROKEN}"), {"BROKEN": PASSWORD}, {}
        ).look()
        assert isinstance(broken, Failure)
        assert "w/o" not in repr(broken)
    finally:
        stage.database.primary.execute(f"DROP ROLE {role}")


def test_case_077_a_locked_file_is_busy_and_not_violated(stage: Stage) -> None:
    played = stage.sqlite(casebook.case("077"), timeout="300ms")
    writer = sqlite3.connect(stage.folder / "cases.db", isolation_level=None)
    try:
        writer.execute("BEGIN EXCLUSIVE")
        answer = played.look()
        assert isinstance(answer, Failure)
        assert answer.reason is FailureReason.BUSY
        writer.execute("ROLLBACK")
        assert played.run().outcome is Outcome.HELD
    finally:
        writer.close()


def test_case_078_the_declared_zone_decides_and_instants_stay_different(stage: Stage) -> None:
    played = stage.postgresql(casebook.case("078"))
    assert played.run().tallied.counted == 2
    assert sorted(row[1] or "" for row in played.rows) == ["2024-10-27 02:30:00+01", "2024-10-27 02:30:00+02"]
    assert {row[2] for row in played.rows} == {"2024-10-27 02:30:00"}


def test_case_079_a_recovery_conflict_is_tried_once_more_and_is_never_good_news(stage: Stage) -> None:
    """Semantics 2.4: the second attempt, after the conflicting replay, gives the answer."""
    replica = stage.database.replica
    case = casebook.case("079")
    sql = case.sql("postgresql").replace("pg_sleep(6)", "pg_sleep(50)")
    played = stage.postgresql(case, timeout="60s", sql=sql)
    replica.configure(max_standby_streaming_delay="0")
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(played.look()))
    try:
        thread.start()
        active = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}' AND wait_event = 'PgSleep'"
        wait_until(lambda: replica.value(active) == 1, "the query runs on the standby")
        before = replica.value(
            "SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = current_database()",
            stage.database.name,
        )
        # Without truncation, whose lock would be a second conflict.
        stage.database.primary.execute(["DELETE FROM conf", "VACUUM (TRUNCATE false) conf"], stage.database.name)
        thread.join(20)
        assert not thread.is_alive()
        conflicts = "SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = current_database()"
        wait_until(lambda: replica.value(conflicts, stage.database.name) > before, "the standby cancelled the query")
        assert isinstance(answers[0], Examined)
        assert (answers[0].outcome, answers[0].tallied.counted) == (Outcome.HELD, 0)
    finally:
        thread.join(20)
        replica.reset()


def test_case_081_an_idle_primary_is_no_lag(stage: Stage) -> None:
    """Nothing was written for longer than max_lag, yet receive = replay on a living link is lag 0."""
    case = casebook.case("081")
    impatient = casebook.Case({**case.raw, "invariant": {**case.raw["invariant"], "max_replica_lag": "50ms"}})
    played = stage.postgresql(impatient)
    age = "SELECT now() - pg_last_xact_replay_timestamp() > interval '50 ms'"
    wait_until(lambda: stage.database.replica.value(age) is True, "the last commit is older than max_lag")
    examined = played.run()
    assert (examined.outcome, examined.position.lag) == (Outcome.HELD, timedelta(0))


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
