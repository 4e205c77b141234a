"""calls a schema hook on an empty database, says in plain words why it failed, and refuses one that built nothing there"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

from holdtrue.errors import Refused

_BOOKKEEPING = frozenset({"alembic_version", "django_migrations", "sqlite_sequence"})
_SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog", "mysql", "performance_schema", "sys"})
_UNDEFINED_OBJECT = "42704"
_NO_EXTENSION = frozenset({"0A000", "58P01"})
_FORBIDDEN = "42501"
_IN_A_TRANSACTION = "25001"
_LONGEST = 300


def build(schema: Callable[[str], object], url: str) -> object:
    """Call the hook with the URL of an empty database, and see that there are tables in it afterwards.

    Within an event loop the hook runs on a thread of its own: migrations call ``asyncio.run``, or are refused there.

    Raises:
        Refused: it built its schema elsewhere, or nothing; and whatever the hook raises.
    """
    __tracebackhide__ = True  # a failure here is the schema hook's
    made = _apart(schema, url) if _in_a_loop() else schema(url)
    if not _has_tables(url):
        close(made)
        raise Refused(
            "barrier_schema ran, and there is no table in the barrier database: it built its schema elsewhere, or nothing",
            remedy="let it use the URL that it is called with; where alembic's env.py takes its URL from a variable, name it: "
            'schema_from_alembic("alembic.ini", variable="DATABASE_URL")',
        )
    return made


def not_built(what: str, error: BaseException, remedy: str) -> Refused:
    """Why a schema was not built, in one line; what the server refused decides the remedy where it is known."""
    said = " ".join(str(error).splitlines()[:1]).strip()
    if len(said) > _LONGEST:
        said = said[: _LONGEST - 1] + "…"
    kind = type(error).__name__
    return Refused(f"{what}: {kind}{f': {said}' if said else ''}", remedy=_remedy_of(error) or remedy)


def _remedy_of(error: BaseException) -> str:
    for one in _chain(error):
        state = getattr(one, "sqlstate", None) or getattr(one, "pgcode", None)
        if state == _UNDEFINED_OBJECT and "role " in str(one):
            return "make the role, or write the file with pg_dump --schema-only --no-owner --no-privileges"
        if state in _NO_EXTENSION and "extension" in str(one):
            return "set HOLDTRUE_BARRIER_URL to a server that has this extension"
        if state == _FORBIDDEN:
            return "the login of HOLDTRUE_BARRIER_URL may not do this: give it the right, or another login"
        if state == _IN_A_TRANSACTION:
            return "a file is run in one transaction: leave out CONCURRENTLY, or build the schema by your migrations"
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        yield one
        original = getattr(one, "orig", None)  # SQLAlchemy keeps the driver's error there
        waiting += [one.__cause__, one.__context__, original if isinstance(original, BaseException) else None]


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _apart(schema: Callable[[str], object], url: str) -> object:
    made: list[object] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(schema(url))
        except BaseException as error:  # noqa: BLE001  raised again where it was asked for
            failed.append(error)

    thread = threading.Thread(target=run, name="holdtrue-schema")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _has_tables(url: str) -> bool:
    from sqlalchemy import create_engine, inspect  # the kit stays light: only a test that races needs SQLAlchemy
    from sqlalchemy.pool import NullPool

    engine = create_engine(url, poolclass=NullPool)
    try:
        found = inspect(engine)
        schemas: list[str | None] = [None]
        if engine.dialect.name == "postgresql":
            schemas = [one for one in found.get_schema_names() if one not in _SYSTEM_SCHEMAS]
        return any(set(found.get_table_names(schema=one)) - _BOOKKEEPING for one in schemas)
    finally:
        engine.dispose()


def close(made: Any) -> None:  # noqa: ANN401  whatever a user's hook returned
    """Close what a hook returned, if it can be closed."""
    ending = getattr(made, "close", None)
    if callable(ending):
        ending()
