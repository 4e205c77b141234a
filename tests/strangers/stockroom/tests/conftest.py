import pytest

from holdtrue.testing import schema_from_alembic


@pytest.fixture
def barrier_schema():
    return schema_from_alembic("alembic.ini")
