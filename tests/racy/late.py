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


def ask_and_retry(engine: Engine) -> None:
    """A caller that asks its provider, which writes by itself, and asks once more when it hears of no answer."""
    for _ in range(2):
        with engine.begin() as connection:
            if connection.execute(text(SETTLED), DISPUTE).first() is not None:
                return
        try:
            checkpoint("ask_provider")
        except TimeoutError:
            continue
        provider(engine)
        return


def provider(engine: Engine) -> None:
    """What the provider does in the end, asked once or twice."""
    with engine.begin() as connection:
        connection.execute(text(INSERT), DISPUTE)
