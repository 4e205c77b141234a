"""which rows count: healed keys, suspicious counts, answers of population, and what people accepted"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Identity, Moment, Words

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the schema of 0002."""
    op.add_column("ledger_keys", sa.Column("present_since", Moment(), nullable=True))
    op.add_column("ledger_keys", sa.Column("young_since", Moment(), nullable=True))
    op.add_column("runs", sa.Column("healed", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("suspicious", Words(), nullable=False, server_default=""))
    op.add_column("standings", sa.Column("populated_at", Moment(), nullable=True))
    op.add_column("standings", sa.Column("populated_definition", sa.String(length=128), nullable=True))
    op.add_column("standings", sa.Column("populated_count", sa.BigInteger(), nullable=True))
    # Nothing ever wrote to it: accepting came with this version.
    op.drop_table("accepted_keys")
    op.create_table(
        "accepts",
        sa.Column("id", Identity, nullable=False),
        sa.Column("entry_id", sa.BigInteger(), nullable=False),
        sa.Column("reason", Words(), nullable=False),
        sa.Column("accepted_by", Words(), nullable=False),
        sa.Column("accepted_at", Moment(), nullable=False),
        sa.Column("until", Moment(), nullable=False),
        sa.Column("keys", sa.Integer(), nullable=False),
        sa.Column("secret_id", Words(), nullable=False),
        sa.Column("key_columns", Words(), nullable=False),
        sa.Column("timezone", Words(), nullable=False),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.Column("ended_by", Words(), nullable=False),
        sa.ForeignKeyConstraint(["entry_id"], ["entries.id"], name="fk_accepts_entry_id"),
        sa.PrimaryKeyConstraint("id", name="pk_accepts"),
    )
    op.create_index("ix_accepts_entry_id", "accepts", ["entry_id"], unique=False)
    op.create_table(
        "accepted_keys",
        sa.Column("accept_id", sa.BigInteger(), nullable=False),
        sa.Column("key", Words(), nullable=False),
        sa.ForeignKeyConstraint(["accept_id"], ["accepts.id"], name="fk_accepted_keys_accept_id"),
        sa.PrimaryKeyConstraint("accept_id", "key", name="pk_accepted_keys"),
    )
    op.create_table(
        "told_ends",
        sa.Column("entry_id", sa.BigInteger(), nullable=False),
        sa.Column("what", Words(), nullable=False),
        sa.Column("until", Moment(), nullable=False),
        sa.Column("told_at", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["entry_id"], ["entries.id"], name="fk_told_ends_entry_id"),
        sa.PrimaryKeyConstraint("entry_id", "what", name="pk_told_ends"),
    )
