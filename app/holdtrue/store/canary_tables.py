"""the tables of the canary, private to the store like all others"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, String, Table

from holdtrue.store.columns import Moment, Words
from holdtrue.store.tables import metadata

# The canary's own database (semantics 7.7): a round that is begun and not mended is what its rule finds.
canary_rounds = Table(
    "canary_rounds",
    metadata,
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("begun_at", Moment, nullable=False),
    Column("mended_at", Moment),
    Column("ended_at", Moment),
)

# Since when each notifier that the canary proves is what it is, and when a round last came whole through it.
proofs = Table(
    "proofs",
    metadata,
    Column("notifier", Words, primary_key=True),
    Column("declared", String(64), nullable=False),
    Column("since", Moment, nullable=False),
    Column("proven_at", Moment),
    Column("episode_id", BigInteger),
)
