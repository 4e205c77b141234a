"""when the first attempt at an unfinished due time ended"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Moment

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("entries", sa.Column("tried_at", Moment(), nullable=True))
