"""Two settled refunds for one dispute: read, see none, insert."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError

SETTLED = "SELECT id FROM refunds WHERE dispute_id = :d AND state = 'settled'"
INSERT = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES (:d, 40, 'settled')"
DISPUTE = {"d": "dsp_1"}
_lock = threading.Lock()


def read_then_insert(connection: Connection) -> None:
    if connection.execute(text(SETTLED), DISPUTE).first() is None:
        connection.execute(text(INSERT), DISPUTE)


def with_retry(engine: Engine, level: str, body: Callable[[Connection], None]) -> None:
    for _ in range(5):
        try:
            with engine.connect().execution_options(isolation_level=level) as connection, connection.begin():
                body(connection)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in ("40001", "40P01"):
                raise
        else:
            return
    raise RuntimeError("gave up")


def buggy(engine: Engine) -> None:
    with engine.begin() as connection:
        read_then_insert(connection)


def right_lock_parent(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("SELECT id FROM disputes WHERE id = :d FOR UPDATE"), DISPUTE)
        read_then_insert(connection)


def right_unique_index(engine: Engine) -> None:
    try:
        buggy(engine)
    except IntegrityError:
        return


def right_on_conflict(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text(INSERT + " ON CONFLICT DO NOTHING"), DISPUTE)


def right_serializable(engine: Engine) -> None:
    with_retry(engine, "SERIALIZABLE", read_then_insert)


def right_advisory_lock(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:d))"), DISPUTE)
        read_then_insert(connection)


def wrong_not_exists(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO refunds (dispute_id, amount_eur, state) SELECT :d, 40, 'settled' "
                "WHERE NOT EXISTS (SELECT 1 FROM refunds WHERE dispute_id = :d AND state = 'settled')"
            ),
            DISPUTE,
        )


def wrong_for_update_of_absent_rows(engine: Engine) -> None:
    with engine.begin() as connection:
        if connection.execute(text(SETTLED + " FOR UPDATE"), DISPUTE).first() is None:
            connection.execute(text(INSERT), DISPUTE)


def wrong_repeatable_read(engine: Engine) -> None:
    with_retry(engine, "REPEATABLE READ", read_then_insert)


def wrong_sleep(engine: Engine) -> None:
    with engine.begin() as connection:
        time.sleep(0.002)
        read_then_insert(connection)


def wrong_lock_in_an_earlier_transaction(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("SELECT id FROM disputes WHERE id = :d FOR UPDATE"), DISPUTE)
        found = connection.execute(text(SETTLED), DISPUTE).first()
    if found is None:
        with engine.begin() as connection:
            connection.execute(text(INSERT), DISPUTE)


def wrong_thread_lock(engine: Engine) -> None:
    with _lock:
        buggy(engine)


NEEDS_UNIQUE = frozenset({right_unique_index, right_on_conflict})
