"""what the keys of an accept mean, and which generation changed that"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Words

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both columns; what is empty is learnt from the catalog in force."""
    op.add_column("accepts", sa.Column("meaning", Words(), nullable=False, server_default=""))
    op.add_column("accepts", sa.Column("redefined_in", sa.Integer(), nullable=True))
