"""keeps the log out of a person's answers"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def no_log() -> Iterator[None]:
    """Within: no log line between the answers; what it would say of a replica is in them."""
    former = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**former)
