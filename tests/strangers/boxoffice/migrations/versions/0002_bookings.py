"""bookings"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bookings",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("seat_id", sa.Integer, sa.ForeignKey("seats.id"), nullable=False),
        sa.Column("email", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("booked_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
    )
    op.create_index("ix_bookings_seat_id", "bookings", ["seat_id"])


def downgrade() -> None:
    op.drop_table("bookings")
