"""asks PostgreSQL what it is and what the login may do"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from holdtrue.databases.facts import Clocks, Count, Link, PostgresFacts, read_clocks
from holdtrue.databases.freshness import silence_limit
from holdtrue.databases.postgresql_opening import read_setting
from holdtrue.databases.postgresql_wire import Stopped
from holdtrue.model import Row

_SHOWN: Final = 3

_SERVER: Final = """SELECT current_setting('server_version'), session_user::text,
 host(inet_server_addr()) || ':' || inet_server_port(),
 current_setting('track_commit_timestamp'), current_setting('max_standby_streaming_delay'),
 current_setting('wal_receiver_timeout')"""

_SENDER: Final = "SELECT w.status, w.sender_host || ':' || w.sender_port FROM pg_stat_get_wal_receiver() AS w"

_ENCRYPTION: Final = "SELECT concat_ws(' ', version, cipher) FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl"

_ATTRIBUTES: Final = """SELECT name FROM pg_roles AS r, LATERAL (VALUES ('superuser', rolsuper), ('createrole', rolcreaterole),
 ('createdb', rolcreatedb), ('replication', rolreplication), ('bypassrls', rolbypassrls)) AS a(name, has)
 WHERE r.rolname = session_user AND has"""

# Of the predefined roles alone: they have the lowest numbers.
_ROLES: Final = """SELECT rolname::text FROM pg_roles
 WHERE rolname LIKE 'pg\\_%' AND oid < 16384 AND pg_has_role(session_user, oid, 'MEMBER')"""

_OF_USERS: Final = (
    "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%'"
    " AND n.nspname NOT LIKE 'pg\\_temp\\_%'"
)
_TABLES: Final = f"""SELECT count(*) FILTER (WHERE has_any_column_privilege(c.oid, 'SELECT'))::text
 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {_OF_USERS}"""
_WRITABLE: Final = f"""n.nspname || '.' || c.relname AS name
 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE {_OF_USERS} AND CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, 'USAGE, UPDATE')
  WHEN 'r' THEN true WHEN 'p' THEN true WHEN 'v' THEN true WHEN 'f' THEN true ELSE false END
 AND (c.relkind = 'S' OR has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
  OR has_any_column_privilege(c.oid, 'INSERT, UPDATE'))"""
_OWNED: Final = f"""name FROM (
 SELECT n.nspname || '.' || c.relname AS name, c.relowner AS owner
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND {_OF_USERS}
 UNION ALL SELECT 'schema ' || n.nspname, n.nspowner FROM pg_namespace AS n WHERE {_OF_USERS}
 UNION ALL SELECT 'database ' || datname, datdba FROM pg_database WHERE datname = current_database()
 UNION ALL SELECT n.nspname || '.' || p.proname || '()', p.proowner
  FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE {_OF_USERS}) AS o
 WHERE pg_has_role(session_user, owner, 'USAGE')"""
_CREATES: Final = (
    f"n.nspname::text AS name FROM pg_namespace AS n WHERE {_OF_USERS} AND has_schema_privilege(n.oid, 'CREATE')"
)
# Those that nobody may call unless it was granted; what PUBLIC may call cannot be told apart by rights.
_FUNCTIONS: Final = """p.oid::regprocedure::text AS name FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
 JOIN pg_namespace AS n ON n.oid = p.pronamespace
 WHERE has_function_privilege(p.oid, 'EXECUTE') AND (
  (p.oid < 16384 AND p.proname IN ('pg_read_file', 'pg_read_binary_file', 'pg_ls_dir', 'pg_stat_file', 'lo_import', 'lo_export',
   'pg_promote', 'pg_wal_replay_pause', 'pg_wal_replay_resume', 'pg_switch_wal', 'pg_create_restore_point',
   'pg_reload_conf', 'pg_rotate_logfile', 'pg_stat_reset', 'pg_backup_start', 'pg_start_backup', 'pg_backup_stop',
   'pg_replication_origin_create', 'pg_log_backend_memory_contexts'))
  OR p.proname ~ '^dblink(_exec|_connect|_open|_send_query)?$'
  OR (NOT l.lanpltrusted AND l.lanname NOT IN ('internal', 'c', 'sql')))"""
_DEFINERS: Final = f"""p.oid::regprocedure::text AS name FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
 WHERE {_OF_USERS} AND p.prosecdef AND has_function_privilege(p.oid, 'EXECUTE')
 AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)"""


class Asks(Protocol):
    """The PostgreSQL link, as far as facts are read with it."""

    def query(self, sql: str, parameters: Sequence[str | None], *, limit: int, within: timedelta) -> list[Row]:
        """Rows of a statement of ours, as server text."""
        ...

    def savepoint(self, within: timedelta) -> AbstractContextManager[None]:
        """Within: whatever fails, the transaction is usable afterwards."""
        ...


def read_postgres_facts(link: Asks, reached: Link, within: timedelta) -> PostgresFacts:
    """Each question behind a savepoint of its own: what the login or the server does not allow is left out and named.

    Raises:
        Stopped: not even the first was answered.
    """
    missing: list[str] = []

    def rows(what: str, sql: str, limit: int = 100) -> list[Row]:
        try:
            with link.savepoint(within):
                return link.query(sql, (), limit=limit, within=within)
        except Stopped:
            missing.append(what)
            return []

    def count(what: str, source: str) -> Count:
        text = f"SELECT count(*)::text, to_json((array_agg(name ORDER BY name))[1:{_SHOWN}])::text FROM (SELECT {source}) AS x"
        found = rows(what, text)
        return _read_count(found[0]) if found else Count()

    with link.savepoint(within):
        version, login, address, commit_times, delay, timeout = link.query(_SERVER, (), limit=1, within=within)[0]
        clocks = _clocks(
            lambda: link.query("SELECT extract(epoch FROM clock_timestamp())::text", (), limit=1, within=within)
        )
    senders = rows("the WAL receiver", _SENDER)
    encrypted = rows("the connection's encryption", _ENCRYPTION)
    how = encrypted[0][0] if encrypted and not reached.pooled and reached.encryption else ""
    tables = rows("which tables may be read", _TABLES)
    schemas = rows("whether schemas may be made", "SELECT has_database_privilege(current_database(), 'CREATE')::text")
    return PostgresFacts(
        version=version or "",
        clocks=clocks,
        link=replace(reached, encryption=how or reached.encryption),
        login=login or "",
        address=address or "",
        sender=senders[0][1] if senders else None,
        # Without pg_monitor only the receiver's process is seen.
        receiver_visible=not senders or senders[0][0] is not None,
        attributes=frozenset(one[0] or "" for one in rows("the login's attributes", _ATTRIBUTES)),
        roles=frozenset(one[0] or "" for one in rows("the login's roles", _ROLES)),
        readable=int(tables[0][0] or 0) if tables else 0,
        writable=count("which tables may be written", _WRITABLE),
        owned=count("what the login owns", _OWNED),
        creates_in=count("where tables may be made", _CREATES),
        creates_schemas=bool(schemas) and schemas[0][0] == "true",
        functions=count("which dangerous functions may be called", _FUNCTIONS),
        definers=count("which SECURITY DEFINER functions may be called", _DEFINERS),
        commit_times=commit_times == "on",
        conflict_delay=delay or "",
        silence=silence_limit(read_setting(timeout or "1min")),
        missing=tuple(missing),
    )


def _clocks(read: Callable[[], list[Row]]) -> Clocks:
    return read_clocks(lambda: datetime.fromtimestamp(float(read()[0][0] or 0), UTC))


def _read_count(row: Row) -> Count:
    names = json.loads(row[1]) if row[1] else []
    return Count(int(row[0] or 0), tuple(str(one) for one in names))
