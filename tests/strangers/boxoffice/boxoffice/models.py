from datetime import datetime

from sqlalchemy import DateTime, ForeignKey, Index, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column, relationship

from boxoffice.database import Base


class Screening(Base):
    __tablename__ = "screenings"

    id: Mapped[int] = mapped_column(primary_key=True)
    film: Mapped[str]
    starts_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))

    seats: Mapped[list["Seat"]] = relationship(back_populates="screening", order_by="Seat.id")


class Seat(Base):
    __tablename__ = "seats"
    __table_args__ = (UniqueConstraint("screening_id", "label"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    screening_id: Mapped[int] = mapped_column(ForeignKey("screenings.id"))
    label: Mapped[str]

    screening: Mapped[Screening] = relationship(back_populates="seats")


class Booking(Base):
    __tablename__ = "bookings"
    __table_args__ = (Index("ix_bookings_seat_id", "seat_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    seat_id: Mapped[int] = mapped_column(ForeignKey("seats.id"))
    email: Mapped[str]
    status: Mapped[str] = mapped_column(default="confirmed")
    booked_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
