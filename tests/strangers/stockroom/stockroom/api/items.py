from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from pydantic import BaseModel, ConfigDict
from sqlalchemy.ext.asyncio import AsyncSession

from stockroom import stock
from stockroom.db import get_session

router = APIRouter(prefix="/items")
SessionDep = Annotated[AsyncSession, Depends(get_session)]


class ItemIn(BaseModel):
    sku: str
    on_hand: int = 0


class MovementIn(BaseModel):
    quantity: int
    reason: str


class ItemOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    sku: str
    on_hand: int


@router.post("", status_code=201, response_model=ItemOut)
async def create_item(body: ItemIn, session: SessionDep):
    return await stock.add_item(session, body.sku, body.on_hand)


@router.post("/{item_id}/movements", status_code=201, response_model=ItemOut)
async def create_movement(item_id: int, body: MovementIn, session: SessionDep):
    try:
        return await stock.move(session, item_id, body.quantity, body.reason)
    except stock.NoSuchItem:
        raise HTTPException(404, "no such item") from None
    except stock.OutOfStock as error:
        raise HTTPException(409, f"not enough of {error}") from None
