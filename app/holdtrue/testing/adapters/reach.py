"""what can be held and what cannot, in the words of a report"""

from __future__ import annotations

import gc
import sys
from typing import Any

HELD = "_holdtrue_held"
"""The mark of a class of ours over a driver's: what its connections send is seen."""

NOT_HELD = (
    "was a request refused before it came to the database, or a coroutine neither returned nor awaited? "
    "Held are statements through SQLAlchemy, Django, psycopg 3, psycopg2, sqlite3, PyMySQL and asyncpg; connections of "
    "psycopg2 and sqlite3 must be opened inside the party, by the connect() of the module itself; all else, and other "
    'processes: hold="server"'
)
_TYPES = {"psycopg2": ("psycopg2.extensions", "connection"), "sqlite3": ("sqlite3", "Connection")}
_ABOVE = ("sqlalchemy.", "django.", "aiosqlite.", "holdtrue.testing.")
_OF_ABOVE = ("dbapi_connection", "execute_wrappers", "_baseline")


def nothing_seen() -> str:
    """Why a party of which no statement was seen was not tested, and what helps."""
    return f"sent no statement that could be held: nothing was tested ({_opened_before()}{NOT_HELD})"


def _opened_before() -> str:
    """Names the drivers that have a connection open of a class that nobody could change; empty if none has."""
    kinds = {driver: getattr(sys.modules.get(module), name, None) for driver, (module, name) in _TYPES.items()}
    found = [
        driver
        for driver, kind in kinds.items()
        if isinstance(kind, type) and any(isinstance(one, kind) and _is_unseen(one) for one in gc.get_objects())
    ]
    if not found:
        return ""
    return (
        f"there is a connection of {' and of '.join(found)} that was opened before the race or before this kit was loaded, and "
        "what it sends cannot be seen: open it inside the party. Or "
    )


def _is_unseen(connection: Any) -> bool:
    if getattr(type(connection), HELD, False) or getattr(connection, "closed", False):
        return False
    return not any(_is_above(one) for one in gc.get_referrers(connection))


def _is_above(owner: object) -> bool:
    """Whether a layer has it whose own statements are seen, or the kit itself."""
    if isinstance(owner, dict):
        return any(name in owner for name in _OF_ABOVE)
    return f"{type(owner).__module__}.".startswith(_ABOVE)
