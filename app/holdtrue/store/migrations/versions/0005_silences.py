"""silences, what they withheld, and the tags that they match"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Identity, Moment, Words

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, and the columns that stand empty in what is there."""
    op.create_table(
        "silences",
        sa.Column("id", Identity, nullable=False),
        sa.Column("matchers", Words(), nullable=False),
        sa.Column("comment", Words(), nullable=False),
        sa.Column("created_by", Words(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("starts_at", Moment(), nullable=False),
        sa.Column("ends_at", Moment(), nullable=False),
        sa.Column("ended_by", Words(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_silences"),
    )
    op.create_index("ix_silences_ends_at", "silences", ["ends_at"], unique=False)
    op.add_column("entries", sa.Column("tags", Words(), nullable=False, server_default=""))
    op.add_column("messages", sa.Column("silence_id", sa.BigInteger(), nullable=True))
    op.add_column("messages", sa.Column("lifted_at", Moment(), nullable=True))
    op.create_index("ix_messages_silence_id", "messages", ["silence_id"], unique=False)
