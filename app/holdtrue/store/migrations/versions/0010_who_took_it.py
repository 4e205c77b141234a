"""which recipients have a message already, while others were put off"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Words

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, empty: of what was owed before, everybody is told."""
    op.add_column("messages", sa.Column("took", Words(), nullable=False, server_default=""))
