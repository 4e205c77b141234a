"""What a party sends that was given up reaches no database, whenever it comes and through whatever driver (semantics 0)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pymysql
import pytest
from sqlalchemy import create_engine, text

from holdtrue.testing import BarrierDatabase, BarrierFailed, Limits, RaceReport, Verdict, race, steps
from racy import schema
from servers.mariadb import ADMIN, MariadbPrimary
from servers.postgres import PostgresPrimary

LIMIT = 20.0
SHORT = Limits(stall=0.05, deadline=0.4)
ADD = "INSERT INTO credit_log (account_id, amount_eur) VALUES ('acc_1', 50)"
COUNT = "SELECT count(*) FROM credit_log"
ANY = "SELECT 1 WHERE 1 = 0"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a party that was given up may take to end."""
    monkeypatch.setattr(steps, "_ENDS", 0.1)


@pytest.fixture(scope="module")
def on_postgresql(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("postgresql", schema.build, postgres_primary.url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def on_mariadb(mariadb_primary: MariadbPrimary) -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("mysql", schema.build, lambda: mariadb_primary.url(user=ADMIN))
    yield made
    made.close()


@pytest.fixture
def on_sqlite() -> Iterator[BarrierDatabase]:
    made = BarrierDatabase("sqlite", schema.build, lambda: "")
    yield made
    made.close()


def mariadb(database: BarrierDatabase) -> Any:
    url = database.sqlalchemy_url
    return pymysql.connect(
        host=url.host, port=url.port or 0, user=url.username, password=url.password or "", database=url.database
    )


CONNECT: dict[str, Callable[[BarrierDatabase], Any]] = {
    "psycopg": lambda database: psycopg.connect(database.libpq_url),
    "psycopg2": lambda database: psycopg2.connect(database.libpq_url),
    "sqlite3": lambda database: sqlite3.connect(database.sqlalchemy_url.database or "", timeout=0.1),
    "pymysql": mariadb,
    "sqlalchemy": lambda database: create_engine(database.url).raw_connection(),
}
PLACES = {"sqlite3": "on_sqlite", "pymysql": "on_mariadb"}


@dataclass
class Stubborn:
    """A call that hangs outside of the database, and goes on when the test lets it."""

    work: Callable[[], object]
    before: Callable[[], object] = lambda: None
    released: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    told: list[BaseException] = field(default_factory=list)

    def __call__(self) -> None:
        self.before()
        self.released.wait(LIMIT)
        try:
            self.work()
        except BaseException as error:
            self.told.append(error)
            raise
        finally:
            self.over.set()

    def ends(self) -> str:
        """Let it go on to its end; what it was told there."""
        self.released.set()
        assert self.over.wait(LIMIT)
        return str(self.told[0]) if self.told else "nothing"


def give_up(a: Callable[[], object], database: BarrierDatabase) -> RaceReport:
    report = race(a=a, b=lambda: None, invariant=ANY, db=database, limits=SHORT).play()
    assert report.verdict is Verdict.TIMEOUT, report.show()
    assert "party A was given up and is still at work" in report.reason
    assert [one.schedule.name for one in report.judged] == ["AB"], "no other schedule is played"
    return report


@pytest.fixture(params=sorted(CONNECT))
def stand(request: pytest.FixtureRequest) -> tuple[Callable[[], Any], BarrierDatabase]:
    database = request.getfixturevalue(PLACES.get(request.param, "on_postgresql"))
    return lambda: CONNECT[request.param](database), database


def test_what_it_begins_later_is_refused_with_what_happened(
    stand: tuple[Callable[[], Any], BarrierDatabase],
) -> None:
    connect, database = stand

    def add() -> None:
        with closing(connect()) as connection:
            with suppress(Exception):
                connection.cursor().execute(ADD)
            connection.commit()

    call = Stubborn(add)
    give_up(call, database)
    assert "the schedule of this party was given up" in call.ends()
    assert database.control.ask(COUNT) == [(0,)]


def test_what_it_left_open_does_not_commit(stand: tuple[Callable[[], Any], BarrierDatabase]) -> None:
    """Neither by its COMMIT nor by what would do it unseen."""
    connect, database = stand
    kept: list[Any] = []

    def begin() -> None:
        kept.append(connect())
        kept[0].cursor().execute(ADD)

    def commit() -> None:
        kept[0].commit()

    call = Stubborn(commit, begin)
    give_up(call, database)
    assert call.ends() != "nothing"
    with suppress(Exception):  # its session was ended on the server
        kept[0].close()
    assert database.control.ask(COUNT) == [(0,)]


def test_a_task_that_takes_no_notice_of_being_cancelled_is_refused_too(on_postgresql: BarrierDatabase) -> None:
    told: list[BaseException] = []
    released, over = threading.Event(), threading.Event()

    async def stubborn() -> None:
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        try:
            connection = await asyncpg.connect(on_postgresql.libpq_url)
            try:
                await connection.execute(ADD)
            finally:
                await connection.close()
        except BaseException as error:
            told.append(error)
            raise
        finally:
            over.set()

    threading.Timer(1.5, released.set).start()  # the race waits for its own loop to end
    give_up(stubborn, on_postgresql)
    assert over.wait(LIMIT)
    assert "was given up" in str(told[0])
    assert on_postgresql.control.ask(COUNT) == [(0,)]


def test_it_is_refused_in_the_next_race_which_goes_on_undisturbed(on_sqlite: BarrierDatabase) -> None:
    def add() -> None:
        with closing(CONNECT["sqlite3"](on_sqlite)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute(COUNT).fetchone()[0]:
                connection.execute(ADD)

    call = Stubborn(add)
    give_up(call, on_sqlite)

    def while_it_goes_on() -> None:
        call.ends()
        add()

    limits = Limits(stall=5)
    rule = "SELECT 1 FROM credit_log GROUP BY account_id HAVING count(*) > 1"
    report = race(a=while_it_goes_on, b=add, invariant=rule, db=on_sqlite, limits=limits).play()
    assert report.verdict is Verdict.HELD, report.show()
    assert "was given up" in call.ends()


def test_the_drivers_are_their_own_again_once_it_is_over(on_sqlite: BarrierDatabase) -> None:
    own = sqlite3.connect, psycopg.Cursor.execute
    call = Stubborn(lambda: None)
    give_up(call, on_sqlite)
    assert (sqlite3.connect, psycopg.Cursor.execute) != own
    with on_sqlite.engine.begin() as connection:
        connection.execute(text(ADD))  # of the test itself: it goes on as ever
    call.ends()
    (watch,) = (one for one in threading.enumerate() if one.name == "refuses what was given up")
    watch.join(LIMIT)
    assert (sqlite3.connect, psycopg.Cursor.execute) == own


def test_where_the_server_holds_what_was_left_open_is_ended_and_more_is_refused(on_postgresql: BarrierDatabase) -> None:
    kept: list[Any] = []

    def begin() -> None:
        kept.append(CONNECT["psycopg"](on_postgresql))
        kept[0].execute(ADD)

    def again() -> None:
        with suppress(psycopg.Error):
            kept[0].commit()
        with CONNECT["psycopg"](on_postgresql) as connection:
            connection.execute(ADD)

    call = Stubborn(again, begin)
    made = race(a=call, b=begin, invariant=ANY, db=on_postgresql, limits=SHORT, hold="server")
    with pytest.raises(BarrierFailed, match="A did not end within") as found:
        made.assert_holds()
    assert found.value.verdict is Verdict.TIMEOUT
    assert "was given up" in call.ends()
    assert on_postgresql.control.ask(COUNT) == [(0,)]
