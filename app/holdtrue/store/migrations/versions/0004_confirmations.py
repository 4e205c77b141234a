"""attempts at a due time, first readings that wait for a second one, and what runs counted a second time"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Moment

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; of a run before nobody knows what it counted again."""
    op.add_column("entries", sa.Column("tried_at", Moment(), nullable=True))
    op.add_column("episodes", sa.Column("confirming_run", sa.BigInteger(), nullable=True))
    for name in ("confirming_since", "confirming_until", "confirming_due"):
        op.add_column("episodes", sa.Column(name, Moment(), nullable=True))
    for name in ("confirming_count", "confirming_new"):
        op.add_column("episodes", sa.Column(name, sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("again", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("again_new", sa.BigInteger(), nullable=False, server_default="0"))
