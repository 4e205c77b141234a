"""the same operations, mended: one primitive of the database each"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine, delete, insert, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from holdtrue.demo import schema
from holdtrue.demo.provider import Provider
from holdtrue.demo.service import add_to_listing


def issue_refund(engine: Engine, provider: Provider, dispute_id: str, amount_eur: int) -> str:
    """Claim the refund under the unique index first, and pay only with the claim in hand.

    Needs `schema.forbid_second_refunds`. A second call meets the claim, paid or not, and pays nothing.
    """
    dialect = sqlite if engine.dialect.name == "sqlite" else postgresql
    with engine.begin() as connection:
        claim = connection.execute(
            dialect.insert(schema.refunds)
            .values(dispute_id=dispute_id, amount_eur=amount_eur, state="pending", created_at=datetime.now(UTC))
            .on_conflict_do_nothing()
            .returning(schema.refunds.c.id)
        ).scalar_one_or_none()
    if claim is None:
        return "already settled"
    reference = provider.capture(dispute_id, amount_eur)
    with engine.begin() as connection:
        connection.execute(
            update(schema.refunds)
            .where(schema.refunds.c.id == claim)
            .values(state="settled", provider_reference=reference)
        )
    return "settled"


def issue_refund_locked(engine: Engine, provider: Provider, dispute_id: str, amount_eur: int) -> str:
    """Lock the dispute before reading its refunds, and keep the lock until the refund is written.

    It needs no change of the schema, and pays with a lock that is held while the provider thinks. The lock is an update
    that changes nothing: a row lock on PostgreSQL, the write lock on SQLite.
    """
    with engine.begin() as connection:
        connection.execute(
            update(schema.disputes)
            .where(schema.disputes.c.id == dispute_id)
            .values(amount_eur=schema.disputes.c.amount_eur)
        )
        found = connection.execute(
            select(schema.refunds.c.id).where(
                schema.refunds.c.dispute_id == dispute_id, schema.refunds.c.state == "settled"
            )
        ).first()
        if found is not None:
            return "already settled"
        reference = provider.capture(dispute_id, amount_eur)
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


def credit_account(engine: Engine, account_id: str, amount_eur: int) -> None:
    """Let the database add: nothing is read that another call could have changed."""
    with engine.begin() as connection:
        connection.execute(
            update(schema.accounts)
            .where(schema.accounts.c.id == account_id)
            .values(credit_balance_eur=schema.accounts.c.credit_balance_eur + amount_eur)
        )
        connection.execute(
            insert(schema.credit_log).values(account_id=account_id, amount_eur=amount_eur, created_at=datetime.now(UTC))
        )


def abandon_dead_jobs(engine: Engine) -> int:
    """Give the stalled jobs a name: out of ``in_progress`` into ``abandoned`` once the lease is over; how many."""
    with engine.begin() as connection:
        result = connection.execute(
            update(schema.jobs)
            .where(schema.jobs.c.state == "in_progress", schema.jobs.c.lease_until < datetime.now(UTC))
            .values(state="abandoned", lease_until=None)
        )
    return result.rowcount


def attach_receipt(engine: Engine, folder: Path, invoice_id: str, content: bytes) -> str:
    """Lock the invoice, look whether it has a receipt, and only then write the file and both rows.

    A crash before the commit leaves a file that the next listing finds.
    """
    with engine.begin() as connection:
        connection.execute(
            update(schema.invoices)
            .where(schema.invoices.c.id == invoice_id)
            .values(receipt_key=schema.invoices.c.receipt_key)
        )
        present = connection.execute(
            select(schema.invoices.c.receipt_key).where(schema.invoices.c.id == invoice_id)
        ).scalar_one()
        if present is not None:
            return str(present)
        key = f"{invoice_id}-{uuid.uuid4().hex}.txt"
        (folder / key).write_bytes(content)
        connection.execute(update(schema.invoices).where(schema.invoices.c.id == invoice_id).values(receipt_key=key))
        add_to_listing(connection, key, len(content))
    return key


def reverse_second_refunds(engine: Engine) -> int:
    """Repair the data: of every dispute's settled refunds all but the first are reversed; how many."""
    with engine.begin() as connection:
        result = connection.execute(
            text(
                "UPDATE refunds SET state = 'reversed' WHERE state = 'settled' AND id > "
                "(SELECT min(first.id) FROM refunds AS first "
                "WHERE first.dispute_id = refunds.dispute_id AND first.state = 'settled')"
            )
        )
    return result.rowcount


def settle_balances(engine: Engine) -> int:
    """Repair the data: every balance becomes what the log says; how many were wrong."""
    with engine.begin() as connection:
        logged = "(SELECT coalesce(sum(amount_eur), 0) FROM credit_log WHERE account_id = accounts.id)"
        result = connection.execute(
            text(f"UPDATE accounts SET credit_balance_eur = {logged} WHERE credit_balance_eur <> {logged}")
        )
    return result.rowcount


def sweep_receipts(engine: Engine, folder: Path) -> int:
    """Repair the data: files that no invoice names go, and their rows in the listing; how many."""
    with engine.begin() as connection:
        named = set(connection.execute(select(schema.invoices.c.receipt_key)).scalars())
        orphans = [path for path in folder.iterdir() if path.name not in named]
        for path in orphans:
            path.unlink()
        names = [path.name for path in orphans]
        connection.execute(delete(schema.receipts).where(schema.receipts.c["key"].in_(names)))
    return len(orphans)
