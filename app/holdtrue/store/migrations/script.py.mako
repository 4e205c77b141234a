"""${message}"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdtrue.store.columns import Identity, Lasting, Moment, Words

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the schema of ${up_revision}."""
    ${upgrades if upgrades else "pass"}
