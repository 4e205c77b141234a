"""The duplicate refund as coroutines over asyncpg alone, on a connection for each call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg

SETTLED = "SELECT id FROM refunds WHERE dispute_id = $1 AND state = 'settled'"
INSERT = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ($1, 40, 'settled')"
NOT_EXISTS = (
    "INSERT INTO refunds (dispute_id, amount_eur, state) SELECT 'dsp_1', 40, 'settled' "
    "WHERE NOT EXISTS (SELECT 1 FROM refunds WHERE dispute_id = 'dsp_1' AND state = 'settled')"
)
LOCK = "SELECT id FROM disputes WHERE id = $1 FOR UPDATE"
DISPUTE = "dsp_1"
Connection = asyncpg.Connection


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def read_then_insert(connection: Connection) -> None:
    if await connection.fetchrow(SETTLED, DISPUTE) is None:
        await connection.execute(INSERT, DISPUTE)


async def with_retry(dsn: str, level: str, body: Callable[[Connection], Awaitable[None]]) -> None:
    async with connected(dsn) as connection:
        for _ in range(5):
            try:
                async with connection.transaction(isolation=level):
                    await body(connection)
            except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError):
                continue
            else:
                return
    raise RuntimeError("gave up")


async def buggy(dsn: str) -> None:
    async with connected(dsn) as connection, connection.transaction():
        await read_then_insert(connection)


async def right_lock_parent(dsn: str) -> None:
    async with connected(dsn) as connection, connection.transaction():
        await connection.fetchval(LOCK, DISPUTE)
        await read_then_insert(connection)


async def right_unique_index(dsn: str) -> None:
    try:
        await buggy(dsn)
    except asyncpg.UniqueViolationError:
        return


async def right_on_conflict(dsn: str) -> None:
    async with connected(dsn) as connection:
        await connection.execute(INSERT + " ON CONFLICT DO NOTHING", DISPUTE)


async def right_serializable(dsn: str) -> None:
    await with_retry(dsn, "serializable", read_then_insert)


async def wrong_not_exists(dsn: str) -> None:
    async with connected(dsn) as connection, connection.transaction():
        await connection.execute(NOT_EXISTS)


async def wrong_not_exists_alone(dsn: str) -> None:
    """One statement, and a transaction of its own: between its look and its COMMIT there is a gap all the same."""
    async with connected(dsn) as connection:
        await connection.execute(NOT_EXISTS)


async def wrong_lock_in_an_earlier_transaction(dsn: str) -> None:
    async with connected(dsn) as connection:
        async with connection.transaction():
            await connection.fetchval(LOCK, DISPUTE)
            found = await connection.fetchrow(SETTLED, DISPUTE)
        if found is None:
            await connection.execute(INSERT, DISPUTE)


NEEDS_UNIQUE = frozenset({right_unique_index, right_on_conflict})
RIGHT = (right_lock_parent, right_unique_index, right_on_conflict, right_serializable)
WRONG = (buggy, wrong_not_exists, wrong_not_exists_alone, wrong_lock_in_an_earlier_transaction)
