"""A balance that loses an update against its ledger: read, add in Python, write."""

from __future__ import annotations

from decimal import Decimal

from sqlalchemy import Connection, Engine, text

from racy.duplicate import with_retry

BALANCE = "SELECT credit_balance_eur, version FROM accounts WHERE id = :a"
WRITE = "UPDATE accounts SET credit_balance_eur = :b WHERE id = :a"
LOG = "INSERT INTO credit_log (account_id, amount_eur) VALUES (:a, 50)"
ACCOUNT = {"a": "acc_1"}


def _add(connection: Connection, lock: str = "") -> None:
    balance = connection.execute(text(BALANCE + lock), ACCOUNT).one()[0]
    connection.execute(text(WRITE), {**ACCOUNT, "b": balance + Decimal(50)})
    connection.execute(text(LOG), ACCOUNT)


def buggy(engine: Engine) -> None:
    with engine.begin() as connection:
        _add(connection)


def right_for_update(engine: Engine) -> None:
    with engine.begin() as connection:
        _add(connection, " FOR UPDATE")


def right_atomic_update(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE accounts SET credit_balance_eur = credit_balance_eur + 50 WHERE id = :a"), ACCOUNT
        )
        connection.execute(text(LOG), ACCOUNT)


def right_compare_and_set(engine: Engine) -> None:
    for _ in range(5):
        with engine.begin() as connection:
            balance, version = connection.execute(text(BALANCE), ACCOUNT).one()
            done = connection.execute(
                text(
                    "UPDATE accounts SET credit_balance_eur = :b, version = version + 1 WHERE id = :a AND version = :v"
                ),
                {**ACCOUNT, "b": balance + Decimal(50), "v": version},
            )
            if done.rowcount == 1:
                connection.execute(text(LOG), ACCOUNT)
                return
    raise RuntimeError("gave up")


def right_repeatable_read_with_retry(engine: Engine) -> None:
    with_retry(engine, "REPEATABLE READ", _add)


def right_serializable(engine: Engine) -> None:
    with_retry(engine, "SERIALIZABLE", _add)


def wrong_lock_released_early(engine: Engine) -> None:
    with engine.begin() as connection:
        balance = connection.execute(text(BALANCE + " FOR UPDATE"), ACCOUNT).one()[0]
    with engine.begin() as connection:
        connection.execute(text(WRITE), {**ACCOUNT, "b": balance + Decimal(50)})
        connection.execute(text(LOG), ACCOUNT)
