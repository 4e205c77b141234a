"""Which errors say that a pool had no connection left (semantics 9.5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdtrue.testing.pools import gave_up


def of(module: str, name: str, base: type[Exception] = Exception) -> type[Exception]:
    """A class of a library that is not installed here."""
    return type(name, (base,), {"__module__": module})


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (of("psycopg_pool.errors", "PoolTimeout")("couldn't get a connection after 0.50 sec"), True),
        (of("psycopg_pool.errors", "PoolClosed")("the pool is closed"), False),
        (of("sqlalchemy.exc", "TimeoutError")("QueuePool limit of size 1 overflow 0 reached"), True),
        (of("psycopg2.pool", "PoolError")("connection pool exhausted"), True),
        (of("psycopg2.pool", "PoolError")("connection pool is closed"), False),
        (TimeoutError("the provider took too long"), False),
        (TimeoutError(), False),
    ],
    ids=repr,
)
def test_an_error_of_a_pool_is_told_from_others_of_its_name(*, error: Exception, said: bool) -> None:
    assert gave_up(error) is said


def test_it_is_found_behind_the_error_that_a_framework_made_of_it() -> None:
    found = ConnectionError("no database")
    found.__cause__ = of("psycopg_pool", "PoolTimeout")()
    assert gave_up(found)
    assert gave_up(ExceptionGroup("tasks", [ValueError(), found]))
    assert not gave_up(ExceptionGroup("tasks", [ValueError()]))


def test_a_time_limit_that_ends_in_asyncpgs_pool_is_the_pools_and_one_of_a_query_is_not(tmp_path: Path) -> None:
    for file, said in (("asyncpg/pool.py", True), ("asyncpg/connection.py", False)):
        path = tmp_path / file
        code = compile("async def wait():\n    raise TimeoutError\n", str(path), "exec")
        names: dict[str, object] = {}
        exec(code, names)  # noqa: S102  a frame that says it stands in that file
        with pytest.raises(TimeoutError) as found:
            asyncio.run(asyncio.wait_for(names["wait"](), 1))  # type: ignore[operator]
        assert gave_up(found.value) is said
