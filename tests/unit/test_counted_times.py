"""Which numbers of SQLite a text takes for times, and by how much they are moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from holdtrue.catalog.counted_times import counted_times
from holdtrue.model import Incident, TableRows
from holdtrue.testing.clocks import clock_of, what_moves, what_stays, with_numbers_now

JOBS = "SELECT id FROM jobs WHERE "
SECONDS, MILLISECONDS, DAYS = Fraction(1), Fraction(1000), Fraction(1, 86_400)
THEN = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("sql", "rates"),
    [
        (JOBS + "started < unixepoch() - 3600", {"jobs.started": SECONDS}),
        (JOBS + "Started < strftime('%s', 'now') - 3600", {"jobs.started": SECONDS}),
        (JOBS + "started < CAST(strftime('%s', 'now', '-1 hour') AS INTEGER)", {"jobs.started": SECONDS}),
        (JOBS + "started BETWEEN unixepoch() - 100 AND unixepoch('now', '-50 seconds')", {"jobs.started": SECONDS}),
        (JOBS + "julianday('now') - started > 1", {"jobs.started": DAYS}),
        (JOBS + "(julianday('now') - started) * 24 * 60 > 5", {"jobs.started": DAYS}),
        (JOBS + "(julianday('now') - 2440587.5) * 86400.0 - started > 5", {"jobs.started": SECONDS}),
        (JOBS + "started / 1000 < unixepoch() - 5", {"jobs.started": MILLISECONDS}),
        (JOBS + "started < unixepoch() * 1000", {"jobs.started": MILLISECONDS}),
        (JOBS + "datetime(started, 'unixepoch') < datetime('now', '-1 hour')", {"jobs.started": SECONDS}),
        (JOBS + "datetime(started / 1000, 'unixepoch') < datetime('now')", {"jobs.started": MILLISECONDS}),
        (JOBS + "date(started) < date('now')", {"jobs.started": DAYS}),
        (JOBS + "coalesce(started, 0) < unixepoch()", {"jobs.started": SECONDS}),
        (JOBS + "abs(unixepoch() - started) > 9", {"jobs.started": SECONDS}),
        # What follows from one column for the others; a mark such as 0 says nothing.
        (
            JOBS + "finished - started > 60 AND started < unixepoch() AND started > 0 AND tries > 3 AND gone = 0",
            {"jobs.started": SECONDS, "jobs.finished": SECONDS},
        ),
        (JOBS + "started + wait < unixepoch() AND started < unixepoch()", {"jobs.started": SECONDS}),
        (
            "SELECT j.id FROM jobs j JOIN leases l ON l.job = j.id WHERE l.ends > j.started AND j.started < unixepoch()",
            {"jobs.started": SECONDS, "leases.ends": SECONDS},
        ),
        # Through a query inside.
        ("WITH t AS (SELECT unixepoch() AS n) SELECT id FROM jobs, t WHERE jobs.at < t.n", {"jobs.at": SECONDS}),
        (
            "SELECT who FROM (SELECT who, max(at) AS last FROM beats GROUP BY who) WHERE last < unixepoch() - 60",
            {"beats.at": SECONDS},
        ),
        (JOBS + "(SELECT max(b.at) FROM beats b WHERE b.job = jobs.id) < unixepoch() - 30", {"beats.at": SECONDS}),
        ("SELECT id, unixepoch() - at AS age FROM jobs GROUP BY id HAVING age > 60", {"jobs.at": SECONDS}),
        # No number is set beside the clock, or no clock is there.
        (JOBS + "created < datetime('now', '-1 hour') AND amount > 3", {}),
        (JOBS + "finished - started > 60", {}),
        ("no SQL at all (", {}),
    ],
)
def test_a_column_that_moves_with_the_clock_is_known_by_what_it_is_compared_with(
    sql: str, rates: dict[str, Fraction]
) -> None:
    found = counted_times(sql)
    assert (dict(found.rates), found.unclear) == (rates, ())


@pytest.mark.parametrize(
    ("sql", "unclear"),
    [
        (JOBS + "started + wait < unixepoch()", ("jobs.started", "jobs.wait")),
        (JOBS + "started % 1000 < unixepoch()", ("jobs.started",)),
        (JOBS + "ours(started) < unixepoch()", ("jobs.started",)),
        (JOBS + "datetime(started, 'auto') < datetime('now')", ("jobs.started",)),
        (JOBS + "started < unixepoch() AND started < unixepoch() * 1000", ("jobs.started",)),
        (JOBS + "-started < unixepoch()", ("jobs.started",)),
        ("SELECT 1 FROM jobs, leases WHERE at < unixepoch()", ("jobs.at", "leases.at")),
    ],
)
def test_a_column_of_which_it_cannot_be_told_is_named_and_not_moved(sql: str, unclear: tuple[str, ...]) -> None:
    found = counted_times(sql)
    assert (dict(found.rates), found.unclear) == ({}, unclear)


def incident(sql: str, cells: dict[str, tuple[str | None, str]], engine: str = "sqlite") -> Incident:
    rows = TableRows(
        "jobs", tuple(cells), (tuple(cell for cell, _ in cells.values()),), tuple(kind for _, kind in cells.values())
    )
    return Incident("i", "rule", "shop", engine, sql, "rows", (), (rows,), incident_now=THEN.isoformat())


@pytest.mark.parametrize(
    ("cell", "storage", "sql", "moved"),
    [
        ("1714564800", "integer", "at < unixepoch()", "1714651200"),
        ("1714564800.5", "real", "at < unixepoch()", "1714651200.5"),
        ("1714564800123", "integer", "at / 1000 < unixepoch()", "1714651200123"),
        ("2460432.0", "real", "at < julianday('now')", "2460433.0"),
        ("2460432", "integer", "at < julianday('now')", "2460433"),
        ("0", "integer", "at < unixepoch()", "0"),
        ("-1", "integer", "at < unixepoch()", "-1"),
        ("9999999999", "integer", "at < unixepoch()", "9999999999"),
        ("1714564800", "text", "at < unixepoch()", "1714564800"),
        (None, "integer", "at < unixepoch()", None),
        ("1714564800", "integer", "at < 1714564900", "1714564800"),
    ],
)
def test_a_moment_as_a_number_moves_and_a_mark_stays(
    cell: str | None, storage: str, sql: str, moved: str | None
) -> None:
    one = incident(JOBS + sql, {"at": (cell, storage), "n": ("1714564800", "integer")})
    (table,) = with_numbers_now(one, one.observed, THEN + timedelta(days=1))
    assert table.rows == ((moved, "1714564800"),)


def test_what_moves_and_what_may_have_to_is_said() -> None:
    cells: dict[str, tuple[str | None, str]] = {
        "at": ("1714564800", "integer"),
        "due": ("1714564800", "integer"),
        "wait": ("60", "text"),
    }
    one = incident(JOBS + "at < unixepoch() AND due + wait < unixepoch()", cells)
    assert what_moves(one) == ("jobs.at",)
    (said,) = what_stays(one)
    assert said.startswith("jobs.due, a number that the text sets beside the clock")
    assert what_stays(incident(JOBS + "at < 5", cells)) == ()
    for engine, sql in (("postgresql", "at < extract(epoch FROM now())"), ("mysql", "at < unix_timestamp()")):
        elsewhere = incident(JOBS + sql, cells, engine)
        assert what_moves(elsewhere) == ()
        assert what_stays(elsewhere) == ("numbers that count time, if the text sets some beside the clock",)
        assert with_numbers_now(elsewhere, elsewhere.observed) is elsewhere.observed
    assert what_stays(incident(JOBS + "at < now()", cells, "postgresql")) == ()


@pytest.mark.parametrize(
    "sql",
    [
        *(
            "unixepoch()",
            "JULIANDAY( )",
            "strftime('%s')",
            "datetime()",
            "current_time",
            "datetime('now')",
            "localtime",
        ),
        *("utc_timestamp()", "sysdate()", "curdate()", "unix_timestamp()"),
    ],
)
def test_each_way_to_look_at_the_clock_is_known(sql: str) -> None:
    assert clock_of(incident(f"SELECT {sql}", {})) == THEN.isoformat()


@pytest.mark.parametrize(
    "sql", ["date(at)", "unixepoch(at)", "strftime('%s', at)", "known", "currently", "update_time"]
)
def test_what_only_reads_a_column_does_not_look_at_the_clock(sql: str) -> None:
    assert clock_of(incident(f"SELECT {sql}", {})) == ""
