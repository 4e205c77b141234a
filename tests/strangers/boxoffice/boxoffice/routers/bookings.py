from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from sqlalchemy.orm import Session

from boxoffice.bookings import NoSuchSeat, SeatTaken, book_seat, cancel_booking
from boxoffice.database import get_session
from boxoffice.schemas import BookingIn, BookingOut

router = APIRouter(prefix="/bookings", tags=["bookings"])


@router.post("", status_code=201, response_model=BookingOut)
def create_booking(body: BookingIn, session: Annotated[Session, Depends(get_session)]):
    try:
        return book_seat(session, body.seat_id, body.email)
    except NoSuchSeat:
        raise HTTPException(404, "no such seat") from None
    except SeatTaken as error:
        raise HTTPException(409, f"seat {error} is taken") from None


@router.delete("/{booking_id}", response_model=BookingOut)
def delete_booking(booking_id: int, session: Annotated[Session, Depends(get_session)]):
    booking = cancel_booking(session, booking_id)
    if booking is None:
        raise HTTPException(404, "no such booking")
    return booking
