"""finds where threads and tasks stand in the user's own code"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

_NOT_THEIRS = ("/holdtrue/testing/", "/site-packages/", "/dist-packages/")
_STANDARD_LIBRARY = sysconfig.get_path("stdlib").replace("\\", "/") + "/"
_POOLS = ("/sqlalchemy/util/queue.py", "/asyncpg/pool.py", "/psycopg_pool/pool.py", "/psycopg_pool/pool_async.py")
_DRIVERS = ("/sqlalchemy/", "/asyncpg/", "/psycopg/", "/aiosqlite/")


def in_their_code(frames: Iterable[FrameType]) -> str:
    """The first frame of the user's own code: ``refunds.py:33 in issue_refund``; empty if there is none."""
    for frame in frames:
        if _is_theirs(frame):
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    return ""


def raised_in(error: BaseException) -> str:
    """The same for where an error came from: the innermost frame of the user's own code."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if _is_theirs(frame):
            return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    return ""


def in_a_pool(frames: Iterable[FrameType]) -> bool:
    """Whether somebody there waits for a connection of a pool."""
    return any(_file(frame).endswith(_POOLS) for frame in frames)


def in_a_driver(frames: Iterable[FrameType]) -> bool:
    """Whether somebody there connects, asks or closes, and so will be heard of soon."""
    names = [_file(frame) for frame in frames]
    return any(part in name for name in names for part in _DRIVERS) and not any(name.endswith(_POOLS) for name in names)


def of_thread(ident: int | None) -> Iterator[FrameType]:
    """The frames of a thread, the innermost first."""
    yield from outwards(None if ident is None else sys._current_frames().get(ident))


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame, and those below it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def of_task(task: asyncio.Task[Any]) -> list[FrameType]:
    """The frames in which a sleeping task waits, the innermost first; those of SQLAlchemy's greenlets among them."""
    found: list[FrameType] = []
    waits: Any = task.get_coro()
    while waits is not None:
        frame, waits = _step(waits)
        if frame is None:
            break
        found.append(frame)
        below = frame.f_locals
        if frame.f_code.co_name == "greenlet_spawn":
            inner = list(outwards(getattr(below.get("context"), "gr_frame", None)))
            found.extend(reversed(inner))
        elif frame.f_code.co_name in ("__aenter__", "__aexit__") and hasattr(below.get("self"), "gen"):
            waits = below["self"].gen  # an ``asynccontextmanager``, whose generator is not shown as awaited
    return found[::-1]


def _step(waits: object) -> tuple[FrameType | None, Any]:
    for kind, inner in (("cr", "cr_await"), ("ag", "ag_await"), ("gi", "gi_yieldfrom")):
        if hasattr(waits, f"{kind}_frame"):
            return getattr(waits, f"{kind}_frame"), getattr(waits, inner)
    return None, None


def _is_theirs(frame: FrameType) -> bool:
    name = _file(frame)
    # Compiled code names its file as it was called where the library was built; where it was loaded from is known besides.
    loaded_from = str(frame.f_globals.get("__file__") or "").replace("\\", "/")
    if name.startswith(("<", _STANDARD_LIBRARY)) or any(
        part in one for one in (name, loaded_from) for part in _NOT_THEIRS
    ):
        return False
    return Path(name).is_absolute() or Path(name).exists()


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename.replace("\\", "/")
