"""tells of an error whether a pool gave it: one that waited for a connection in vain"""

from __future__ import annotations

from collections.abc import Iterator

_WAITS = ("/asyncio/", "/asyncpg/compat.py", "/asyncpg/_asyncio_compat.py", "/async_timeout/")
_TOO_FEW = frozenset(
    {
        *(("psycopg_pool", "PoolTimeout"), ("psycopg_pool", "TooManyRequests"), ("sqlalchemy", "TimeoutError")),
        *(("dbutils", "TooManyConnections"), ("playhouse", "MaxConnectionsExceeded")),
    }
)


def gave_up(error: BaseException) -> bool:
    """Whether it says that a pool had no connection left, itself or by what caused it."""
    return any(_says_so(one) for one in _chain(error))


def _says_so(error: BaseException) -> bool:
    package, name = type(error).__module__.partition(".")[0].lower(), type(error).__name__
    if (package, name) in _TOO_FEW:
        return True
    if (package, name) == ("psycopg2", "PoolError"):
        return "exhausted" in str(error)  # the same class says that a pool is closed
    return isinstance(error, TimeoutError) and _raised_in(error).endswith("/asyncpg/pool.py")


def _raised_in(error: BaseException) -> str:
    """The innermost file of its traceback that only waits for another one."""
    found, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename.replace("\\", "/")
        if not any(part in name for part in _WAITS):
            found = name
        trace = trace.tb_next
    return found


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [cause for cause in (one.__cause__, one.__context__) if cause is not None]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
