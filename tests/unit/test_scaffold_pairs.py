"""Which two of several writers ``run_a`` and ``run_b`` stand for (semantics 9.3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdtrue.model import EvidenceRow, Incident, TableRows, Traces
from holdtrue.scaffolding import TicketContext, Writer, commits_of, render, writers_of
from holdtrue.scaffolding.pairs import pair_of

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
NOT_KNOWN = Traces()


def row(table: str, xid: int | None, *, parent: bool = False) -> EvidenceRow:
    return EvidenceRow(table, ("id",), ("1",), is_parent=parent, xid=xid)


CUSTOMER, ORDER = row("customers", 789, parent=True), row("orders", 789, parent=True)
SHIPMENTS = (row("shipments", 790), row("shipments", 791))


def chosen(*rows: EvidenceRow) -> list[int]:
    return [xid for one in pair_of(commits_of(writers_of(rows), NOT_KNOWN), NOT_KNOWN) for xid in one.xids]


@pytest.mark.parametrize(
    ("rows", "pair"),
    [
        ((CUSTOMER, ORDER, *SHIPMENTS), [790, 791]),
        # A declared base row that the text reads is no parent, though others refer to it.
        ((CUSTOMER, row("orders", 789), *SHIPMENTS), [790, 791]),
        # Who made the parents may be any of them: a later one updated the customer.
        ((row("customers", 792, parent=True), *SHIPMENTS), [790, 791]),
        ((*SHIPMENTS, row("invoices", 792)), [790, 791]),
        ((row("shipments", 780), *SHIPMENTS), [790, 791]),
        ((row("customers", 780, parent=True), ORDER, row("shipments", 790)), [789, 790]),
        ((row("customers", 780, parent=True), row("stock", 781), row("orders", 782)), [781, 782]),
        (SHIPMENTS, [790, 791]),
        ((ORDER, row("shipments", 790)), [789, 790]),
        ((row("shipments", 790),), [790]),
        ((), []),
    ],
)
def test_the_pair_are_writers_of_the_rows_behind_the_violation(rows: tuple[EvidenceRow, ...], pair: list[int]) -> None:
    assert chosen(*rows) == pair


def test_of_writers_of_one_table_two_that_are_known_to_have_run_at_once_are_the_pair() -> None:
    """The older transaction committed last."""
    after = {780: 3, 781: 1, 790: 4}
    writers = [
        Writer(xid, NOON + timedelta(seconds=second), (f"refunds row {xid}",), frozenset({"refunds"}))
        for xid, second in after.items()
    ]
    assert [one.xids for one in pair_of(commits_of(writers, NOT_KNOWN), NOT_KNOWN)] == [(780,), (781,)]


def test_rows_whose_writers_are_not_known_are_wired_before_their_parents() -> None:
    rows = (row("orders", None, parent=True), row("shipments", None), row("shipments", None))
    pair = pair_of(commits_of(writers_of(rows), NOT_KNOWN), NOT_KNOWN)
    assert [one.rows for one in pair] == [("shipments row 1",), ("shipments row 2",)]


def files_of(*rows: EvidenceRow) -> dict[str, str]:
    incident = Incident(
        id="one_7",
        invariant="one",
        database="shop",
        engine="postgresql",
        sql="SELECT id FROM shipments",
        returns="rows",
        seed=(),
        observed=(TableRows("shipments", ("id",), (("1",),), ("integer",)),),
    )
    return render(incident, TicketContext(alert=7, created_at=NOON, created_by="ana", writers=writers_of(rows)))


def test_the_test_names_the_pair_and_the_manual_all_writers_with_their_rows() -> None:
    files = files_of(CUSTOMER, ORDER, *SHIPMENTS)
    test, manual = files["test_incident_one_7.py"], files["README.md"]
    assert "wire run_a to the code that wrote shipments row 1 (transaction 790)" in test
    assert "wire run_b to the code that wrote shipments row 2 (transaction 791)" in test
    assert "3 transactions wrote in the window." in manual
    assert "- `customers row 1, orders row 1 (transaction 789)`\n" in manual
    assert "- `shipments row 1 (transaction 790)`: `run_a`\n" in manual
    assert "- `shipments row 2 (transaction 791)`: `run_b`\n" in manual


def test_two_writers_need_no_list() -> None:
    assert "## Writers" not in files_of(*SHIPMENTS)["README.md"]
    assert "## Writers" not in files_of(*[row("shipments", None)] * 3)["README.md"]
