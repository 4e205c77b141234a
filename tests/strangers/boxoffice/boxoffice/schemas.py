from datetime import datetime

from pydantic import BaseModel, ConfigDict


class ScreeningIn(BaseModel):
    film: str
    starts_at: datetime
    seats: list[str]


class SeatOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    label: str


class ScreeningOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    film: str
    starts_at: datetime
    seats: list[SeatOut]


class BookingIn(BaseModel):
    seat_id: int
    email: str


class BookingOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    seat_id: int
    status: str
