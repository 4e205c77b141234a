"""how this process writes its log: one line for people, or one JSON object a line"""

from __future__ import annotations

import logging
import sys
import threading
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
    "httpcore2",
    "httpx2",
    "sqlalchemy",
    "alembic",
)


def configure_logging(settings: Settings) -> None:
    """Write our own events to standard error; of everything else, that something was wrong and where, not what it said.

    A library's text or a traceback may carry a row's values or a URL with its password, so none is ever written: not of a
    library that nobody has thought of, and not of a thread that dies of a surprise.
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
        library.handlers, library.propagate = [], True
        library.setLevel(logging.WARNING)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    threading.excepthook = _thread_died
    sys.unraisablehook = _could_not_be_raised


def _thread_died(died: threading.ExceptHookArgs) -> None:
    name = died.thread.name if died.thread is not None else ""
    structlog.get_logger("holdtrue").error("surprise_in_thread", thread=name, problem=died.exc_type.__name__)


def _could_not_be_raised(surprise: Any) -> None:  # noqa: ANN401  the interpreter's own type has no name
    structlog.get_logger("holdtrue").warning("surprise_in_clean_up", problem=surprise.exc_type.__name__)


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
