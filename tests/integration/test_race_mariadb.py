"""Races on a real MariaDB: bugs are found at every boundary, right fixes hold, and the server says who waits for whom."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pymysql
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import StaticPool

from holdtrue.errors import Refused, SettingsRefused
from holdtrue.testing import BarrierDatabase, LeftOpen, Limits, RaceReport, Verdict, race, step
from holdtrue.testing.barrier_databases import BarrierServer
from holdtrue.testing.parties import Party, State
from racy import duplicate, lost_update, schema
from racy.raw import Raw
from servers.mariadb import ADMIN, MariadbPrimary

REPEATS = 2


@pytest.fixture(scope="module")
def database(mariadb_primary: MariadbPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("mariadb", schema.build, lambda: mariadb_primary.url(user=ADMIN))
    yield made
    made.close()


@pytest.fixture(scope="module")
def with_unique_index(mariadb_primary: MariadbPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("mysql", schema.build_unique, lambda: mariadb_primary.url(user=ADMIN))
    yield made
    made.close()


def raw_on(database: BarrierDatabase) -> Raw:
    url = database.sqlalchemy_url

    def connect() -> pymysql.Connection[pymysql.cursors.Cursor]:
        return pymysql.connect(
            host=url.host, port=url.port or 0, user=url.username, password=url.password or "", database=url.database
        )

    return Raw(connect)


def two_of(code: Callable[[], object], database: BarrierDatabase, rule: str, **more: object) -> RaceReport:
    return race(a=code, b=code, invariant=rule, db=database, **more).play()  # type: ignore[arg-type]


def alike(code: Callable[[], object], database: BarrierDatabase, rule: str, **more: object) -> RaceReport:
    seen = []
    for _ in range(REPEATS):
        report = two_of(code, database, rule, **more)
        seen.append([(one.schedule.name, one.verdict, one.played.lines) for one in report.judged])
    assert all(one == seen[0] for one in seen)
    return report


@pytest.mark.parametrize(
    ("bug", "rule", "held"),
    [("duplicate", schema.ONE_SETTLED, 1), ("duplicate", schema.ONE_SETTLED, 2)]
    + [("lost_update", schema.BALANCE, one) for one in (1, 2, 3)],
)
def test_a_bug_in_pymysql_is_found_at_every_boundary_each_time_by_the_same_trace(
    bug: str, rule: str, held: int, database: BarrierDatabase
) -> None:
    report = alike(getattr(raw_on(database), bug), database, rule, hold=step(held))
    assert report.verdict is Verdict.VIOLATED, report.show()


@pytest.mark.parametrize(
    ("fix", "rule", "held"),
    [
        ("duplicate_behind_a_lock", schema.ONE_SETTLED, None),
        ("atomic_update", schema.BALANCE, None),
        ("duplicate_behind_a_named_lock", schema.ONE_SETTLED, 1),
        ("duplicate_ignored", schema.ONE_SETTLED, 1),
        ("update_behind_a_lock", schema.BALANCE, 1),
    ],
)
def test_a_right_fix_in_pymysql_holds_each_time_by_the_same_trace(
    fix: str, rule: str, held: int | None, database: BarrierDatabase, with_unique_index: BarrierDatabase
) -> None:
    place = with_unique_index if fix == "duplicate_ignored" else database
    report = alike(getattr(raw_on(place), fix), place, rule, **({} if held is None else {"hold": step(held)}))
    assert report.verdict is Verdict.HELD, report.show()
    assert any("waits for" in line.what for one in report.judged for line in one.played.lines)
    assert not any(one.played.inferred for one in report.judged)


@pytest.mark.parametrize(
    ("code", "rule", "verdict"),
    [
        (duplicate.buggy, schema.ONE_SETTLED, Verdict.VIOLATED),
        (lost_update.buggy, schema.BALANCE, Verdict.VIOLATED),
        (lost_update.right_for_update, schema.BALANCE, Verdict.HELD),
    ],
    ids=lambda one: one.__name__ if callable(one) else "",
)
def test_engines_of_sqlalchemy_are_held_and_pymysql_below_them_not_once_more(
    code: Callable[[Engine], None], rule: str, verdict: Verdict, database: BarrierDatabase
) -> None:
    report = two_of(lambda: code(database.engine), database, rule, hold=step(1))
    assert report.verdict is verdict, report.show()
    alone = [line.what for line in report.judged[0].played.lines if line.party == "A"]
    assert alone.count("COMMIT") == 1
    assert len(alone) in (4, 5)


def test_a_deadlock_has_its_victim_at_once_and_the_rule_alone_judges(database: BarrierDatabase) -> None:
    """Both lock the gap in which nothing is, and each INSERT waits for the other: which of them is refused may vary."""
    report = two_of(lambda: duplicate.wrong_for_update_of_absent_rows(database.engine), database, schema.ONE_SETTLED)
    assert report.verdict is Verdict.HELD, report.show()
    assert any("OperationalError (40001)" in one.played.conflicts for one in report.judged)


def test_who_is_waited_for_is_found_though_the_view_was_read_a_moment_before(database: BarrierDatabase) -> None:
    """Whoever asks it again and again sees the old answer for ever: it is refreshed where nobody read it for 0.1 s."""
    raw = raw_on(database)
    blocking = database.control.blocking()
    with closing(raw.open()) as one, closing(raw.open()) as other:
        parties = [Party(name, lambda: None, State.MOVING) for name in "AB"]
        for party, connection in zip(parties, (one, other), strict=True):
            party.pids.add(connection.thread_id())
        one.cursor().execute("SELECT * FROM accounts FOR UPDATE")
        waiting = threading.Thread(target=other.cursor().execute, args=("SELECT * FROM accounts FOR UPDATE",))
        database.control.ask("SELECT * FROM information_schema.innodb_trx")
        waiting.start()
        try:
            end = time.monotonic() + 5
            while not (found := blocking.waits(parties)) and time.monotonic() < end:
                waiting.join(0.002)
        finally:
            one.rollback()
            waiting.join()
    assert found == {"B": "A"}
    assert not blocking.inferred


def test_a_wait_for_a_table_s_definition_is_a_guess_and_says_so(database: BarrierDatabase) -> None:
    def read() -> None:
        with database.engine.begin() as connection:
            connection.execute(text("SELECT * FROM credit_log"))
            duplicate.read_then_insert(connection)

    def alter() -> None:
        with database.engine.begin() as connection:
            connection.execute(text("ALTER TABLE credit_log COMMENT = 'new'"))

    made = race(a=read, b=alter, invariant=schema.ONE_SETTLED, db=database, hold=step(1))
    report = made.play()
    assert report.verdict is Verdict.HELD, report.show()
    held = next(one for one in report.judged if one.schedule.name == "A")
    assert held.played.inferred
    assert any(line.what == "waits for A (inferred)" for line in held.played.lines)
    assert "inferred" in report.reason


def test_a_lone_statement_is_held_before_its_commit(database: BarrierDatabase) -> None:
    """Both lock the gap: the server refuses one of two at once, which is why this one holds on MariaDB."""
    raw = raw_on(database)

    def alone() -> pymysql.Connection[pymysql.cursors.Cursor]:
        connection = raw.open()
        connection.autocommit(True)
        assert isinstance(connection, pymysql.Connection)
        return connection

    report = two_of(Raw(alone).lone_duplicate, database, schema.ONE_SETTLED)
    steps = [line.what for line in report.judged[0].played.lines if line.party == "A"]
    assert steps == ["START", "INSERT refunds", "COMMIT"]
    assert report.verdict is Verdict.HELD, report.show()


def test_a_connection_goes_on_to_tell_of_the_code_s_own_last_statement(database: BarrierDatabase) -> None:
    """The BEGIN and the COMMIT that are put around it are none of the code's."""
    told: list[tuple[int, int, bool]] = []

    def run() -> None:
        with closing(raw_on(database).open()) as connection:
            assert isinstance(connection, pymysql.Connection)
            connection.autocommit(True)
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 1, 'failed')")
                told.append(
                    (connection.insert_id(), connection.affected_rows(), connection.insert_id() == cursor.lastrowid)
                )
                cursor.execute("SELECT 1")
                assert cursor.fetchall() == ((1,),)

    report = two_of(run, database, schema.ONE_SETTLED)
    assert report.verdict is Verdict.HELD, report.show()
    assert [line.what for line in report.judged[0].played.lines if line.party == "A"][1:3] == [
        "INSERT refunds",
        "COMMIT",
    ]
    assert all(number > 0 and rows == 1 and same for number, rows, same in told), told


def test_results_that_nobody_reads_are_not_waited_for_again(database: BarrierDatabase) -> None:
    url = database.sqlalchemy_url
    insert = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 1, 'failed')"

    def run() -> None:
        with closing(
            pymysql.connect(
                host=url.host,
                port=url.port or 0,
                user=url.username,
                password=url.password or "",
                database=url.database,
                autocommit=True,
                client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS,
            )
        ) as connection:
            connection.cursor().execute(f"{insert}; {insert}")
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
                assert cursor.fetchall() == ((1,),)

    report = two_of(run, database, schema.ONE_SETTLED, limits=Limits(deadline=5))
    assert report.verdict is Verdict.HELD, report.show()


def test_unread_rows_of_pymysql_are_not_lost_and_their_commit_is_not_held(database: BarrierDatabase) -> None:
    def run() -> None:
        with closing(raw_on(database).open()) as connection:
            connection.autocommit(True)
            with connection.cursor(pymysql.cursors.SSCursor) as cursor:
                cursor.execute(
                    "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 1, 'failed') RETURNING state"
                )
                assert cursor.fetchall() == [("failed",)]

    report = two_of(run, database, schema.ONE_SETTLED)
    steps = [line.what for line in report.judged[0].played.lines if line.party == "A"]
    assert steps == ["START", "INSERT refunds"], report.show()


def test_a_slow_statement_is_no_stall(database: BarrierDatabase) -> None:
    def run() -> None:
        with database.engine.begin() as connection:
            connection.execute(text("SELECT id FROM disputes WHERE id = 'dsp_1' FOR UPDATE"))
            connection.execute(text("SELECT SLEEP(0.3)"))
            duplicate.read_then_insert(connection)

    report = two_of(run, database, schema.ONE_SETTLED, limits=Limits(stall=0.05), hold=step(1))
    assert report.verdict is Verdict.HELD, report.show()


def test_a_lock_inside_one_process_is_stalled(database: BarrierDatabase) -> None:
    lock = threading.Lock()

    def run() -> None:
        with lock:
            raw_on(database).duplicate()

    report = two_of(run, database, schema.ONE_SETTLED, limits=Limits(stall=0.1), hold=step(1))
    assert report.verdict is Verdict.STALLED, report.show()


def test_one_connection_for_both_is_named_with_its_remedy(database: BarrierDatabase) -> None:
    shared = create_engine(database.url, poolclass=StaticPool)
    try:
        report = two_of(lambda: duplicate.buggy(shared), database, schema.ONE_SETTLED)
    finally:
        shared.dispose()
    assert report.verdict is Verdict.SHARED_CONNECTION
    assert "no StaticPool" in report.reason


def test_a_transaction_that_is_left_open_is_named(database: BarrierDatabase) -> None:
    kept = []

    def run() -> None:
        connection = raw_on(database).open()
        kept.append(connection)
        connection.cursor().execute("UPDATE accounts SET version = version + 1")

    made = race(a=run, b=raw_on(database).duplicate, invariant=schema.ONE_SETTLED, db=database)
    try:
        with pytest.raises(LeftOpen, match="left a transaction open"):
            made.play()
    finally:
        for one in kept:
            one.close()


def test_without_a_database_the_one_that_pymysql_speaks_to_is_asked(database: BarrierDatabase) -> None:
    run = raw_on(database).duplicate
    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, reset=database.control.set_back).play()
    assert report.verdict is Verdict.VIOLATED


def test_a_login_that_may_not_see_who_waits_is_told_what_to_grant(
    database: BarrierDatabase, mariadb_primary: MariadbPrimary
) -> None:
    name = database.sqlalchemy_url.database
    mariadb_primary.execute(["CREATE USER barrier IDENTIFIED BY 'b'", f"GRANT ALL ON `{name}`.* TO barrier"])
    engine = create_engine(database.sqlalchemy_url.set(username="barrier", password="b"))
    try:
        made = race(
            a=lambda: duplicate.right_lock_parent(engine),
            b=lambda: duplicate.right_lock_parent(engine),
            invariant=schema.ONE_SETTLED,
            db=engine,
            reset=database.control.set_back,
        )
        with pytest.raises(SettingsRefused, match="may not see who waits for whom") as found:
            made.play()
    finally:
        engine.dispose()
        mariadb_primary.execute("DROP USER barrier")
    assert found.value.remedy == "GRANT PROCESS ON *.* TO it"


def test_there_is_no_asynchronous_engine_that_was_never_tried(database: BarrierDatabase) -> None:
    with pytest.raises(Refused, match="no asynchronous engine on MariaDB"):
        _ = database.async_engine


def test_a_server_has_to_be_named() -> None:
    with pytest.raises(SettingsRefused, match="no MariaDB or MySQL") as found:
        BarrierServer({"HOLDTRUE_BARRIER_URL": "postgresql://elsewhere/"}).url("mysql")
    assert "HOLDTRUE_BARRIER_MYSQL_URL" in str(found.value.remedy)


def test_the_databases_are_gone_afterwards(mariadb_primary: MariadbPrimary) -> None:
    made = BarrierDatabase("mysql", schema.build, lambda: mariadb_primary.url(user=ADMIN))
    two_of(raw_on(made).duplicate, made, schema.ONE_SETTLED, hold=step(1))
    name = made.sqlalchemy_url.database
    assert (
        mariadb_primary.value(f"SELECT count(*) FROM information_schema.schemata WHERE schema_name LIKE '{name}%'") == 2
    )
    made.close()
    assert (
        mariadb_primary.value(f"SELECT count(*) FROM information_schema.schemata WHERE schema_name LIKE '{name}%'") == 0
    )


@pytest.mark.parametrize(
    ("sql", "verdict"),
    [
        ("UPDATE accounts SET version = 1 WHERE id = 'of another test'", Verdict.BOTH_FAILED),
        ("SELECT borrow()", Verdict.HELD),
    ],
)
def test_a_write_of_no_row_is_no_change_and_a_function_that_may_write_is_not_accused(
    sql: str, verdict: Verdict, database: BarrierDatabase
) -> None:
    """Neither leaves another row behind; of the function nobody can tell."""

    def run() -> None:
        with closing(raw_on(database).open()) as connection:
            connection.cursor().execute(sql)
            connection.commit()

    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE OR REPLACE FUNCTION borrow() RETURNS int MODIFIES SQL DATA BEGIN"
            " UPDATE accounts SET version = version - 1; UPDATE accounts SET version = version + 1; RETURN 1; END"
        )
    report = two_of(run, database, schema.BALANCE)
    assert report.verdict is verdict, report.show()
