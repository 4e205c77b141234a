"""how this process writes its log: one line for people, or one JSON object a line"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from holdtrue.settings import Settings

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_LIBRARIES = (
    "apscheduler",
    "uvicorn",
    "uvicorn.error",
    "uvicorn.access",
    "slack_sdk",
    "httpx2",
    "sqlalchemy",
    "alembic",
)


def configure_logging(settings: Settings) -> None:
    """Write our own events to standard error; of the libraries, warnings without their tracebacks.

    A traceback may carry a row's values or a URL with its password, so none is ever written.
    """
    last: Any = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=24)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _without_tracebacks,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.log_level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = _LibraryHandler()
    for name in _LIBRARIES:
        library = logging.getLogger(name)
        library.handlers, library.propagate = [handler], False
        library.setLevel(logging.WARNING)


class _LibraryHandler(logging.Handler):
    """Passes a library's warning on as the name of its logger and its level; its text may carry values."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event."""
        problem = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        structlog.get_logger(record.name).warning("library_warning", level_of=record.levelname, problem=problem)


def _without_tracebacks(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key in ("exc_info", "exception", "stack", "stack_info"):
        event.pop(key, None)
    return event
