"""the commands: one module per noun, no logic"""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdtrue.cli.exits import INTERRUPTED, ExitCode
from holdtrue.cli.installed import missing_install_set
from holdtrue.cli.terminal import complain, visible
from holdtrue.errors import CatalogRefused, HoldtrueError, NotTried

__all__ = ["main", "run"]


def main() -> None:
    """What the ``holdtrue`` command calls."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code; no exception gets out but ``SystemExit`` of shell completion.

    With ``HOLDTRUE_DEBUG=1`` a surprise shows its traceback, which may carry row values; without, one line.
    """
    try:
        # typer belongs to the `cli` set: its absence is an answer, not a traceback.
        from holdtrue.cli.app import invoke

        with _nothing_said_by_others():
            return invoke(list(arguments))
    except ModuleNotFoundError as problem:
        refusal = missing_install_set(problem)
        return _report(refusal) if refusal else _surprise(problem)
    except HoldtrueError as problem:
        return _report(problem)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone, and the answer with it: closing quietly, yet never as "holds".
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  lives until the process ends
        return int(ExitCode.FAILED)
    except Exception as problem:  # noqa: BLE001  the last line of defence
        return _surprise(problem)


@contextmanager
def _nothing_said_by_others() -> Iterator[None]:
    """Within: what a library logs, warns of, or dies of in a thread is not printed; its text may carry row values."""
    if os.environ.get("HOLDTRUE_DEBUG") == "1":
        yield
        return
    former, hook, show = logging.lastResort, threading.excepthook, warnings.showwarning
    logging.lastResort = logging.NullHandler()
    warnings.showwarning = lambda *_, **__: None
    threading.excepthook = lambda died: complain(
        f"holdtrue: unexpected {died.exc_type.__name__} in a thread (HOLDTRUE_DEBUG=1 shows the traceback)"
    )
    try:
        yield
    finally:
        logging.lastResort, threading.excepthook, warnings.showwarning = former, hook, show


def _report(problem: HoldtrueError) -> int:
    if isinstance(problem, CatalogRefused):
        for one in problem.problems:
            complain(visible(str(one)))
    if isinstance(problem, NotTried):
        for line in (f"holdtrue: {visible(problem.message)}", *(f"  - {visible(way)}" for way in problem.ways)):
            complain(line)
        return problem.exit_code
    complain(f"holdtrue: {visible(str(problem))}")
    return problem.exit_code


def _surprise(problem: Exception) -> int:
    if os.environ.get("HOLDTRUE_DEBUG") == "1":
        import traceback  # only for a person who asked

        complain(visible("".join(traceback.format_exception(problem)), keep_newlines=True))
    # The exception's own text may carry a row's values or a URL with its password: its type is enough for one line.
    complain(
        f"holdtrue: unexpected {type(problem).__name__} (HOLDTRUE_DEBUG=1 shows the traceback; it may show row values)"
    )
    return int(ExitCode.FAILED)
