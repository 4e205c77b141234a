"""the refunds service's tables, on SQLite and PostgreSQL"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    make_url,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql import ClauseElement

metadata = MetaData()

# Amounts are whole euros: neither database then rounds, and a difference is a lost update and nothing else.
accounts = Table(
    "accounts",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("credit_balance_eur", Integer, nullable=False, server_default="0"),
    Column("version", Integer, nullable=False, server_default="0"),
)
credit_log = Table(
    "credit_log",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False, index=True),
    Column("amount_eur", Integer, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
)
disputes = Table(
    "disputes",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("amount_eur", Integer, nullable=False),
    Column("opened_at", DateTime(timezone=True), nullable=False),
)
refunds = Table(
    "refunds",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("dispute_id", ForeignKey("disputes.id"), nullable=False, index=True),
    Column("amount_eur", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("provider_reference", String(64), nullable=False, server_default=""),
    Column("created_at", DateTime(timezone=True), nullable=False),
)
jobs = Table(
    "jobs",
    metadata,
    Column("job_id", String(32), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("lease_owner", String(64)),
    Column("lease_until", DateTime(timezone=True)),
    Column("created_at", DateTime(timezone=True), nullable=False),
)
receipts = Table(
    "receipts",
    metadata,
    Column("key", String(128), primary_key=True),
    Column("size_bytes", Integer, nullable=False),
    Column("listed_at", DateTime(timezone=True), nullable=False),
)
invoices = Table(
    "invoices",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("account_id", ForeignKey("accounts.id"), nullable=False),
    Column("amount_eur", Integer, nullable=False),
    Column("receipt_key", String(128)),
)


def open_engine(url: str, **options: Any) -> Engine:  # noqa: ANN401  SQLAlchemy's own options
    """An engine for either database, with a connection for every thread of the traffic."""
    engine = create_engine(url, pool_size=24, max_overflow=16, **options)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def _prepare(connection: Any, _record: object) -> None:  # noqa: ANN401  the driver's connection
            # Readers beside a writer, and writers that wait for one another instead of failing.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA busy_timeout=10000")

    return engine


def create(engine: Engine) -> None:
    """Make the tables as the racy service has them: nothing in the schema forbids a second refund."""
    metadata.create_all(engine)


def ddl(dialect: str) -> str:
    """The same tables as a schema file of ``sqlite`` or ``postgresql``."""
    compiled = make_url(f"{dialect}://").get_dialect()()
    statements: list[ClauseElement] = [CreateTable(table) for table in metadata.sorted_tables]
    statements += [CreateIndex(index) for table in metadata.sorted_tables for index in sorted(table.indexes, key=str)]
    return "".join(f"{str(one.compile(dialect=compiled)).strip()};\n" for one in statements)


def forbid_second_refunds(engine: Engine) -> None:
    """Migrate to the fixed schema: at most one refund of a dispute is under way or settled.

    It fails while duplicates are still there, as such a migration does.
    """
    with engine.begin() as connection:
        connection.execute(
            text(
                "CREATE UNIQUE INDEX IF NOT EXISTS one_live_refund_per_dispute ON refunds (dispute_id) "
                "WHERE state IN ('pending', 'settled')"
            )
        )
