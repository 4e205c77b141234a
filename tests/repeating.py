"""A plugin for pytest processes that tests start: every barrier test is played as often as BARRIER_REPEATS says."""

from __future__ import annotations

import os

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "barrier_db" in metafunc.fixturenames:
        metafunc.fixturenames.append("repeat")
        metafunc.parametrize("repeat", range(int(os.environ["BARRIER_REPEATS"])))
