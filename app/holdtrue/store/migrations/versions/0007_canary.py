"""the canary's rounds, and what they proved of each notifier"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Moment, Words

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both tables, empty."""
    op.create_table(
        "canary_rounds",
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("begun_at", Moment(), nullable=False),
        sa.Column("mended_at", Moment(), nullable=True),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.PrimaryKeyConstraint("round", name="pk_canary_rounds"),
    )
    op.create_table(
        "proofs",
        sa.Column("notifier", Words(), nullable=False),
        sa.Column("declared", sa.String(64), nullable=False),
        sa.Column("since", Moment(), nullable=False),
        sa.Column("proven_at", Moment(), nullable=True),
        sa.Column("episode_id", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("notifier", name="pk_proofs"),
    )
