"""a barrier database on PostgreSQL: set back row by row, and loaded with untyped text"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdtrue.errors import MissingInstallSet
from holdtrue.model import Row, TableRows
from holdtrue.testing.controls import Refusal
from holdtrue.testing.postgresql_blocking import PostgresBlocking
from holdtrue.testing.verdicts import BadSeed, LeftOpen

if TYPE_CHECKING:
    import psycopg

_PINNED = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex -c extra_float_digits=1 -c lc_monetary=C "
    "-c lock_timeout=3s -c statement_timeout=60s"
)
_BASELINE = "holdtrue_baseline"
_OURS = f"'{_BASELINE}', 'holdtrue_hold'"
_NOT_NULL = "23502"
_SMALL = 1 << 20
_TABLES = f"""
SELECT c.oid::int8, n.nspname, c.relname, EXISTS (
         SELECT 1 FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal),
       pg_catalog.pg_relation_size(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', {_OURS}) AND n.nspname !~ '^pg_'
  AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d
                  WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY c.oid
"""
# A domain's type is the one that it stands on: its times move with the clock like others.
_COLUMNS = """
SELECT a.attname, (
         WITH RECURSIVE base(oid, kind, below) AS (
           SELECT t.oid, t.typtype, t.typbasetype
           UNION ALL SELECT n.oid, n.typtype, n.typbasetype FROM base b JOIN pg_catalog.pg_type n ON n.oid = b.below
             WHERE b.kind = 'd'
         ) SELECT format_type(oid, NULL) FROM base WHERE kind <> 'd'
       ), a.attgenerated <> '', a.attidentity = 'a', COALESCE((
         SELECT a.attnum = ANY (i.indkey::int2[]) FROM pg_catalog.pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary
       ), false), a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', t.typname
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s::int8::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_REFERENCES = (
    "SELECT conrelid::int8, confrelid::int8 FROM pg_catalog.pg_constraint WHERE contype = 'f' AND conrelid <> confrelid"
)
# Owned by a column, made for its identity, or named by its default without being owned.
_COUNTERS = """
SELECT DISTINCT a.attname, s.oid::regclass::text
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class s ON s.relkind = 'S' JOIN pg_catalog.pg_depend d ON true
LEFT JOIN pg_catalog.pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
WHERE a.attrelid = %s::int8::oid AND a.attnum > 0 AND NOT a.attisdropped AND (
  (d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.refclassid = 'pg_class'::regclass
   AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype IN ('a', 'i'))
  OR (d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid = s.oid))
ORDER BY 1
"""
_READABLE = """
SELECT c.oid::int8 FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'p')
  AND has_schema_privilege(c.relnamespace, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
"""
_WRITING_FUNCTIONS = """
SELECT 1 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE lower(p.proname) = ANY (%s::text[]) AND p.provolatile = 'v' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
LIMIT 1
"""
_SEQUENCES = (
    "SELECT schemaname, sequencename, last_value, start_value FROM pg_catalog.pg_sequences "
    f"WHERE schemaname NOT IN ({_OURS})"
)


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type_name: str
    generated: bool
    always: bool
    primary: bool
    required: bool
    bare_type: str


@dataclass(frozen=True, slots=True)
class _Table:
    oid: int
    schema: str
    name: str
    triggers: bool
    size: int

    @property
    def quoted(self) -> str:
        return f"{_quoted(self.schema)}.{_quoted(self.name)}"


class PostgresControl:
    """Sets back, loads and asks one database of a PostgreSQL server."""

    engine = "postgresql"

    def __init__(self, url: str) -> None:
        """``url`` is a libpq URL; the login owns the database."""
        self._url = url
        self._connection = connect(url)
        self._baseline: list[tuple[_Table, str, str]] = []
        self._sequences: list[tuple[Any, ...]] = []
        self._blocking: PostgresBlocking | None = None

    def keep_baseline(self) -> None:
        """Copy what stands in the tables now into a schema of our own, in the order in which it can be put back."""
        run = self._connection.execute
        run(f"DROP SCHEMA IF EXISTS {_BASELINE} CASCADE")
        run(f"CREATE SCHEMA {_BASELINE}")
        self._baseline = []
        for number, table in enumerate(self._parents_first(self._filled())):
            copy = f"{_BASELINE}.t{number}"
            run(f"CREATE TABLE {copy} AS TABLE {table.quoted}".encode())
            names = ", ".join(_quoted(one.name) for one in self._columns(table.oid) if not one.generated)
            self._baseline.append((table, copy, names))
        self._sequences = run(_SEQUENCES).fetchall()

    def set_back(self) -> None:
        """Empty what is filled, put the baseline back, and set every sequence as it was.

        Raises:
            LeftOpen: a transaction of the code under test still holds a table.
        """
        from psycopg import errors  # the driver is there: we are connected

        run = self._connection.execute
        try:
            with self._connection.transaction():
                self._empty(self._filled())
                run("SET CONSTRAINTS ALL DEFERRED")
                with self._without_triggers([table for table, _, _ in self._baseline]):
                    for table, copy, names in self._baseline:
                        run(
                            f"INSERT INTO {table.quoted} ({names}) OVERRIDING SYSTEM VALUE "
                            f"SELECT {names} FROM {copy}".encode()
                        )
                for schema, name, last, start in self._sequences:
                    run(
                        "SELECT setval(format('%%I.%%I', %s::text, %s::text)::regclass, %s, %s)",
                        (schema, name, start if last is None else last, last is not None),
                    )
        except errors.LockNotAvailable as error:
            raise LeftOpen(
                "a table cannot be set back: the code under test left a transaction open (close its session or connection)"
            ) from error

    def put(self, tables: Sequence[TableRows], *, shift_from: str = "") -> Refusal | None:
        """Load rows, all or none; see :class:`holdtrue.testing.controls.Control`."""
        import psycopg  # the driver is there: we are connected

        table = ""
        loaded: list[_Table] = []
        known: dict[str, _Column] = {}
        given: tuple[str, ...] = ()
        cells: Row = ()
        try:
            with self._connection.transaction():
                self._connection.execute("SET CONSTRAINTS ALL DEFERRED")
                targets = {one.table: self._find(one.table) for one in tables}
                missing = [name for name, target in targets.items() if target is None]
                if missing:
                    return Refusal(f"there is no table {', '.join(missing)}")
                order = self._parents_first([target for target in targets.values() if target is not None])
                for target, one in sorted(
                    ((target, one) for one in tables if (target := targets[one.table]) is not None),
                    key=lambda pair: order.index(pair[0]),
                ):
                    table, given = one.table, one.columns
                    known = {column.name: column for column in self._columns(target.oid)}
                    gone = [name for name in given if name not in known]
                    if gone:
                        return Refusal(f"{table} has no column {', '.join(gone)}")
                    loaded.append(target)
                    with self._without_triggers([target]):
                        text, places = _insert(target, known, given, shift_from)
                        for cells in one.rows:
                            row = cells
                            self._connection.execute(text.encode(), [row[place] for place in places])
                table = ""
                self._connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                for target in loaded:
                    self._advance_sequences(target)
        except psycopg.errors.IntegrityError as error:
            return _refused(error, table, given, cells, known)
        except psycopg.Error as error:
            return Refusal(
                f"{table or 'a table'}: the server refused a row with SQLSTATE {error.sqlstate or 'unknown'}"
            )
        return None

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        """All rows of the text, byte for byte and without parameters.

        Raises:
            BadSeed: the text does not run on this schema.
        """
        import psycopg  # the driver is there: we are connected

        try:
            return list(self._connection.execute(sql.encode()).fetchall())
        except psycopg.Error as error:
            raise BadSeed(
                f"the invariant's text does not run on this schema (SQLSTATE {error.sqlstate or 'unknown'})"
            ) from error

    def content(self, tables: Sequence[str] | None = None) -> str:
        """A hash of all that stands in these tables, or in every one that this login may read."""
        wanted = self._readable() if tables is None else [one for one in map(self._find, tables) if one is not None]
        found = [target.quoted for target in wanted]
        parts = [
            str(
                self._connection.execute(
                    f"SELECT count(*) || md5(coalesce(string_agg(t::text, '|' ORDER BY t::text COLLATE \"C\"), '')) "
                    f"FROM {name} t".encode()
                ).fetchone()
            )
            for name in found
        ]
        return "\n".join([*(found if tables is None else ()), *parts])

    def may_write(self, calls: Collection[str]) -> bool:
        """Whether one of these is a function that is not declared to leave all as it is."""
        return self._connection.execute(_WRITING_FUNCTIONS, (list(calls),)).fetchone() is not None

    def dangling(self) -> frozenset[tuple[str, str]]:
        """None: the server refuses such a row itself."""
        return frozenset()

    def blocking(self) -> PostgresBlocking:
        """Asks ``pg_blocking_pids``, on one connection of its own."""
        if self._blocking is None:
            self._blocking = PostgresBlocking(connect(self._url))
        return self._blocking

    def connect(self) -> psycopg.Connection[Any]:
        """A further session of ours; whoever asks for it closes it."""
        return connect(self._url)

    def close(self) -> None:
        """Close every connection of ours."""
        if self._blocking is not None:
            self._blocking.close()
        self._connection.close()

    def _empty(self, tables: list[_Table]) -> None:
        """Delete a few rows, children first; truncate where there are many, or where tables refer to each other in a ring.

        Truncating makes new files for every table, which takes longer than all the rest of a schedule.
        """
        from psycopg import errors  # the driver is there: we are connected

        if all(table.size <= _SMALL for table in tables):
            try:
                with self._connection.transaction(), self._without_triggers(tables):
                    for table in reversed(self._parents_first(tables)):
                        self._connection.execute(f"DELETE FROM {table.quoted}".encode())
            except errors.IntegrityError:
                pass
            else:
                return
        names = ", ".join(table.quoted for table in tables)
        self._connection.execute(f"TRUNCATE {names} CASCADE".encode())

    def _filled(self) -> list[_Table]:
        tables = self._tables()
        if not tables:
            return []
        text = " UNION ALL ".join(f"SELECT {one.oid} WHERE EXISTS (SELECT 1 FROM {one.quoted})" for one in tables)
        filled = {row[0] for row in self._connection.execute(text.encode()).fetchall()}
        return [one for one in tables if one.oid in filled]

    def _readable(self) -> list[_Table]:
        readable = {row[0] for row in self._connection.execute(_READABLE).fetchall()}
        return [one for one in self._tables() if one.oid in readable]

    def _tables(self) -> list[_Table]:
        return [_Table(*row) for row in self._connection.execute(_TABLES).fetchall()]

    def _columns(self, oid: int) -> list[_Column]:
        return [_Column(*row) for row in self._connection.execute(_COLUMNS, (oid,)).fetchall()]

    def _find(self, name: str) -> _Table | None:
        """The table of this name: as the search path finds it, else as ``schema.table``."""
        path = self._connection.execute("SELECT current_schemas(false)").fetchone()
        order = list(path[0]) if path else []
        tables = self._tables()
        for schema in order:
            for one in tables:
                if (one.schema, one.name) == (schema, name):
                    return one
        return next((one for one in tables if f"{one.schema}.{one.name}" == name), None)

    def _parents_first(self, tables: list[_Table]) -> list[_Table]:
        wanted = {one.oid: one for one in tables}
        parents: dict[int, set[int]] = {oid: set() for oid in wanted}
        for child, parent in self._connection.execute(_REFERENCES).fetchall():
            if child in wanted and parent in wanted:
                parents[child].add(parent)
        ordered: list[_Table] = []
        while parents:
            # A cycle has no first: take any; its constraints must then be deferrable, or the server will say so.
            free = [oid for oid, above in parents.items() if not above & parents.keys()] or [next(iter(parents))]
            for oid in free:
                ordered.append(wanted[oid])
                del parents[oid]
        return ordered

    @contextlib.contextmanager
    def _without_triggers(self, tables: Sequence[_Table]) -> Iterator[None]:
        """Rows carry what triggers made of them already; constraints stay on."""
        quiet = [table.quoted for table in tables if table.triggers]
        for name in quiet:
            self._connection.execute(f"ALTER TABLE {name} DISABLE TRIGGER USER".encode())
        yield
        if quiet:
            self._connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for name in quiet:
            self._connection.execute(f"ALTER TABLE {name} ENABLE TRIGGER USER".encode())

    def _advance_sequences(self, table: _Table) -> None:
        """Without this the code's first INSERT meets a key that the loaded rows hold."""
        for name, sequence in self._connection.execute(_COUNTERS, (table.oid,)).fetchall():
            largest = f"SELECT max({_quoted(name)}) FROM {table.quoted}"
            # Never back: two tables may share one.
            reached = "CASE WHEN is_called THEN last_value + 1 ELSE last_value END"
            self._connection.execute(
                f"SELECT setval(%s::text::regclass, greatest(({_escaped(largest)}) + 1, {reached}), false)"
                f" FROM {_escaped(sequence)}".encode(),
                (sequence,),
            )


def connect(url: str) -> psycopg.Connection[Any]:
    """A connection of ours, with the settings under which the frozen text was written.

    Raises:
        MissingInstallSet: psycopg is not installed.
    """
    try:
        import psycopg  # only a test that uses PostgreSQL needs its driver
    except ImportError as error:
        raise MissingInstallSet(
            "a barrier database on PostgreSQL needs psycopg 3", remedy="pip install 'holdtrue[cli]'"
        ) from error
    return psycopg.connect(url, autocommit=True, options=_PINNED, application_name="holdtrue-barrier")


def _insert(
    table: _Table, known: Mapping[str, _Column], given: tuple[str, ...], shift_from: str
) -> tuple[str, list[int]]:
    """The INSERT with one untyped parameter a cell, so that the column's own input function reads the text."""
    places = [place for place, name in enumerate(given) if not known[name].generated]
    names = [given[place] for place in places]
    values = [_value(known[name].type_name, shift_from) for name in names]
    text = (
        f"INSERT INTO {_escaped(table.quoted)} ({', '.join(_escaped(_quoted(name)) for name in names)}) "
        f"OVERRIDING SYSTEM VALUE VALUES ({', '.join(values)})"
    )
    primary = [column.name for column in known.values() if column.primary]
    if primary and all(name in names for name in primary):
        others = [name for name in names if name not in primary and not known[name].always]
        pairs = ", ".join(f"{_escaped(_quoted(name))} = EXCLUDED.{_escaped(_quoted(name))}" for name in others)
        action = f"DO UPDATE SET {pairs}" if pairs else "DO NOTHING"
        text += f" ON CONFLICT ({', '.join(_escaped(_quoted(name)) for name in primary)}) {action}"
    return text, places


def _value(type_name: str, shift_from: str) -> str:
    if not shift_from or not (type_name == "date" or type_name.startswith("timestamp")):
        return "%s"
    moment = _escaped(_literal(shift_from))
    if type_name == "date":
        return f"(%s::date + (current_date - {moment}::timestamptz::date))"
    return f"(%s::{type_name} + (now() - {moment}::timestamptz))"


def _refused(
    error: psycopg.Error, table: str, given: tuple[str, ...], cells: Row, known: Mapping[str, _Column]
) -> Refusal:
    diagnosis = error.diag
    where = diagnosis.table_name or table
    if error.sqlstate == _NOT_NULL and diagnosis.datatype_name and not diagnosis.column_name:
        name = f"NOT NULL of the type {diagnosis.datatype_name}"
        return Refusal(f"NOT NULL of {_of_type(diagnosis.datatype_name, table, given, known)}", constraint=name)
    if error.sqlstate == _NOT_NULL:
        column = diagnosis.column_name or ""
        if column not in given or cells[given.index(column)] is not None:
            return Refusal(
                f"{where}.{column} wants a value that the captured rows do not have (give it a default, or say it: "
                f'load_incident(…, added={{"{table or where}.{column}": …}}))'
            )
        return Refusal(f"{where}.{column} refuses NULL", constraint=f"NOT NULL of {where}.{column}")
    name = diagnosis.constraint_name or f"SQLSTATE {error.sqlstate}"
    if diagnosis.datatype_name and not diagnosis.table_name:
        return Refusal(
            f"constraint {name} of {_of_type(diagnosis.datatype_name, table, given, known)}", constraint=name
        )
    return Refusal(f"constraint {name} of {where} refuses a row", constraint=name)


def _of_type(name: str, table: str, given: tuple[str, ...], known: Mapping[str, _Column]) -> str:
    """A domain's refusal: it names the type and no column."""
    columns = [one for one in given if one in known and known[one].bare_type == name]
    where = " or ".join(f"{table}.{one}" for one in columns) or table
    return f"the type {name} refuses a value of {where}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escaped(text: str) -> str:
    """For a statement with parameters, in which the driver reads percent signs."""
    return text.replace("%", "%%")
