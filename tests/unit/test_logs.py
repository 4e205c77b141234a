"""What reaches a log or a terminal beside our own words: never the text of a library or of a surprise."""

from __future__ import annotations

import subprocess
import sys

import pytest

MARKER = "marker-4711"

SPEAK = f"""
import logging, threading, warnings
def speak(arguments=()):
    for name in ("psycopg", "concurrent.futures", "asyncio", "httpcore2.http11", "uvicorn.error", "some.library", ""):
        logging.getLogger(name).warning("a row says %s", "{MARKER}")
        try:
            raise ValueError("{MARKER}")
        except ValueError:
            logging.getLogger(name).exception("a row says {MARKER}")
    warnings.warn("{MARKER}")
    thread = threading.Thread(target=int, args=("{MARKER}",), name="worker")
    thread.start()
    thread.join()
    return 0
"""

SERVE = """
from types import SimpleNamespace
from holdtrue.bootstrap.logs import configure_logging
configure_logging(SimpleNamespace(log_format={format!r}, log_level="debug"))
speak()
class Loud:
    def __del__(self):
        raise ValueError("marker-4711")
Loud()
import structlog
try:
    raise ValueError("marker-4711")
except ValueError:
    structlog.get_logger("holdtrue").exception("ours")
"""

COMMAND = """
import holdtrue.cli, holdtrue.cli.app
holdtrue.cli.app.invoke = speak
assert holdtrue.cli.run([]) == 0
"""


def said(script: str) -> str:
    """Everything that a process prints."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("format", ["text", "json"])
def test_no_log_line_of_serve_carries_the_text_of_a_library_or_of_a_surprise(format: str) -> None:
    """Design 7 and semantics 3.5: at debug level, from any logger, warning, thread or finaliser."""
    text = said(SPEAK + SERVE.format(format=format))
    assert MARKER not in text
    for expected in ("library_warning", "ValueError", "worker", "surprise_in_clean_up", "ours"):
        assert expected in text


def test_no_command_prints_the_text_of_a_library_or_of_a_threads_surprise() -> None:
    text = said(SPEAK + COMMAND)
    assert MARKER not in text
    assert "unexpected ValueError in a thread" in text
