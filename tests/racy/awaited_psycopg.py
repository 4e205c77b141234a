"""The duplicate refund as coroutines over psycopg alone, on a connection for each call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

SETTLED = "SELECT id FROM refunds WHERE dispute_id = %s AND state = 'settled'"
INSERT = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES (%s, 40, 'settled')"
NOT_EXISTS = (
    "INSERT INTO refunds (dispute_id, amount_eur, state) SELECT 'dsp_1', 40, 'settled' "
    "WHERE NOT EXISTS (SELECT 1 FROM refunds WHERE dispute_id = 'dsp_1' AND state = 'settled')"
)
LOCK = "SELECT id FROM disputes WHERE id = %s FOR UPDATE"
DISPUTE = ("dsp_1",)
Connection = psycopg.AsyncConnection[Any]
connect = psycopg.AsyncConnection.connect


async def read_then_insert(connection: Connection) -> None:
    if await (await connection.execute(SETTLED, DISPUTE)).fetchone() is None:
        await connection.execute(INSERT, DISPUTE)


async def with_retry(dsn: str, level: psycopg.IsolationLevel, body: Callable[[Connection], Awaitable[None]]) -> None:
    async with await connect(dsn, autocommit=True) as connection:
        await connection.set_isolation_level(level)
        for _ in range(5):
            try:
                async with connection.transaction():
                    await body(connection)
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                continue
            else:
                return
    raise RuntimeError("gave up")


async def buggy(dsn: str) -> None:
    async with await connect(dsn) as connection:
        await read_then_insert(connection)


async def right_lock_parent(dsn: str) -> None:
    async with await connect(dsn) as connection:
        await connection.execute(LOCK, DISPUTE)
        await read_then_insert(connection)
        await connection.commit()


async def right_unique_index(dsn: str) -> None:
    try:
        await buggy(dsn)
    except psycopg.errors.UniqueViolation:
        return


async def right_on_conflict(dsn: str) -> None:
    async with await connect(dsn, autocommit=True) as connection:
        await connection.execute(INSERT + " ON CONFLICT DO NOTHING", DISPUTE)


async def right_serializable(dsn: str) -> None:
    await with_retry(dsn, psycopg.IsolationLevel.SERIALIZABLE, read_then_insert)


async def wrong_not_exists(dsn: str) -> None:
    async with await connect(dsn) as connection, connection.cursor() as cursor:
        await cursor.execute(NOT_EXISTS)


async def wrong_not_exists_alone(dsn: str) -> None:
    """One statement, and a transaction of its own: between its look and its COMMIT there is a gap all the same."""
    async with await connect(dsn, autocommit=True) as connection:
        await connection.execute(NOT_EXISTS)


async def wrong_lock_in_an_earlier_transaction(dsn: str) -> None:
    async with await connect(dsn, autocommit=True) as connection:
        async with connection.transaction():
            await connection.execute(LOCK, DISPUTE)
            found = await (await connection.execute(SETTLED, DISPUTE)).fetchone()
        if found is None:
            await connection.execute(INSERT, DISPUTE)


NEEDS_UNIQUE = frozenset({right_unique_index, right_on_conflict})
RIGHT = (right_lock_parent, right_unique_index, right_on_conflict, right_serializable)
WRONG = (buggy, wrong_not_exists, wrong_not_exists_alone, wrong_lock_in_an_earlier_transaction)
