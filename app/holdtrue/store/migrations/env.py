"""runs the migrations on the connection that ``schema`` hands over; there is no other way in"""

from __future__ import annotations

from alembic import context

from holdtrue.store.tables import metadata

# The connection's transaction is the caller's: all missing migrations together, or none.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
