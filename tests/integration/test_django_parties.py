"""Django's ORM is held at its statements and at the COMMIT of ``atomic``, on each database it speaks to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator

import psycopg
import pymysql
import pytest
from asgiref.sync import SyncToAsync
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from holdtrue.errors import Refused
from holdtrue.testing import BarrierDatabase, Race, Verdict, race, step
from racy import schema, shop
from servers.mariadb import ADMIN, MariadbPrimary
from servers.postgres import PostgresPrimary

DIALECTS = ("postgresql", "sqlite")


@pytest.fixture(scope="module")
def databases(postgres_primary: PostgresPrimary) -> Iterator[dict[str, BarrierDatabase]]:
    made = {name: BarrierDatabase(name, schema.build, postgres_primary.url) for name in DIALECTS}
    yield made
    for one in made.values():
        one.close()


@pytest.fixture
def on_mariadb(mariadb_primary: MariadbPrimary, monkeypatch: pytest.MonkeyPatch) -> Iterator[BarrierDatabase]:
    """Django speaks to MariaDB through PyMySQL, which stands in for its driver."""
    for name in ("MySQLdb", "MySQLdb.constants", "MySQLdb.converters", "_mysql"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    own = dict(vars(pymysql))
    pymysql.install_as_MySQLdb()
    made = BarrierDatabase("mysql", schema.build, lambda: mariadb_primary.url(user=ADMIN))
    url = made.sqlalchemy_url
    shop.use(
        ENGINE="django.db.backends.mysql",
        NAME=url.database,
        USER=url.username,
        PASSWORD=url.password,
        HOST=url.host,
        PORT=url.port,
        OPTIONS={},
    )
    yield made
    shop.use()
    made.close()
    for name in [one for one in sys.modules if one.split(".")[0] in ("MySQLdb", "_mysql")]:
        del sys.modules[name]
    vars(pymysql).update(own)  # imported under its other name it has put twins of its modules in their place


@pytest.fixture
def database(request: pytest.FixtureRequest, databases: dict[str, BarrierDatabase]) -> Iterator[BarrierDatabase]:
    made = databases[getattr(request, "param", "postgresql")]
    url = made.sqlalchemy_url
    if made.dialect == "sqlite":
        shop.use(ENGINE="django.db.backends.sqlite3", NAME=url.database, OPTIONS={"transaction_mode": "IMMEDIATE"})
    else:
        shop.use(
            ENGINE=f"django.db.backends.{made.dialect}",
            NAME=url.database,
            USER=url.username,
            PASSWORD=url.password,
            HOST=url.host,
            PORT=url.port,
            OPTIONS={},
        )
    yield made
    shop.use()


def two_of(work: Callable[[], None], database: BarrierDatabase, rule: str, **more: object) -> Race:
    return race(a=work, b=work, invariant=rule, db=database, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bug", "rule", "held"),
    [(shop.duplicate, schema.ONE_SETTLED, one) for one in (1, 2)] + [(shop.lost_update, schema.BALANCE, 3)],
)
def test_a_bug_is_found_at_every_boundary_each_time_by_the_same_trace(
    bug: Callable[[], None], rule: str, held: int, database: BarrierDatabase
) -> None:
    seen = []
    for _ in range(2):
        report = two_of(bug, database, rule, hold=step(held)).play()
        assert report.verdict is Verdict.VIOLATED, report.show()
        seen.append([one.played.lines for one in report.judged])
    assert seen[0] == seen[1]
    what = [line.what for line in report.judged[0].played.lines if line.party == "A"]
    assert what[1] in ("SELECT refunds", "SELECT accounts")
    assert what.count("COMMIT") == 1


@pytest.mark.parametrize("database", DIALECTS, indirect=True)
@pytest.mark.parametrize(
    ("fix", "rule"),
    [
        (shop.duplicate_behind_a_lock, schema.ONE_SETTLED),
        (shop.update_behind_a_lock, schema.BALANCE),
        (shop.atomic_update, schema.BALANCE),
    ],
)
def test_a_right_fix_holds_at_every_boundary(fix: Callable[[], None], rule: str, database: BarrierDatabase) -> None:
    """On SQLite the lock is that of the whole file: ``transaction_mode`` IMMEDIATE."""
    report = two_of(fix, database, rule).play()
    assert report.verdict is Verdict.HELD, report.show()
    assert {one.schedule.name for one in report.judged} >= {"AB", "BA", "A1", "A2", "B1", "B2"}


@pytest.mark.parametrize("database", DIALECTS, indirect=True)
def test_without_a_transaction_each_statement_stands_alone(database: BarrierDatabase) -> None:
    report = two_of(shop.duplicate_without_a_transaction, database, schema.ONE_SETTLED).play()
    assert report.verdict is Verdict.VIOLATED
    alone = [line.what for line in report.judged[0].played.lines if line.party == "A"]
    commit = ["COMMIT"] if database.dialect == "postgresql" else []
    assert alone == ["START", "SELECT refunds", "INSERT refunds", *commit]


def test_a_lone_statement_is_held_before_its_commit(database: BarrierDatabase) -> None:
    assert two_of(shop.lone_duplicate, database, schema.ONE_SETTLED).play().verdict is Verdict.VIOLATED


BOOK = """
CREATE OR REPLACE FUNCTION book(d text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM refunds WHERE dispute_id = d) THEN
    INSERT INTO refunds (dispute_id, amount_eur, state) VALUES (d, 40, 'settled');
  END IF;
  RETURN (SELECT count(*) FROM refunds);
END $$
"""


def test_a_function_is_held_before_its_commit_also_where_it_is_called_by_its_name(database: BarrierDatabase) -> None:
    """``callproc`` goes past every ``execute_wrapper`` of Django."""
    with psycopg.connect(database.libpq_url) as admin:
        admin.execute(BOOK)

    def by_text() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT book(%s)", ["dsp_1"])

    def by_name() -> None:
        with connection.cursor() as cursor:
            cursor.callproc("book", ["dsp_1"])

    def by_name_in_a_transaction() -> None:
        with transaction.atomic():
            by_name()

    for work, first in ((by_text, "SELECT"), (by_name, "CALL"), (by_name_in_a_transaction, "CALL")):
        report = two_of(work, database, schema.ONE_SETTLED).play()
        assert report.verdict is Verdict.VIOLATED, report.show()
        assert [line.what for line in report.judged[0].played.lines if line.party == "A"] == ["START", first, "COMMIT"]


def test_a_function_that_only_reads_has_no_commit_to_be_held_at(database: BarrierDatabase) -> None:
    def read() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_size_pretty(1::bigint)")

    report = race(a=read, b=shop.lone_duplicate, invariant=schema.ONE_SETTLED, db=database).play()
    assert [line.what for line in report.judged[0].played.lines if line.party == "A"] == ["START", "SELECT"]


def test_the_orm_is_held_on_mariadb(on_mariadb: BarrierDatabase) -> None:
    bug = two_of(shop.duplicate, on_mariadb, schema.ONE_SETTLED).play()
    assert bug.verdict is Verdict.VIOLATED, bug.show()
    assert [line.what for line in bug.judged[0].played.lines if line.party == "A"] == [
        "START",
        "SELECT refunds",
        "INSERT refunds",
        "COMMIT",
    ]
    fix = two_of(shop.duplicate_behind_a_lock, on_mariadb, schema.ONE_SETTLED, hold=step(1)).play()
    assert fix.verdict is Verdict.HELD, fix.show()


def test_the_connections_of_a_party_are_closed_when_its_schedule_ends(database: BarrierDatabase) -> None:
    """Else a test's teardown waits for the locks of a thread that has ended, or Python warns of a lost connection."""
    before = (BaseDatabaseWrapper._commit, BaseDatabaseWrapper._rollback, BaseDatabaseWrapper.close)
    two_of(shop.duplicate, database, schema.ONE_SETTLED).play()
    ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ''"
    end = time.monotonic() + 20
    while database.control.ask(ours) != [(0,)]:  # a backend takes a moment to go
        assert time.monotonic() < end
    assert before == (BaseDatabaseWrapper._commit, BaseDatabaseWrapper._rollback, BaseDatabaseWrapper.close)


def test_a_test_inside_a_transaction_is_refused_with_the_fixture_to_use(database: BarrierDatabase) -> None:
    with transaction.atomic():
        connection.ensure_connection()
        with pytest.raises(Refused, match="inside a transaction of Django's") as found:
            two_of(shop.duplicate, database, schema.ONE_SETTLED).play()
    assert "transactional_db" in str(found.value.remedy)


def test_a_thread_of_the_code_s_own_is_named_with_its_remedy(database: BarrierDatabase) -> None:
    def run() -> None:
        shop.atomic_update()

        def other() -> None:
            shop.duplicate()
            connection.close()

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    report = two_of(run, database, schema.ONE_SETTLED).play()
    assert report.verdict is Verdict.NOT_REACHED
    assert "contextvars.copy_context().run" in report.reason


def test_without_a_database_the_one_of_django_is_asked(database: BarrierDatabase) -> None:
    made = race(a=shop.duplicate, b=shop.duplicate, invariant=schema.ONE_SETTLED, reset=database.control.set_back)
    assert made.play().verdict is Verdict.VIOLATED


def test_a_race_does_not_load_django_by_itself() -> None:
    code = (
        "import sys, sqlite3; from contextlib import suppress; from holdtrue.testing import race; "
        "race(a=print, b=print, invariant='SELECT 1 WHERE 0', reset=print, db='sqlite:////tmp/none.db').play(); "
        "assert 'django' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "beside", [lambda code: code, lambda code: lambda: asyncio.run(code())], ids=["one loop", "own loops"]
)
@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (shop.asynchronous_duplicate, Verdict.VIOLATED),
        (shop.asynchronous_duplicate_behind_a_lock, Verdict.HELD),
    ],
)
def test_asynchronous_parties_do_not_share_the_one_thread_of_the_process(
    code: Callable[[], Coroutine[object, object, None]],
    verdict: Verdict,
    beside: Callable[[object], Callable[[], None]],
    database: BarrierDatabase,
) -> None:
    report = two_of(beside(code), database, schema.ONE_SETTLED).play()
    assert report.verdict is verdict, report.show()
    assert SyncToAsync.__call__.__module__ == "asgiref.sync"


FUNCTION = """
CREATE OR REPLACE FUNCTION refund_once(d text) RETURNS void LANGUAGE sql AS $$
INSERT INTO refunds (dispute_id, amount_eur, state) SELECT d, 40, 'settled'
WHERE NOT EXISTS (SELECT 1 FROM refunds WHERE dispute_id = d AND state = 'settled') $$
"""


def test_a_function_may_be_given_its_arguments_by_keyword(database: BarrierDatabase) -> None:
    with connection.cursor() as cursor:
        cursor.execute(FUNCTION)
    connection.close()
    report = two_of(shop.duplicate_by_a_function, database, schema.ONE_SETTLED).play()
    assert report.verdict is Verdict.VIOLATED, report.show()
    alone = [line.what for line in report.judged[0].played.lines if line.party == "A"]
    assert alone == ["START", "SELECT refunds", "CALL", "COMMIT"]
