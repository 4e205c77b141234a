"""What shape a rule has, and how its rows may have been before (semantics 9.2, 9.3)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdtrue.model import EvidenceRow, Position, States
from holdtrue.scaffolding import Pattern, assemble, recognise
from racy import schema

LAST_GOOD = Position("r1", datetime(2026, 11, 29, tzinfo=UTC), role="standby", snapshot="100:110:", in_progress=(105,))
LEASE = "SELECT job_id FROM jobs WHERE state = 'in_progress' AND lease_until < CURRENT_TIMESTAMP"
ORPHAN = "SELECT r.id FROM receipts r LEFT JOIN invoices i ON i.receipt = r.id WHERE i.id IS NULL"


def row(table: str, xid: int | None, *, parent: bool = False, **cells: str | None) -> EvidenceRow:
    return EvidenceRow(table, tuple(cells), tuple(cells.values()), is_parent=parent, xid=xid)


@pytest.mark.parametrize(
    ("sql", "pattern"),
    [
        (schema.ONE_SETTLED, Pattern.DUPLICATE),
        (schema.BALANCE, Pattern.DRIFT),
        (LEASE, Pattern.STUCK_JOB),
        (ORPHAN, Pattern.MISSING),
        ("SELECT id FROM receipts WHERE NOT EXISTS (SELECT 1 FROM invoices)", Pattern.MISSING),
        ("SELECT id FROM accounts WHERE balance < 0", Pattern.GENERAL),
        # Not exactly one may be none as well as two.
        ("SELECT key FROM receipts GROUP BY key HAVING count(id) <> 1", Pattern.GENERAL),
        ("SELECT 1 FROM t WHERE note = 'having count(*) > 1' -- sum(x) <> y", Pattern.GENERAL),
    ],
)
def test_the_shape_of_a_rule_is_recognised_outside_of_strings_and_comments(sql: str, pattern: Pattern) -> None:
    assert recognise(sql) is pattern


def test_a_duplicate_needs_no_guess() -> None:
    made = assemble(
        [
            row("disputes", 50, parent=True, id="dsp_1"),
            row("refunds", 60, id="1", state="failed"),
            row("refunds", 105, id="3", state="settled"),
            row("refunds", 111, id="4", state="settled"),
        ],
        LAST_GOOD,
        pattern=Pattern.DUPLICATE,
        sql=schema.ONE_SETTLED,
        computed=("refunds.state",),
    )
    assert [(one.table, one.rows) for one in made.seed] == [
        ("disputes", (("dsp_1",),)),
        ("refunds", (("1", "failed"),)),
    ]
    assert [(one.table, one.rows) for one in made.observed] == [("refunds", (("3", "settled"), ("4", "settled")))]
    assert made.marked == ()


def test_a_total_that_drifted_was_the_sum_of_the_older_rows_and_says_that_this_is_a_guess() -> None:
    made = assemble(
        [
            row("accounts", 112, id="acc_1", credit_balance_eur="130.00", version="3"),
            row("credit_log", 60, id="1", account_id="acc_1", amount_eur="50.00"),
            row("credit_log", 70, id="2", account_id="acc_1", amount_eur="30.50"),
            row("credit_log", 111, id="3", account_id="acc_1", amount_eur="50.00"),
            row("credit_log", 112, id="4", account_id="acc_1", amount_eur="50.00"),
        ],
        LAST_GOOD,
        pattern=Pattern.DRIFT,
        sql=schema.BALANCE,
        computed=("accounts.credit_balance_eur", "credit_log.amount_eur"),
    )
    seed = {one.table: one.rows for one in made.seed}
    assert seed["accounts"] == (("acc_1", "80.50", "3"),)
    assert len(seed["credit_log"]) == 2
    observed = {one.table: one.rows for one in made.observed}
    assert observed["accounts"] == (("acc_1", "130.00", "3"),)
    assert len(observed["credit_log"]) == 2
    assert made.marked == ("accounts.credit_balance_eur: guessed as the sum of the older rows of credit_log",)


def test_a_stuck_job_was_accepted_and_held_by_nobody() -> None:
    made = assemble(
        [row("jobs", 111, job_id="j1", state="in_progress", lease_until="2026-11-29 10:00:00+00", worker="w1")],
        LAST_GOOD,
        pattern=Pattern.STUCK_JOB,
        sql=LEASE,
    )
    assert made.seed[0].rows == (("j1", "accepted", None, None),)
    assert made.observed[0].rows[0][1] == "in_progress"
    assert "jobs.state: guessed as 'accepted'" in made.marked


JOB = row("jobs", 111, job_id="j1", state="running", lease_until="2026-11-29 10:00:00+00", priority="3")
MACHINE = States(
    "jobs.state", (("queued", "offered"), ("offered", "running"), ("paused", "running"), ("running", "done"))
)


def seeds(*rows: EvidenceRow, pattern: Pattern = Pattern.STUCK_JOB, **clues: object) -> list[str | None]:
    """The state of the job in the seed, attempt by attempt, until they repeat themselves."""
    found: list[str | None] = []
    made = None
    for attempt in range(12):
        again = assemble(rows, LAST_GOOD, pattern=pattern, sql=LEASE, attempt=attempt, **clues)  # type: ignore[arg-type]
        if again == made:
            break
        made = again
        found.append(made.seed[0].rows[0][1] if made.seed else None)
    return found


def test_declared_states_name_every_state_from_which_the_observed_one_is_reached() -> None:
    assert seeds(JOB, states=[MACHINE]) == ["offered", "offered", "paused", "paused"]
    made = assemble([JOB], LAST_GOOD, pattern=Pattern.STUCK_JOB, sql=LEASE, states=[MACHINE])
    assert made.seed[0].rows == (("j1", "offered", None, "3"),)
    assert made.marked[0] == "jobs.state: guessed as 'offered'"


def test_a_job_in_a_first_state_was_inserted() -> None:
    first = row("jobs", 111, job_id="j1", state="queued", lease_until="2026-11-29 10:00:00+00")
    assert seeds(first, states=[MACHINE]) == [None]


def test_a_column_that_may_not_be_null_has_a_guess_of_its_own() -> None:
    made = assemble([JOB], LAST_GOOD, pattern=Pattern.STUCK_JOB, sql=LEASE, states=[MACHINE], attempt=1)
    assert made.seed[0].rows == (("j1", "offered", "2026-11-29 10:00:00+00", "3"),)


@pytest.mark.parametrize(
    ("ddl", "first"),
    [
        ("CREATE TYPE job_state AS ENUM ('new', 'it''s up', 'running', 'done');", "it's up"),
        (
            'CREATE TABLE "public"."jobs" (\n "state" text DEFAULT \'fresh\'::text NOT NULL,\n "b" text DEFAULT \'x\');',
            "fresh",
        ),
        ("CREATE TABLE `jobs` (\n `state` varchar(20) NOT NULL DEFAULT 'fresh'\n)", "fresh"),
        ("create table jobs (id integer, state text default 'fresh')", "fresh"),
        ("CREATE TABLE jobs (state text, other text DEFAULT 'x')", "paused"),
        ("", "paused"),
    ],
)
def test_without_a_declaration_the_former_state_comes_from_the_schema_and_from_other_rows(ddl: str, first: str) -> None:
    other = row("jobs", 60, job_id="j0", state="paused", lease_until=None, priority="1")
    made = assemble([JOB, other], LAST_GOOD, pattern=Pattern.STUCK_JOB, sql=LEASE, schema_sql=ddl)
    assert [one[1] for one in made.seed[0].rows] == ["paused", first]


def test_a_declared_state_is_a_pre_image_for_other_shapes_too_and_nothing_is_guessed_without_one() -> None:
    for pattern in (Pattern.GENERAL, Pattern.MISSING):
        assert seeds(JOB, pattern=pattern) == [None]
        assert seeds(JOB, pattern=pattern, states=[MACHINE]) == ["offered", "paused"]
    made = assemble([JOB], LAST_GOOD, pattern=Pattern.MISSING, sql=ORPHAN, states=[MACHINE])
    assert "jobs.state: guessed as 'offered', by the declared states" in made.marked
    assert any("its row is gone: insert it in pre_image(db)" in mark for mark in made.marked)


def test_a_total_may_also_have_been_less_by_what_was_added() -> None:
    rows = [
        row("accounts", 112, id="acc_1", credit_balance_eur="130.00", version="3"),
        row("credit_log", 111, id="3", account_id="acc_1", amount_eur="50.00"),
    ]
    totals = [
        assemble(
            rows,
            LAST_GOOD,
            pattern=Pattern.DRIFT,
            sql=schema.BALANCE,
            computed=("accounts.credit_balance_eur", "credit_log.amount_eur"),
            attempt=attempt,
        )
        .seed[0]
        .rows[0][1]
        for attempt in range(3)
    ]
    assert totals == ["0.00", "80.00", "80.00"]


def test_a_parent_written_in_the_window_is_in_the_seed_and_marked() -> None:
    made = assemble(
        [row("disputes", 111, parent=True, id="dsp_1", open="f"), row("refunds", 111, id="3")],
        LAST_GOOD,
        pattern=Pattern.DUPLICATE,
        sql=schema.ONE_SETTLED,
    )
    assert [one.table for one in made.seed] == ["disputes"]
    assert [one.table for one in made.observed] == ["disputes", "refunds"]
    assert made.marked == ("disputes: a row of it is as it was afterwards; written in the window",)


def test_of_duplicates_the_one_that_the_last_good_run_saw_is_observed_too_and_says_that_this_is_a_guess() -> None:
    """semantics 9.3: a look between the two commits would leave both parties nothing to do."""
    made = assemble(
        [
            row("disputes", 50, parent=True, id="dsp_1"),
            row("refunds", 60, id="1", dispute_id="dsp_1", state="failed"),
            row("refunds", 99, id="2", dispute_id="dsp_1", state="settled"),
            row("refunds", 111, id="3", dispute_id="dsp_1", state="settled"),
        ],
        LAST_GOOD,
        pattern=Pattern.DUPLICATE,
        sql=schema.ONE_SETTLED,
        computed=("refunds.state",),
    )
    assert [(one.table, len(one.rows)) for one in made.seed] == [("disputes", 1), ("refunds", 1)]
    assert made.seed[1].rows[0][2] == "failed"
    assert [one[0] for one in made.observed[0].rows] == ["2", "3"]
    assert [one.xid for one in made.written] == [99, 111]
    assert [one for one in made.marked if "guessed as written by one of the two parties" in one]


def test_older_rows_stay_in_the_seed_where_none_like_them_was_written_since() -> None:
    older = row("refunds", 60, id="1", state="settled")
    made = assemble(
        [older, row("disputes", 111, id="d", state="settled")],
        LAST_GOOD,
        pattern=Pattern.DUPLICATE,
        sql=schema.ONE_SETTLED,
        computed=("refunds.state",),
    )
    assert made.seed[0].rows == (older.values,)
    general = assemble(
        [older, row("refunds", 111, id="2", state="settled")],
        LAST_GOOD,
        pattern=Pattern.GENERAL,
        sql="SELECT 1",
        computed=("refunds.state",),
    )
    assert general.seed[0].rows == (older.values,)


def test_without_a_run_before_every_row_of_the_seed_is_a_guess_and_says_so() -> None:
    """semantics 9.2."""
    made = assemble(
        [row("disputes", 50, parent=True, id="dsp_1"), row("refunds", 60, id="3"), row("refunds", 61, id="4")],
        None,
        pattern=Pattern.DUPLICATE,
        sql=schema.ONE_SETTLED,
    )
    assert made.split == "no run before it: every row is a guess"
    assert [one.table for one in made.seed] == ["disputes"]
    assert len(made.observed[0].rows) == 2
    assert made.marked


def test_sqlite_rows_are_split_by_key_and_labelled() -> None:
    """semantics 9.3."""
    where = Position("file", datetime(2026, 11, 29, tzinfo=UTC), role="file")
    made = assemble(
        [
            row("accounts", None, id="a", balance="50"),
            row("log", None, id="1", account="a", cents="50"),
        ],
        where,
        pattern=Pattern.DRIFT,
        sql="SELECT a.id FROM accounts a WHERE a.balance <> (SELECT sum(l.cents) FROM log l WHERE l.account = a.id)",
        computed=("accounts.balance", "log.cents"),
    )
    assert made.split == "by key, not by transaction"
    assert made.seed[0].rows == (("a", "0"),)
    assert {one.table for one in made.observed} == {"accounts", "log"}


def test_rows_that_are_gone_are_said_to_be_gone() -> None:
    made = assemble([row("receipts", 60, id="1")], LAST_GOOD, pattern=Pattern.MISSING, sql=ORPHAN)
    assert made.observed == ()
    assert "gone from the database" in made.marked[0]
