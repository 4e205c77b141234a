"""the refunds service as it was first written: every operation is right alone and wrong beside another"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from holdtrue.demo import schema
from holdtrue.demo.provider import Provider

LEASE = timedelta(seconds=2)
"""How long a worker owns a job without saying that it still lives."""

SETTLED_AFTER = timedelta(seconds=1)
"""Files younger than this may still be being written; the listing leaves them for its next round."""


def open_dispute(engine: Engine, dispute_id: str, account_id: str, amount_eur: int) -> None:
    """Note that a customer disputes a payment."""
    with engine.begin() as connection:
        connection.execute(
            insert(schema.disputes).values(
                id=dispute_id, account_id=account_id, amount_eur=amount_eur, opened_at=datetime.now(UTC)
            )
        )


def issue_refund(engine: Engine, provider: Provider, dispute_id: str, amount_eur: int) -> str:
    """Refund a dispute unless it has been: ``settled`` or ``already settled``.

    The race: whoever reads while another call waits for the provider finds no refund either.
    """
    with engine.begin() as connection:
        found = connection.execute(
            select(schema.refunds.c.id).where(
                schema.refunds.c.dispute_id == dispute_id, schema.refunds.c.state == "settled"
            )
        ).first()
    if found is not None:
        return "already settled"
    reference = provider.capture(dispute_id, amount_eur)
    with engine.begin() as connection:
        connection.execute(
            insert(schema.refunds).values(
                dispute_id=dispute_id,
                amount_eur=amount_eur,
                state="settled",
                provider_reference=reference,
                created_at=datetime.now(UTC),
            )
        )
    return "settled"


def credit_account(engine: Engine, account_id: str, amount_eur: int, *, scoring: float = 0.005) -> int:
    """Add to an account's credit and to its log; the new balance.

    The race: between the read and the write the fraud score is asked (``scoring`` seconds); two callers then add to the
    same old balance, and one addition is lost, while the log has both.
    """
    with engine.begin() as connection:
        balance = connection.execute(
            select(schema.accounts.c.credit_balance_eur).where(schema.accounts.c.id == account_id)
        ).scalar_one()
        time.sleep(scoring)
        connection.execute(
            update(schema.accounts)
            .where(schema.accounts.c.id == account_id)
            .values(credit_balance_eur=balance + amount_eur)
        )
        connection.execute(
            insert(schema.credit_log).values(account_id=account_id, amount_eur=amount_eur, created_at=datetime.now(UTC))
        )
    return int(balance + amount_eur)


def accept_job(engine: Engine, job_id: str) -> None:
    """Promise to do a piece of work."""
    with engine.begin() as connection:
        connection.execute(insert(schema.jobs).values(job_id=job_id, state="accepted", created_at=datetime.now(UTC)))


def take_job(engine: Engine, worker: str) -> str | None:
    """Take the oldest accepted job under a lease; None if there is none.

    Nothing ever looks at a lease that has run out: a worker that dies takes its job with it.
    """
    with engine.begin() as connection:
        job_id = connection.execute(
            select(schema.jobs.c.job_id)
            .where(schema.jobs.c.state == "accepted")
            .order_by(schema.jobs.c.created_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        ).scalar_one_or_none()
        if job_id is None:
            return None
        connection.execute(
            update(schema.jobs)
            .where(schema.jobs.c.job_id == job_id)
            .values(state="in_progress", lease_owner=worker, lease_until=datetime.now(UTC) + LEASE)
        )
    return str(job_id)


def finish_job(engine: Engine, job_id: str) -> None:
    """Note that the work is done."""
    with engine.begin() as connection:
        connection.execute(
            update(schema.jobs).where(schema.jobs.c.job_id == job_id).values(state="done", lease_until=None)
        )


def open_invoice(engine: Engine, invoice_id: str, account_id: str, amount_eur: int) -> None:
    """Write an invoice that has no receipt yet."""
    with engine.begin() as connection:
        connection.execute(insert(schema.invoices).values(id=invoice_id, account_id=account_id, amount_eur=amount_eur))


def attach_receipt(engine: Engine, folder: Path, invoice_id: str, content: bytes) -> str:
    """Keep a receipt's file and point the invoice at it, unless it has one; the receipt's key.

    The race: two calls each keep a file under a key of their own, and the invoice points at the later one. The other file
    belongs to nobody.
    """
    with engine.begin() as connection:
        present = connection.execute(
            select(schema.invoices.c.receipt_key).where(schema.invoices.c.id == invoice_id)
        ).scalar_one()
    if present is not None:
        return str(present)
    key = f"{invoice_id}-{uuid.uuid4().hex}.txt"
    (folder / key).write_bytes(content)
    with engine.begin() as connection:
        connection.execute(update(schema.invoices).where(schema.invoices.c.id == invoice_id).values(receipt_key=key))
        add_to_listing(connection, key, len(content))
    return key


def add_to_listing(connection: Connection, key: str, size_bytes: int) -> None:
    """List a new file in the transaction that uses it, so that nobody sees the one without the other."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    connection.execute(
        dialect.insert(schema.receipts)
        .values(key=key, size_bytes=size_bytes, listed_at=datetime.now(UTC))
        .on_conflict_do_nothing()
    )


def list_receipts(engine: Engine, folder: Path) -> int:
    """Make the table ``receipts`` say what is in the folder; how many files it lists.

    A query cannot look into a folder: this listing is what the invariant joins with the invoices. Files of the last moment
    are left to whoever is just using them.
    """
    now = datetime.now(UTC)
    present = {path.name: path.stat() for path in folder.iterdir()}
    settled = {
        name: state.st_size
        for name, state in present.items()
        if now - datetime.fromtimestamp(state.st_mtime, UTC) >= SETTLED_AFTER
    }
    with engine.begin() as connection:
        rows = connection.execute(select(schema.receipts.c["key"], schema.receipts.c.listed_at))
        listed = {str(row[0]): row[1] for row in rows}
        gone = [
            key for key, listed_at in listed.items() if key not in present and now - _aware(listed_at) >= SETTLED_AFTER
        ]
        if gone:
            connection.execute(delete(schema.receipts).where(schema.receipts.c["key"].in_(gone)))
        for key in sorted(settled.keys() - listed.keys()):
            add_to_listing(connection, key, settled[key])
    return len((listed.keys() | settled.keys()) - set(gone))


def _aware(moment: datetime) -> datetime:
    """SQLite gives back what we wrote in UTC, without its zone."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
