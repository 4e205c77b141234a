import pytest
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import create_async_engine
from stockroom.db import SessionLocal


@pytest.fixture(autouse=True)
def sessions(barrier_db):
    SessionLocal.configure(bind=create_async_engine(barrier_db.url_for("asyncpg"), poolclass=NullPool))
