"""A database of the same name on another server, or a file under another name, is told apart (semantics 0)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from holdtrue.testing import BarrierDatabase, Verdict, WrongDatabase, race
from holdtrue.testing.identities import Identities
from racy import schema
from racy.raw import Raw
from servers.mariadb import ADMIN, MariadbPrimary
from servers.postgres import PostgresStandby, wait_for_replay

ANY = "SELECT 1 WHERE 1 = 0"


def test_the_same_name_on_another_server_is_another_database(
    database: BarrierDatabase, postgres_standby: PostgresStandby
) -> None:
    """A copy of the server, even: it has all names and the system identifier in common."""
    name = database.sqlalchemy_url.database or ""
    wait_for_replay(postgres_standby)
    elsewhere = postgres_standby.url(name)

    def run() -> None:
        with psycopg.connect(elsewhere) as connection:
            connection.execute("SELECT 1 FROM refunds")

    with pytest.raises(WrongDatabase, match="of another server") as found:
        race(a=run, b=run, invariant=ANY, db=database).play()
    assert postgres_standby.password not in str(found.value)


def test_one_server_by_another_address_is_the_same(database: BarrierDatabase) -> None:
    url = database.sqlalchemy_url
    assert url.host == "127.0.0.1"
    other = url.set(drivername="postgresql", host="localhost").render_as_string(hide_password=False)
    work = Raw(lambda: psycopg.connect(other)).atomic_update
    report = race(a=work, b=work, invariant=schema.BALANCE, db=database).play()
    assert report.verdict is Verdict.HELD, report.show()


@pytest.mark.parametrize(("link", "same"), [(os.link, True), (os.symlink, True), (lambda old, new: None, False)])
def test_a_file_is_known_by_what_it_is_and_not_by_its_name(
    link: Callable[[Path, Path], None],
    same: bool,
    tmp_path: Path,
) -> None:
    (tmp_path / "other").mkdir()
    one, other = tmp_path / "shop.db", tmp_path / "other" / "shop.db"
    schema.build(f"sqlite:///{one}")
    link(one, other)
    if not same:
        schema.build(f"sqlite:///{other}")

    def run() -> None:
        with closing(sqlite3.connect(other)) as connection, connection:
            connection.execute("UPDATE accounts SET version = version + 1")

    made = race(a=run, b=run, invariant=ANY, reset=lambda: None, db=f"sqlite:///{one}")
    if same:
        assert made.play().verdict is Verdict.HELD
    else:
        with pytest.raises(WrongDatabase, match="sqlite database"):
            made.play()


def test_mariadb_says_which_server_it_is(mariadb_primary: MariadbPrimary) -> None:
    url = make_url(mariadb_primary.url(user=ADMIN)).set(database="mysql")
    assert url.host == "127.0.0.1"
    identities = Identities()
    assert identities.are_one(url, url.set(drivername="mariadb", host="localhost"))
    assert identities.are_one(url, url.set(host="127.0.0.2", port=1)), "one that does not answer is not accused"
    assert not identities.are_one(url, url.set(database="other"))
