from typing import Annotated

from fastapi import APIRouter, Depends
from sqlalchemy.orm import Session

from boxoffice.database import get_session
from boxoffice.models import Screening, Seat
from boxoffice.schemas import ScreeningIn, ScreeningOut

router = APIRouter(prefix="/screenings", tags=["screenings"])


@router.post("", status_code=201, response_model=ScreeningOut)
def create_screening(body: ScreeningIn, session: Annotated[Session, Depends(get_session)]):
    screening = Screening(film=body.film, starts_at=body.starts_at, seats=[Seat(label=one) for one in body.seats])
    session.add(screening)
    session.commit()
    return screening
