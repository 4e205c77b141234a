import asyncio

import pytest
from sqlalchemy import StaticPool
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from stockroom.models import Base
from stockroom.stock import OutOfStock, add_item, move


def with_session(scenario):
    async def run():
        engine = create_async_engine("sqlite+aiosqlite://", poolclass=StaticPool)
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        async with AsyncSession(engine, expire_on_commit=False) as session:
            await scenario(session)
        await engine.dispose()

    asyncio.run(run())


def test_what_comes_in_and_what_goes_out_is_counted():
    async def scenario(session):
        item = await add_item(session, "bolt-m8", 10)
        await move(session, item.id, 5, "delivery")
        assert (await move(session, item.id, -12, "order")).on_hand == 3

    with_session(scenario)


def test_nothing_goes_out_that_is_not_there():
    async def scenario(session):
        item = await add_item(session, "bolt-m8", 10)
        with pytest.raises(OutOfStock):
            await move(session, item.id, -11, "order")

    with_session(scenario)
