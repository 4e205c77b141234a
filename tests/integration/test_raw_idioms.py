"""Every way in which a driver is spoken to is a boundary once, and only once; what cannot be held is named with its remedy."""

from __future__ import annotations

import io
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any

import psycopg
import psycopg2
import psycopg2.extras
import psycopg2.pool
import psycopg2.sql
import pytest
from sqlalchemy import create_engine

from holdtrue.testing import BarrierDatabase, RaceReport, Verdict, WrongDatabase, race, replay, step
from racy import duplicate, schema
from racy.raw import Raw

SELECT = "SELECT 1 FROM disputes"
INSERT = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'failed')"
FAILED = [("dsp_1", 40, "failed")]
Open = Callable[[], Any]


def two_of(work: Callable[[], object], database: BarrierDatabase, **more: Any) -> RaceReport:
    return race(a=work, b=work, invariant=schema.ONE_SETTLED, db=database, **more).play()


def steps(work: Callable[[], object], database: BarrierDatabase) -> list[str]:
    """What one party did when it ran alone first, without its start."""
    report = two_of(work, database, hold=step(50))
    # Nobody comes that far; some of them only read, or roll back, and have changed no row.
    assert report.verdict in (Verdict.NOT_REACHED, Verdict.BOTH_FAILED), report.show()
    return [line.what for line in report.judged[0].played.lines if line.party == "A"][1:]


def connection_as_context(open_one: Open) -> None:
    with open_one() as connection:
        connection.execute(SELECT)
        connection.execute(INSERT)


def transaction_blocks(open_one: Open) -> None:
    with closing(open_one()) as connection, connection.transaction():
        connection.execute(psycopg.sql.SQL("SELECT 1 FROM {}").format(psycopg.sql.Identifier("disputes")))
        with connection.transaction():
            connection.execute(INSERT.encode())


def rolled_back_block(open_one: Open) -> None:
    with closing(open_one()) as connection, connection.transaction(force_rollback=True):
        connection.execute(INSERT)


def in_autocommit(open_one: Open) -> None:
    with closing(open_one()) as connection:
        connection.autocommit = True
        connection.execute(INSERT)
        connection.commit()


def many_rows(open_one: Open) -> None:
    with open_one() as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO refunds (dispute_id, amount_eur, state) VALUES (%s, %s, %s)", FAILED * 2)
        with cursor.copy("COPY refunds (dispute_id, amount_eur, state) FROM STDIN") as copy:
            copy.write_row(FAILED[0])
        assert list(cursor.stream(SELECT))
        with connection.cursor("named") as named:
            assert named.execute(SELECT).fetchall()


def two_connections(open_one: Open) -> None:
    with closing(open_one()) as connection:
        connection.execute(INSERT)
        connection.rollback()


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (connection_as_context, ["SELECT disputes", "INSERT refunds", "COMMIT"]),
        (transaction_blocks, ["SELECT disputes", "INSERT refunds", "COMMIT"]),
        (rolled_back_block, ["INSERT refunds", "ROLLBACK"]),
        (in_autocommit, ["INSERT refunds", "COMMIT"]),
        (many_rows, ["INSERT refunds", "COPY refunds", "SELECT disputes", "SELECT disputes", "COMMIT"]),
        (two_connections, ["INSERT refunds", "ROLLBACK"]),
    ],
    ids=lambda one: one.__name__ if callable(one) else "",
)
def test_psycopg_is_held_once_for_each_statement(
    work: Callable[[Open], None], expected: list[str], database: BarrierDatabase
) -> None:
    assert steps(lambda: work(lambda: psycopg.connect(database.libpq_url)), database) == expected


def connection_block(open_one: Open) -> None:
    with closing(open_one()) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute(psycopg2.sql.SQL("SELECT 1 FROM {}").format(psycopg2.sql.Identifier("disputes")))
            cursor.execute(INSERT.encode())
        connection.commit()


def dictionaries(open_one: Open) -> None:
    with closing(open_one(connection_factory=psycopg2.extras.DictConnection)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM disputes")
            assert cursor.fetchone()["id"] == "dsp_1"
        with connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
            cursor.execute("SELECT id FROM disputes")
            assert dict(cursor.fetchone()) == {"id": "dsp_1"}
        with connection.cursor("named") as cursor:
            cursor.execute("SELECT id FROM disputes")
            assert cursor.fetchall()[0]["id"] == "dsp_1"


def many_values(open_one: Open) -> None:
    with (
        closing(open_one(cursor_factory=psycopg2.extras.NamedTupleCursor)) as connection,
        connection.cursor() as cursor,
    ):
        insert = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES "
        psycopg2.extras.execute_values(cursor, insert + "%s", FAILED * 2)
        cursor.executemany(insert + "(%s, %s, %s)", FAILED)
        cursor.copy_expert(
            "COPY refunds (dispute_id, amount_eur, state) FROM STDIN", io.StringIO("dsp_1\t40\tfailed\n")
        )
        cursor.copy_from(io.StringIO("dsp_1\t40\tfailed\n"), "refunds", columns=("dispute_id", "amount_eur", "state"))
        cursor.callproc("pg_backend_pid")
        connection.rollback()


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (connection_block, ["SELECT disputes", "INSERT refunds", "COMMIT"]),
        (dictionaries, ["SELECT disputes"] * 3),
        (many_values, ["INSERT refunds", "INSERT refunds", "COPY refunds", "COPY refunds", "CALL", "ROLLBACK"]),
    ],
    ids=lambda one: one.__name__ if callable(one) else "",
)
def test_psycopg2_is_held_once_for_each_statement(
    work: Callable[[Open], None], expected: list[str], database: BarrierDatabase
) -> None:
    assert steps(lambda: work(partial(psycopg2.connect, database.libpq_url)), database) == expected


def shortcuts(open_one: Open) -> None:
    with closing(open_one()) as connection:
        connection.execute(SELECT)
        with connection:
            connection.executemany(INSERT.replace("40", "?"), [(40,), (41,)])
        with suppress(ZeroDivisionError), connection:
            connection.execute(INSERT)
            raise ZeroDivisionError
        connection.executescript("BEGIN; DELETE FROM refunds; COMMIT")


@pytest.mark.parametrize("as_uri", [False, True])
def test_sqlite3_is_held_once_for_each_statement(as_uri: bool, on_sqlite: BarrierDatabase) -> None:
    file = on_sqlite.sqlalchemy_url.database or ""

    def open_one() -> sqlite3.Connection:
        return sqlite3.connect(f"file:{file}?mode=rw", uri=True) if as_uri else sqlite3.connect(file)

    done = steps(lambda: shortcuts(open_one), on_sqlite)
    assert done == ["SELECT disputes", "INSERT refunds", "COMMIT", "INSERT refunds", "ROLLBACK", "BEGIN refunds"]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_driver_below_sqlalchemy_is_not_held_twice(driver: str, database: BarrierDatabase) -> None:
    engine = create_engine(database.sqlalchemy_url.set(drivername=f"postgresql+{driver}"))
    try:
        done = steps(lambda: duplicate.buggy(engine), database)
    finally:
        engine.dispose()
    assert done == ["SELECT refunds", "INSERT refunds", "COMMIT"]


def test_what_happens_inside_of_the_server_is_one_statement(database: BarrierDatabase) -> None:
    def run() -> None:
        with database.engine.begin() as connection:
            connection.exec_driver_sql(f"DO $$ BEGIN {INSERT}; {INSERT}; END $$")

    assert steps(run, database) == ["DO", "COMMIT"]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_raw_cursor_of_a_sqlalchemy_connection_is_held(driver: str, database: BarrierDatabase) -> None:
    engine = create_engine(database.sqlalchemy_url.set(drivername=f"postgresql+{driver}"))

    def run() -> None:
        with engine.connect() as connection:
            cursor = connection.connection.cursor()
            cursor.execute(duplicate.SETTLED.replace(":d", "'dsp_1'"))
            if cursor.fetchone() is None:
                cursor.execute(duplicate.INSERT.replace(":d", "'dsp_1'"))
            connection.connection.commit()

    try:
        assert two_of(run, database).verdict is Verdict.VIOLATED
    finally:
        engine.dispose()


@pytest.mark.parametrize("driver", [psycopg, psycopg2], ids=lambda one: str(one.__name__))
def test_a_connection_of_the_whole_process_is_named_with_its_remedy(driver: Any, database: BarrierDatabase) -> None:
    opened: list[Any] = []

    def once() -> Any:
        opened or opened.append(driver.connect(database.libpq_url))
        return opened[0]

    raw = Raw(lambda: Lent(once()))
    try:
        report = two_of(raw.duplicate, database)
    finally:
        opened[0].close()
    assert report.verdict is Verdict.SHARED_CONNECTION, report.show()
    assert "open a connection in each call" in report.reason


class Lent:
    """A connection that is not closed by who uses it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def close(self) -> None:
        """Stay open."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_pool_that_no_adapter_knows_may_hand_a_connection_on(database: BarrierDatabase) -> None:
    pool = psycopg2.pool.ThreadedConnectionPool(0, 2, database.libpq_url)
    pool.minconn = 1  # it keeps one, but opens it only when it is asked

    class Borrowed(Lent):
        def close(self) -> None:
            pool.putconn(self._connection)

    def twice() -> None:
        """Held in its second half, which needs nothing of the pool: there the other party finds the connection of the first."""
        Raw(lambda: Borrowed(pool.getconn())).atomic_update()
        Raw(lambda: psycopg.connect(database.libpq_url)).duplicate()

    try:
        assert two_of(twice, database).verdict is Verdict.VIOLATED
    finally:
        pool.closeall()


@pytest.mark.parametrize("driver", [psycopg, psycopg2], ids=lambda one: str(one.__name__))
def test_a_thread_of_the_code_s_own_is_named_with_its_remedy(driver: Any, database: BarrierDatabase) -> None:
    raw = Raw(lambda: driver.connect(database.libpq_url))

    def run() -> None:
        raw.atomic_update()
        thread = threading.Thread(target=raw.duplicate)
        thread.start()
        thread.join()

    report = two_of(run, database)
    assert report.verdict is Verdict.NOT_REACHED
    assert "contextvars.copy_context().run" in report.reason


def test_a_connection_that_was_opened_before_is_no_pass(database: BarrierDatabase) -> None:
    """psycopg2's own types cannot be changed: what was open before is not seen, and the report says what to do."""
    seen = Raw(lambda: psycopg.connect(database.libpq_url)).duplicate
    with closing(psycopg2.connect(database.libpq_url)) as before:
        unseen = Raw(lambda: Lent(before)).duplicate
        reports = {
            "": two_of(unseen, database),
            "AB": asked("AB", unseen, unseen, database),
            "A1": asked("A1", seen, unseen, database),
            "B1": asked("B1", unseen, seen, database),
            "A2": asked("A2", unseen, seen, database),
        }
    for schedule, report in reports.items():
        assert report.verdict is Verdict.NOT_REACHED, (schedule, report.show())
        assert "sent no statement that could be held" in report.reason
        assert "a connection of psycopg2 that was opened before the race" in report.reason
        assert "open it inside the party" in report.reason


def asked(schedule: str, a: Callable[[], object], b: Callable[[], object], database: BarrierDatabase) -> RaceReport:
    """A schedule that is played alone."""
    replay.ask_for(schedule)
    try:
        return race(a=a, b=b, invariant="SELECT 1 WHERE 1 = 0", db=database).play()
    finally:
        replay.ask_for("")


def test_a_file_that_was_opened_before_is_no_pass_and_what_layers_above_have_open_is_not_meant(
    on_sqlite: BarrierDatabase,
) -> None:
    on_sqlite.engine.connect().close()  # its pool has one open
    report = two_of(lambda: None, on_sqlite)
    assert "sqlite3 that was opened before" not in report.reason
    file = on_sqlite.sqlalchemy_url.database or ""
    with closing(sqlite3.connect(file, check_same_thread=False)) as before:
        report = two_of(Raw(lambda: Lent(before), "?").duplicate, on_sqlite)
    assert report.verdict is Verdict.NOT_REACHED
    assert "a connection of sqlite3 that was opened before the race" in report.reason


def test_a_connect_that_was_imported_by_name_is_no_pass(on_sqlite: BarrierDatabase) -> None:
    named = sqlite3.connect
    file = on_sqlite.sqlalchemy_url.database or ""
    report = two_of(Raw(lambda: named(file), "?").duplicate, on_sqlite)
    assert report.verdict is Verdict.NOT_REACHED
    assert "opened inside the party" in report.reason


@pytest.mark.parametrize("driver", [psycopg, psycopg2], ids=lambda one: str(one.__name__))
def test_another_database_is_refused_before_anything_is_sent(driver: Any, database: BarrierDatabase) -> None:
    elsewhere = database.sqlalchemy_url.set(drivername="postgresql", database="postgres")
    url = elsewhere.render_as_string(hide_password=False)
    with pytest.raises(WrongDatabase, match="not to the barrier database"):
        two_of(Raw(lambda: driver.connect(url)).duplicate, database)


@pytest.mark.parametrize("driver", [psycopg, psycopg2], ids=lambda one: str(one.__name__))
def test_without_a_database_the_one_that_the_driver_speaks_to_is_asked(driver: Any, database: BarrierDatabase) -> None:
    raw = Raw(lambda: driver.connect(database.libpq_url))
    report = race(
        a=raw.duplicate, b=raw.duplicate, invariant=schema.ONE_SETTLED, reset=database.control.set_back
    ).play()
    assert report.verdict is Verdict.VIOLATED


def test_nothing_of_the_adapters_is_left_after_a_race(database: BarrierDatabase) -> None:
    before = (psycopg.Cursor.execute, psycopg.Connection.commit, psycopg.Transaction.__exit__)
    connects = (psycopg2._connect, sqlite3.connect, sqlite3.dbapi2.connect)
    two_of(Raw(lambda: psycopg2.connect(database.libpq_url)).duplicate, database)
    assert before == (psycopg.Cursor.execute, psycopg.Connection.commit, psycopg.Transaction.__exit__)
    assert connects == (psycopg2._connect, sqlite3.connect, sqlite3.dbapi2.connect)
    assert type(psycopg2.connect(database.libpq_url)) is psycopg2.extensions.connection
