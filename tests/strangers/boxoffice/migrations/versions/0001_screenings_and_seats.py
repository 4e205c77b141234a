"""screenings and seats"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "screenings",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("film", sa.String, nullable=False),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "seats",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("screening_id", sa.Integer, sa.ForeignKey("screenings.id"), nullable=False),
        sa.Column("label", sa.String, nullable=False),
        sa.UniqueConstraint("screening_id", "label"),
    )


def downgrade() -> None:
    op.drop_table("seats")
    op.drop_table("screenings")
