"""how long notifiers asked to be left alone"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Moment, Words

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, empty: a pause that only a process knew ends with it."""
    op.create_table(
        "pauses",
        sa.Column("notifier", Words(), nullable=False),
        sa.Column("until", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("notifier", name="pk_pauses"),
    )
