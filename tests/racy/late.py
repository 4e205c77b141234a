"""A refund that asks its provider between reading and writing: the provider may be slower than whoever waits for it."""

from __future__ import annotations

from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

from holdtrue.testing import checkpoint
from racy.duplicate import DISPUTE, INSERT, SETTLED

FAILED = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES (:d, 40, 'failed')"


def buggy(engine: Engine) -> None:
    """Asks first, writes down later."""
    with engine.begin() as connection:
        if connection.execute(text(SETTLED), DISPUTE).first() is not None:
            return
    checkpoint("ask_provider")
    with engine.begin() as connection:
        connection.execute(text(INSERT), DISPUTE)


def right(engine: Engine) -> None:
    """The same, where an index refuses the second one."""
    try:
        buggy(engine)
    except IntegrityError:
        return


def mark_failed(engine: Engine) -> None:
    """What the caller does when it has waited long enough."""
    with engine.begin() as connection:
        connection.execute(text(FAILED), DISPUTE)
