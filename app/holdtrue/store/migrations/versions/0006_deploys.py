"""the deploys that pipelines told of"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Identity, Moment, Words

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "deploys",
        sa.Column("id", Identity, nullable=False),
        sa.Column("service", Words(), nullable=False),
        sa.Column("version", Words(), nullable=False),
        sa.Column("at", Moment(), nullable=False),
        sa.Column("by", Words(), nullable=False),
        sa.Column("recorded_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deploys"),
        sa.UniqueConstraint("service", "version", "at", name="uq_deploys_service_version_at"),
    )
    op.create_index("ix_deploys_at", "deploys", ["at"], unique=False)
