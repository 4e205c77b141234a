"""items and movements"""

import sqlalchemy as sa
from alembic import op

revision = "2f1c"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "items",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("sku", sa.String, nullable=False, unique=True),
        sa.Column("on_hand", sa.Integer, nullable=False),
    )
    op.create_table(
        "movements",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("item_id", sa.Integer, sa.ForeignKey("items.id"), nullable=False, index=True),
        sa.Column("quantity", sa.Integer, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("moved_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )


def downgrade() -> None:
    op.drop_table("movements")
    op.drop_table("items")
