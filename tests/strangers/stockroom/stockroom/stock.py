from sqlalchemy.ext.asyncio import AsyncSession

from stockroom.db import SessionLocal
from stockroom.models import Item, Movement


class NoSuchItem(Exception):
    pass


class OutOfStock(Exception):
    pass


async def add_item(session: AsyncSession, sku: str, on_hand: int) -> Item:
    item = Item(sku=sku, on_hand=on_hand)
    session.add(item)
    await session.flush()
    session.add(Movement(item_id=item.id, quantity=on_hand, reason="opening count"))
    await session.commit()
    return item


async def move(session: AsyncSession, item_id: int, quantity: int, reason: str) -> Item:
    item = await session.get(Item, item_id)
    if item is None:
        raise NoSuchItem(item_id)
    if item.on_hand + quantity < 0:
        raise OutOfStock(item.sku)
    item.on_hand += quantity
    session.add(Movement(item_id=item.id, quantity=quantity, reason=reason))
    await session.commit()
    return item


async def take_delivery(item_id: int, quantity: int) -> int:
    async with SessionLocal() as session:
        item = await move(session, item_id, quantity, "delivery")
        return item.on_hand
