import pytest
from boxoffice.database import SessionLocal


@pytest.fixture(autouse=True)
def sessions(barrier_db):
    SessionLocal.configure(bind=barrier_db.engine)
