"""The duplicate refund as coroutines over SQLAlchemy, with its right and its wrong fixes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from racy.duplicate import DISPUTE, INSERT, SETTLED

LOCK = "SELECT id FROM disputes WHERE id = :d FOR UPDATE"
_lock = asyncio.Lock()


async def read_then_insert(connection: AsyncConnection) -> None:
    if (await connection.execute(text(SETTLED), DISPUTE)).first() is None:
        await connection.execute(text(INSERT), DISPUTE)


async def with_retry(engine: AsyncEngine, level: str, body: Callable[[AsyncConnection], Awaitable[None]]) -> None:
    for _ in range(5):
        try:
            async with engine.execution_options(isolation_level=level).begin() as connection:
                await body(connection)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in ("40001", "40P01"):
                raise
        else:
            return
    raise RuntimeError("gave up")


async def buggy(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await read_then_insert(connection)


async def right_lock_parent(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text(LOCK), DISPUTE)
        await read_then_insert(connection)


async def right_unique_index(engine: AsyncEngine) -> None:
    try:
        await buggy(engine)
    except IntegrityError:
        return


async def right_on_conflict(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text(INSERT + " ON CONFLICT DO NOTHING"), DISPUTE)


async def right_serializable(engine: AsyncEngine) -> None:
    await with_retry(engine, "SERIALIZABLE", read_then_insert)


async def wrong_not_exists(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(
            text(
                "INSERT INTO refunds (dispute_id, amount_eur, state) SELECT :d, 40, 'settled' "
                "WHERE NOT EXISTS (SELECT 1 FROM refunds WHERE dispute_id = :d AND state = 'settled')"
            ),
            DISPUTE,
        )


async def wrong_repeatable_read(engine: AsyncEngine) -> None:
    await with_retry(engine, "REPEATABLE READ", read_then_insert)


async def wrong_sleep(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await asyncio.sleep(0.01)
        await read_then_insert(connection)


async def wrong_lock_in_an_earlier_transaction(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text(LOCK), DISPUTE)
        found = (await connection.execute(text(SETTLED), DISPUTE)).first()
    if found is None:
        async with engine.begin() as connection:
            await connection.execute(text(INSERT), DISPUTE)


async def wrong_process_lock(engine: AsyncEngine) -> None:
    async with _lock:
        await buggy(engine)


NEEDS_UNIQUE = frozenset({right_unique_index, right_on_conflict})
RIGHT = (right_lock_parent, right_unique_index, right_on_conflict, right_serializable)
WRONG = (buggy, wrong_not_exists, wrong_repeatable_read, wrong_sleep, wrong_lock_in_an_earlier_transaction)
