"""the invariant's name when an alert fired: labels of an alert stay as they were"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Words

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add ``episodes.fired_as``; empty means the entry's own name, as for every alert before."""
    op.add_column("episodes", sa.Column("fired_as", Words(), nullable=False, server_default=""))
