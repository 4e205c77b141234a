"""the refunds service on a bad morning, as the store knows it"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from holdtrue.model import (
    BaseRows,
    Catalog,
    Delivered,
    Evidence,
    EvidenceRow,
    Failure,
    FailureReason,
    Novelty,
    Policy,
    Severity,
)
from scenes import COULD_NOT_LOOK, EVERY, Clock, Found, Pair, Scene, catalog_of, invariant, key, position

REFUNDS = "one_settled_refund_per_dispute"

REFUNDS_SQL = """\
SELECT dispute_id, count(*) AS refunds, max(created_at) AS created_at
FROM refunds
WHERE state = 'settled'
GROUP BY dispute_id
HAVING count(*) > 1
"""


@cache
def _refunds_store() -> tuple[bytes, datetime, Catalog]:
    """The store of `refunds_world`, the moment it has come to, and its catalog."""
    with TemporaryDirectory() as folder:
        scene = _bad_morning(Path(folder))
        assert scene.catalog is not None
        scene.store.close()
        return (scene.folder / "store.db").read_bytes(), scene.clock.at, scene.catalog


def refunds_world(folder: Path) -> Scene:
    """The refunds service on a bad morning: one alert fires, one is pending, two cannot look, the rest holds."""
    store, now, catalog = _refunds_store()
    (folder / "store.db").write_bytes(store)
    return Scene(folder, Clock(now), catalog)


def _bad_morning(folder: Path) -> Scene:
    scene = Scene(folder)
    scene.install(
        catalog_of(
            [
                invariant(
                    REFUNDS,
                    description="Every dispute has at most one settled refund, whatever the retry history.",
                    severity=Severity.CRITICAL,
                    sql=REFUNDS_SQL,
                    key=("dispute_id",),
                    tags=("money", "refunds"),
                    tables=("refunds",),
                    runbook_url="https://runbooks.example/refunds",
                    assumes="The payment provider deduplicates on our idempotency key.",
                    base_rows=(BaseRows("refunds", (("dispute_id", "dispute_id"),)),),
                    columns=frozenset({"dispute_id", "refunds", "created_at"}),
                ),
                invariant(
                    "balance_equals_ledger",
                    description="An account's balance is the sum of its ledger entries.",
                    severity=Severity.CRITICAL,
                    policy=Policy(fire_after=3),
                    key=("account_id",),
                ),
                invariant("no_job_left_in_progress", description="No dead lease keeps a job.", owner="platform"),
                invariant(
                    "every_receipt_has_an_invoice_row",
                    description="Files and rows agree.",
                    databases=("payments", "archive"),
                    severity=Severity.INFO,
                    owner="platform",
                ),
                invariant("no_negative_amount", description="Amounts are not negative."),
            ],
            databases=("payments", "archive"),
        )
    )
    jobs = ("no_job_left_in_progress", "payments")
    archive = ("every_receipt_has_an_invoice_row", "archive")
    refunds = (REFUNDS, "payments")
    columns = ("dispute_id", "refunds", "created_at", "customer")
    rows = (
        ("dsp_9", "2", "2026-11-29 11:14:59.812+00", "h:5d41402abc"),
        ("dsp_14", "3", "2026-11-29 12:29:58.101+00", "h:7d793037a0"),
        ("dsp_77", "2", None, "h:098f6bcd46"),
    )
    steps = 58
    for step in range(steps):
        at = scene.clock()
        found: dict[Pair, Found] = {}
        if 8 <= step < 11:
            found[refunds] = Found(rows[:1], columns, ("new",), frozenset({"customer"}), new=1)
        if step == 41:
            found[refunds] = Found(
                rows[:1],
                columns,
                ("returned",),
                frozenset({"customer"}),
                keys=(key(9, at, shown="dsp_9"),),
                new=1,
                evidence=(evidence_of(at),),
            )
        elif 42 <= step < 48:
            found[refunds] = Found(rows[:1], columns, ("known",), frozenset({"customer"}), known=1)
        elif step >= 48:
            found[refunds] = Found(
                rows,
                columns,
                ("known", "known", "new" if step == steps - 1 else "known"),
                frozenset({"customer"}),
                new=1 if step == steps - 1 else 0,
                known=2,
                keys=(
                    key(9, at - EVERY, Novelty.KNOWN, "dsp_9"),
                    key(14, at - EVERY, Novelty.KNOWN, "dsp_14"),
                    key(77, at, Novelty.NEW, "dsp_77"),
                ),
            )
        if step >= steps - 2:
            found["balance_equals_ledger", "payments"] = Found((("acc_3",),), ("account_id",), ("new",), new=1)
        if step >= steps - 5 or 20 <= step < 24:
            found[jobs] = COULD_NOT_LOOK
        if step >= steps - 20:
            found[archive] = replace(
                COULD_NOT_LOOK, failure=Failure(FailureReason.REFUSED, "archive/r1 refused the connection")
            )
        scene.look(found)
        scene.watch()
        scene.deliver(Delivered())
        if step < steps - 1:
            scene.pass_time()
    scene.pass_time(timedelta(seconds=42))
    scene.beat()
    return scene


def evidence_of(at: datetime) -> Evidence:
    """Two refunds of one dispute and their parent, with their writers."""
    columns = ("refund_id", "dispute_id", "state", "amount_eur", "customer")
    types = ("int8", "text", "text", "numeric", "text")
    return Evidence(
        key=f"{9:032x}",
        violation_columns=("dispute_id", "refunds"),
        violation=("dsp_9", "2"),
        rows=(
            EvidenceRow(
                "disputes", ("dispute_id", "state"), ("dsp_9", "open"), ("text", "text"), is_parent=True, xid=731
            ),
            EvidenceRow(
                "refunds",
                columns,
                ("41", "dsp_9", "settled", "40.00", "h:5d41402abc"),
                types,
                xid=812,
                committed_at=at - timedelta(minutes=3),
            ),
            EvidenceRow(
                "refunds",
                columns,
                ("42", "dsp_9", "settled", "40.00", "h:5d41402abc"),
                types,
                xid=815,
                committed_at=at - timedelta(minutes=2, seconds=58),
            ),
        ),
        position=position(at, 7),
        pseudonymised=("refunds.customer",),
    )
