"""what can be held and what cannot, in the words of a report"""

from __future__ import annotations

NOT_HELD = (
    "was a request refused before it came to the database, or a coroutine neither returned nor awaited? "
    "Held are statements through SQLAlchemy, Django, psycopg 3, psycopg2, sqlite3, PyMySQL and asyncpg; connections of "
    'psycopg2 and sqlite3 must be opened inside the party; all else, and other processes: hold="server"'
)
