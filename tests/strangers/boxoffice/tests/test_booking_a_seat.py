from datetime import UTC, datetime

import pytest
from boxoffice.bookings import SeatTaken, book_seat, cancel_booking
from boxoffice.database import Base
from boxoffice.models import Screening, Seat
from sqlalchemy import StaticPool, create_engine
from sqlalchemy.orm import Session


@pytest.fixture
def session():
    engine = create_engine("sqlite://", poolclass=StaticPool)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(
            Screening(film="Stalker", starts_at=datetime(2026, 12, 24, 20, tzinfo=UTC), seats=[Seat(label="A1")])
        )
        session.commit()
        yield session
    engine.dispose()


def test_a_seat_is_sold_once(session):
    assert book_seat(session, 1, "ada@example.com").status == "confirmed"
    with pytest.raises(SeatTaken):
        book_seat(session, 1, "bob@example.com")


def test_a_cancelled_seat_is_sold_again(session):
    first = book_seat(session, 1, "ada@example.com")
    cancel_booking(session, first.id)
    assert book_seat(session, 1, "bob@example.com").id != first.id
