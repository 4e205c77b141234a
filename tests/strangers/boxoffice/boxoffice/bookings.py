from sqlalchemy import select
from sqlalchemy.orm import Session

from boxoffice.models import Booking, Seat


class NoSuchSeat(Exception):
    pass


class SeatTaken(Exception):
    pass


def book_seat(session: Session, seat_id: int, email: str) -> Booking:
    seat = session.get(Seat, seat_id)
    if seat is None:
        raise NoSuchSeat(seat_id)
    taken = session.scalar(select(Booking.id).where(Booking.seat_id == seat.id, Booking.status == "confirmed").limit(1))
    if taken is not None:
        raise SeatTaken(seat.label)
    booking = Booking(seat_id=seat.id, email=email)
    session.add(booking)
    session.commit()
    return booking


def cancel_booking(session: Session, booking_id: int) -> Booking | None:
    booking = session.get(Booking, booking_id)
    if booking is not None:
        booking.status = "cancelled"
        session.commit()
    return booking
