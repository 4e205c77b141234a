"""the exit codes, and which of several wins"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """What a command tells the shell.

    ``COULD_NOT_LOOK`` is not good news: a pipeline that treats 3 as success has not looked.
    """

    HOLDS = 0
    VIOLATED = 1
    REFUSED = 2
    COULD_NOT_LOOK = 3
    FAILED = 4


INTERRUPTED = 130
"""Ended by Ctrl-C, as shells write it; no verdict."""

_PRECEDENCE = (ExitCode.REFUSED, ExitCode.VIOLATED, ExitCode.COULD_NOT_LOOK, ExitCode.FAILED)


def worst(codes: Iterable[int]) -> ExitCode:
    """The one code for several: 2 before 1 before 3 before 4; 0 only if there is nothing else.

    Raises:
        ValueError: one of them is no exit code of ours.
    """
    seen = {ExitCode(code) for code in codes}
    return next((code for code in _PRECEDENCE if code in seen), ExitCode.HOLDS)
