import os

import django
import pytest

from holdtrue.testing import schema_from_django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()


@pytest.fixture
def barrier_schema():
    return schema_from_django()
