"""Races that would pass without having raced, on SQLite through its bare driver (semantics 9.5)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from holdtrue.testing import BarrierFailed, RaceReport, Verdict, checkpoint, late_effect, race

TWICE = "SELECT dispute FROM refunds GROUP BY dispute HAVING count(*) > 1"
TABLE = "CREATE TABLE refunds (id integer PRIMARY KEY, dispute text)"
ONE = "CREATE UNIQUE INDEX one ON refunds (dispute)"
Work = Callable[[], object]


class AlreadyRefunded(Exception):
    """The code's own word for it."""


class Shop:
    """Code as one writes it; each call has a connection of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.anew()

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)

    def anew(self, *also: str) -> None:
        """A new file, as many a fixture makes one."""
        self.path.unlink(missing_ok=True)
        with closing(self.connect()) as connection:
            connection.executescript(";".join((TABLE, *also)))

    def emptied(self) -> None:
        with closing(self.connect()) as connection, connection:
            connection.execute("DELETE FROM refunds")

    def found(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT count(*) FROM refunds").fetchone()[0])

    def insert(self) -> None:
        with closing(self.connect()) as connection, connection:
            connection.execute("INSERT INTO refunds (dispute) VALUES ('dsp_1')")

    def refund(self) -> None:
        with closing(self.connect()) as connection, connection:
            if not self.found(connection):
                connection.execute("INSERT INTO refunds (dispute) VALUES ('dsp_1')")

    def refund_once(self) -> None:
        """Its second call is refused by the code itself, a call beside it by the index."""
        with closing(self.connect()) as connection, connection:
            if self.found(connection):
                raise AlreadyRefunded
            connection.execute("INSERT INTO refunds (dispute) VALUES ('dsp_1')")

    def cancel(self) -> None:
        """It needs what the other party makes."""
        with closing(self.connect()) as connection, connection:
            if not self.found(connection):
                raise LookupError("no refund yet")
            connection.execute("DELETE FROM refunds")

    def read(self) -> None:
        with closing(self.connect()) as connection:
            self.found(connection)

    def wired_wrongly(self) -> None:
        with closing(self.connect()) as connection:
            self.found(connection)
            raise TypeError("refund() takes 2 positional arguments but 3 were given")

    def ask_and_give_up(self) -> None:
        with closing(self.connect()) as connection:
            self.found(connection)
        try:
            checkpoint("ask_provider")
        except TimeoutError:
            return

    def play(self, a: Work, b: Work, reset: Work | None = None, **options: object) -> RaceReport:
        url = f"sqlite:///{self.path}"
        return race(a=a, b=b, invariant=TWICE, reset=reset or self.emptied, db=url, **options).play()  # type: ignore[arg-type]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop.db")


def test_a_file_that_reset_makes_anew_is_the_one_that_is_asked(shop: Shop) -> None:
    assert shop.play(shop.refund, shop.refund, shop.emptied).verdict is Verdict.VIOLATED
    assert shop.play(shop.refund, shop.refund, shop.anew).verdict is Verdict.VIOLATED
    assert shop.play(shop.insert, shop.insert, shop.anew).verdict is Verdict.VIOLATED_IN_SERIES
    unnamed = race(a=shop.refund, b=shop.refund, invariant=TWICE, reset=shop.anew).play()
    assert unnamed.verdict is Verdict.VIOLATED


def test_a_party_that_fails_in_every_series_is_named_with_its_error_and_is_no_pass(shop: Shop) -> None:
    for a, b, name in ((shop.wired_wrongly, shop.refund, "A"), (shop.refund, shop.wired_wrongly, "B")):
        report = shop.play(a, b)
        assert report.verdict is Verdict.BOTH_FAILED, report.show()
        assert re.fullmatch(
            f"party {name} failed in every schedule in series, also where it ran first, with TypeError, at "
            r".*/test_race_nothing_raced.py:\d+ in wired_wrongly: nothing was tested",
            report.reason,
        )
        with pytest.raises(BarrierFailed) as found:
            report.require()
        assert isinstance(found.value.__cause__, TypeError)


def test_two_parties_that_fail_are_shown_with_what_each_of_them_raised_and_where(shop: Shop) -> None:
    """By kind, code and place; the texts, which may carry values, are those of the errors that are chained."""

    def refused() -> None:
        with closing(shop.connect()) as connection, connection:
            connection.execute("INSERT INTO refunds (id, dispute) VALUES (1, 'of ada')")
            connection.execute("INSERT INTO refunds (id, dispute) VALUES (1, 'of bob')")

    def through_an_engine() -> None:
        engine = create_engine(f"sqlite:///{shop.path}")
        try:
            with engine.begin() as connection:
                connection.exec_driver_sql("INSERT INTO refunds (id, dispute) VALUES (1, 'of ada'), (1, 'of bob')")
        finally:
            engine.dispose()

    report = shop.play(refused, through_an_engine)
    assert report.verdict is Verdict.BOTH_FAILED
    assert "both parties failed, so nothing was tested: A with IntegrityError (SQLITE_CONSTRAINT_PRIMARYKEY), at " in (
        report.reason
    )
    assert "; B with IntegrityError (SQLITE_CONSTRAINT_PRIMARYKEY), at " in report.reason
    assert report.reason.count("in refused") == report.reason.count("in through_an_engine") == 1
    with pytest.raises(BarrierFailed) as found:
        report.require()
    assert "ada" not in str(found.value)
    cause = found.value.__cause__
    assert isinstance(cause, BaseExceptionGroup)
    assert [type(one).__module__.partition(".")[0] for one in cause.exceptions] == ["sqlite3", "sqlalchemy"]


def test_a_party_that_is_refused_as_the_second_or_needs_what_the_other_makes_goes_on_to_pass(shop: Shop) -> None:
    for a, b in (
        (shop.refund_once, shop.refund_once),
        (shop.refund_once, shop.read),
        (shop.refund_once, shop.cancel),
        (shop.cancel, shop.refund_once),
    ):
        report = shop.play(a, b, lambda: shop.anew(ONE))
        assert report.verdict is Verdict.HELD, report.show()
        assert any(one.played.errors for one in report.judged) or b == shop.read


@pytest.mark.parametrize("option", ["effect", "on_timeout"])
def test_what_should_have_been_late_and_failed_also_alone_did_not_land(option: str, shop: Shop) -> None:
    def absent() -> None:
        raise ImportError("no such module")

    def mistyped() -> None:
        with closing(shop.connect()) as connection:
            connection.execute("UPDATE refund SET dispute = 'dsp_1'")

    name = "A's effect" if option == "effect" else "A's caller"
    for work, error in ((absent, "ImportError"), (mistyped, "OperationalError")):
        report = shop.play(shop.ask_and_give_up, shop.refund, hold=late_effect("ask_provider", **{option: work}))  # type: ignore[arg-type]
        assert report.verdict is Verdict.NOT_REACHED, report.show()
        assert report.reason == f"{name} failed with {error}, also alone, so what it does did not happen"
        assert "schedule late" in report.show()


def test_an_effect_that_is_refused_because_the_work_was_done_again_holds(shop: Shop) -> None:
    for effect, error in ((shop.insert, sqlite3.IntegrityError), (shop.refund_once, AlreadyRefunded)):
        report = shop.play(
            shop.ask_and_give_up,
            shop.refund_once,
            lambda: shop.anew(ONE),
            hold=late_effect("ask_provider", effect=effect),
        )
        assert report.verdict is Verdict.HELD, report.show()
        assert isinstance(report.judged[-1].played.errors["A's effect"], error)
        assert report.judged[-1].schedule.name == "late"


def test_an_error_of_a_party_while_the_other_is_held_is_named_and_never_called_the_new_state(shop: Shop) -> None:
    """No verdict of its own: a fix may refuse so too. Whoever reads it knows which it is."""
    inside: list[object] = []

    def one_at_a_time() -> None:
        with closing(shop.connect()) as connection, connection:
            found = shop.found(connection)
            if inside:
                raise KeyError
            inside.append(connection)
            try:
                if not found:
                    connection.execute("INSERT INTO refunds (dispute) VALUES ('dsp_1')")
                    connection.commit()
            finally:
                inside.clear()

    report = shop.play(one_at_a_time, one_at_a_time)
    assert report.verdict is Verdict.HELD, report.show()
    assert "a party ended with KeyError while the other was held (A1, " in report.reason
