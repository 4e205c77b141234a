"""describes PostgreSQL tables: their columns and keys, and the DDL that a reader or a rehearsal needs"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from holdtrue.databases.describing import Described
from holdtrue.model import Row
from holdtrue.model.table_names import name_parts


class Asking(Protocol):
    """What a description needs of a connection."""

    schema_cache: dict[Any, Any]

    def query(self, sql: str, parameters: Sequence[str | None], *, limit: int, within: timedelta) -> list[Row]:
        """Rows of a statement of ours."""
        ...


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A reference to a parent: ``parent`` is its oid as text."""

    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table as evidence needs it.

    ``name`` is how an invariant would write it: with its schema only where the search path does not reach. Columns that
    the server computes (GENERATED … STORED) are left out: they cannot be written back, and come back by themselves.
    A column of a domain has the type that the domain stands on, which alone says what its values look like.
    """

    oid: int
    name: str
    reference: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...]


def quote(identifier: str) -> str:
    """An identifier, quoted whatever it holds."""
    return '"' + identifier.replace('"', '""') + '"'


_ROWS = 10_000

_RELATION = """SELECT c.oid::text, n.nspname, c.relname, pg_table_is_visible(c.oid)::text, c.relkind::text
 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = """

# citext may lie in any schema, of which the search path need not know.
_COLUMNS = """WITH RECURSIVE base(number, name, generated, oid, modifier) AS (
 SELECT a.attnum, a.attname, a.attgenerated, a.atttypid, a.atttypmod FROM pg_attribute a
  WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
 UNION ALL SELECT b.number, b.name, b.generated, t.typbasetype, t.typtypmod
  FROM base b JOIN pg_type t ON t.oid = b.oid WHERE t.typtype = 'd')
 SELECT b.name, CASE WHEN t.typname = 'citext' THEN 'citext' ELSE format_type(b.oid, b.modifier) END, b.generated::text
 FROM base b JOIN pg_type t ON t.oid = b.oid WHERE t.typtype <> 'd' ORDER BY b.number"""

_FOREIGN = """SELECT k.confrelid::text,
 (SELECT json_agg(a.attname ORDER BY p.place) FROM unnest(k.conkey) WITH ORDINALITY AS p(number, place)
  JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = p.number)::text,
 (SELECT json_agg(a.attname ORDER BY p.place) FROM unnest(k.confkey) WITH ORDINALITY AS p(number, place)
  JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = p.number)::text
 FROM pg_constraint k WHERE k.conrelid = $1::oid AND k.contype = 'f' ORDER BY k.conname"""


def find_table(asking: Asking, written: str, within: timedelta) -> Table | None:
    """The table that a catalog wrote as ``refunds``, ``sales.orders`` or ``Order Lines``, or an oid as digits."""
    cached = asking.schema_cache.get(("table", written))
    if cached is not None:
        return cached if isinstance(cached, Table) else None
    found = _find(asking, written, within)
    asking.schema_cache[("table", written)] = found if found is not None else "absent"
    return found


def _find(asking: Asking, written: str, within: timedelta) -> Table | None:
    if written.isdecimal():
        answer = asking.query(_RELATION + "$1::oid", [written], limit=1, within=within)
    else:
        answer = []
        for spelling in _spellings(written):
            answer = asking.query(_RELATION + "to_regclass($1)::oid", [spelling], limit=1, within=within)
            if answer:
                break
    if not answer:
        return None
    oid, schema, name, visible, kind = (cell or "" for cell in answer[0])
    if kind not in ("r", "p", "f"):
        return None
    columns = asking.query(_COLUMNS, [oid], limit=_ROWS, within=within)
    stored = [(name or "", type_name or "") for name, type_name, generated in columns if generated != "s"]
    foreign = asking.query(_FOREIGN, [oid], limit=_ROWS, within=within)
    return Table(
        oid=int(oid),
        name=name if visible == "true" else f"{schema}.{name}",
        reference=f"{quote(schema)}.{quote(name)}",
        columns=tuple(one for one, _ in stored),
        types=tuple(type_name for _, type_name in stored),
        foreign_keys=tuple(ForeignKey(_names(ours), parent or "", _names(theirs)) for parent, ours, theirs in foreign),
    )


def _spellings(written: str) -> Iterable[str]:
    """With its own quotes as SQL reads them; exactly as it is written (``Order Lines``); then folded, as SQL would."""
    parts = name_parts(written)
    if '"' in written and parts is not None:
        yield ".".join(map(quote, parts))
    # Of a text the parser gives bare names, which may hold quotes of their own.
    yield ".".join(quote(part) for part in written.split("."))
    if written.replace(".", "_").replace("_", "a").isalnum():
        yield written


def _names(array: str | None) -> tuple[str, ...]:
    import json  # names may hold anything: PostgreSQL's array text would need a parser

    return tuple(json.loads(array or "[]"))


# The DDL below is for a reader and for the rehearsal at export; the barrier test runs on the user's own migrations.

_FULL_COLUMNS = """SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull::text, a.attidentity::text,
 a.attgenerated::text, pg_get_expr(d.adbin, d.adrelid),
 CASE WHEN a.attcollation <> t.typcollation THEN (SELECT quote_ident(nc.nspname) || '.' || quote_ident(co.collname)
  FROM pg_collation co JOIN pg_namespace nc ON nc.oid = co.collnamespace WHERE co.oid = a.attcollation) END
 FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
 LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""

# The types that columns use, through arrays, domains, composites, ranges and multiranges, the deepest first.
_TYPES = """WITH RECURSIVE used(oid, depth) AS (
 SELECT a.atttypid, 0 FROM pg_attribute a WHERE a.attrelid = ANY($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
 UNION SELECT next.oid, u.depth + 1 FROM used u JOIN pg_type t ON t.oid = u.oid
  CROSS JOIN LATERAL (SELECT unnest(ARRAY[nullif(t.typelem, 0), nullif(t.typbasetype, 0)]) AS oid
   UNION ALL SELECT a.atttypid FROM pg_attribute a
    WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
   UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE r.rngtypid = t.oid
   UNION ALL SELECT d.refobjid FROM pg_depend d WHERE t.typtype = 'm' AND d.objid = t.oid
    AND d.classid = 'pg_type'::regclass AND d.refclassid = 'pg_type'::regclass AND d.deptype = 'i') AS next
  WHERE next.oid IS NOT NULL AND u.depth < 16)
 SELECT t.oid::text, format_type(t.oid, NULL), t.typtype::text, n.nspname,
  format_type(nullif(t.typbasetype, 0), t.typtypmod), t.typnotnull::text, t.typdefault,
  (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid),
  (SELECT string_agg('CONSTRAINT ' || quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid), ' ' ORDER BY k.conname)
   FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c'),
  (SELECT quote_ident(x.extname) || coalesce(' SCHEMA ' || quote_ident(nullif(xn.nspname, 'public')), '')
   FROM pg_depend dep JOIN pg_extension x ON x.oid = dep.refobjid JOIN pg_namespace xn ON xn.oid = x.extnamespace
   WHERE dep.classid = 'pg_type'::regclass AND dep.objid = t.oid AND dep.deptype = 'e' LIMIT 1),
  CASE t.typtype WHEN 'c' THEN
   (SELECT string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attrelid = t.typrelid AND c.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped)
   WHEN 'r' THEN (SELECT 'SUBTYPE = ' || format_type(r.rngsubtype, NULL) FROM pg_range r
    WHERE r.rngtypid = t.oid AND r.rngcanonical = 0) END
 FROM (SELECT oid, max(depth) AS depth FROM used GROUP BY oid) AS u JOIN pg_type t ON t.oid = u.oid
 JOIN pg_namespace n ON n.oid = t.typnamespace
 WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND t.typelem = 0
 ORDER BY u.depth DESC, t.typname"""

_CONSTRAINTS = """SELECT k.conname, k.contype::text, pg_get_constraintdef(k.oid), k.confrelid::text
 FROM pg_constraint k WHERE k.conrelid = $1::oid AND k.contype IN ('p', 'u', 'c', 'x', 'f') ORDER BY k.contype, k.conname"""

_INDEXES = """SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
 WHERE i.indrelid = $1::oid AND i.indisvalid
 AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
 ORDER BY c.relname"""

# Owned ones, and those that a default names without the table's owning them; an identity brings its own.
_SEQUENCES = """SELECT DISTINCT quote_ident(n.nspname) || '.' || quote_ident(s.relname), n.nspname
 FROM pg_class s JOIN pg_namespace n ON n.oid = s.relnamespace JOIN pg_depend d ON true
 WHERE s.relkind = 'S' AND (
  (d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid = $1::oid
   AND d.deptype = 'a')
  OR (d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = s.oid
   AND d.objid IN (SELECT f.oid FROM pg_attrdef f WHERE f.adrelid = $1::oid)))
 ORDER BY 1"""

_LEFT_OUT = """SELECT 'trigger ' || t.tgname || ' on ' || c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
  WHERE t.tgrelid = $1::oid AND NOT t.tgisinternal
 UNION ALL SELECT 'rule ' || r.rulename || ' on ' || c.relname FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
  WHERE r.ev_class = $1::oid
 UNION ALL SELECT 'policy ' || p.polname || ' on ' || c.relname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
  WHERE p.polrelid = $1::oid
 UNION ALL SELECT 'partitioning of ' || c.relname FROM pg_class c
  WHERE c.oid = $1::oid AND (c.relkind = 'p' OR c.relispartition)
 UNION ALL SELECT 'foreign table ' || c.relname FROM pg_class c WHERE c.oid = $1::oid AND c.relkind = 'f'
 ORDER BY 1"""


def describe(asking: Asking, tables: tuple[Table, ...], within: timedelta) -> tuple[str, tuple[str, ...]]:
    """The DDL of these tables, and the names of what it leaves out (semantics 9.4)."""
    tables = tuple(sorted(tables, key=lambda one: one.name))
    cache_key = ("ddl", tuple(one.oid for one in tables))
    cached = asking.schema_cache.get(cache_key)
    if cached is None:
        cached = asking.schema_cache[cache_key] = _describe(asking, tables, within)
    ddl, left_out = cached
    return str(ddl), tuple(left_out)


def describe_with_parents(asking: Asking, written: Sequence[str], within: timedelta) -> Described:
    """The DDL of the tables that a catalog wrote, and of all that they refer to."""
    found: dict[int, Table] = {}
    missing = []
    waiting = []
    for name in written:
        table = find_table(asking, name, within)
        if table is None:
            missing.append(name)
        else:
            waiting.append(table)
    while waiting:
        table = waiting.pop()
        if table.oid in found:
            continue
        found[table.oid] = table
        parents = (find_table(asking, one.parent, within) for one in table.foreign_keys)
        waiting += [one for one in parents if one is not None]
    if not found:
        return Described("", (), (), tuple(missing))
    ddl, left_out = describe(asking, tuple(found.values()), within)
    return Described(ddl, tuple(sorted(one.name for one in found.values())), left_out, tuple(missing))


def _describe(asking: Asking, tables: tuple[Table, ...], within: timedelta) -> tuple[str, tuple[str, ...]]:
    left_out: list[str] = []
    schemas = {table.reference.split(".")[0] for table in tables}
    types, type_schemas = _types(asking, tables, within, left_out)
    sequences, bodies, references, indexes = [], [], [], []
    captured = {table.oid for table in tables}
    for table in tables:
        oid = str(table.oid)
        found = asking.query(_SEQUENCES, [oid], limit=_ROWS, within=within)
        sequences += [line for name, _ in found if (line := f"CREATE SEQUENCE {name};") not in sequences]
        schemas |= {quote(schema or "") for _, schema in found}
        lines = _columns(asking.query(_FULL_COLUMNS, [oid], limit=_ROWS, within=within))
        for name, kind, definition, parent in asking.query(_CONSTRAINTS, [oid], limit=_ROWS, within=within):
            clause = f"CONSTRAINT {quote(name or '')} {definition}"
            if kind != "f":
                lines.append(clause)
            elif int(parent or 0) in captured:
                references.append(f"ALTER TABLE {table.reference} ADD {clause};")
            else:
                left_out.append(f"foreign key {name} on {table.name}")
        bodies.append(f"CREATE TABLE {table.reference} (\n    " + ",\n    ".join(lines) + "\n);")
        indexes += [f"{one[0]};" for one in asking.query(_INDEXES, [oid], limit=_ROWS, within=within)]
        left_out += [one[0] or "" for one in asking.query(_LEFT_OUT, [oid], limit=_ROWS, within=within)]
    made = [f"CREATE SCHEMA IF NOT EXISTS {one};" for one in sorted(schemas | type_schemas) if one != '"public"']
    return "\n".join([*made, *types, *sequences, *bodies, *references, *indexes]) + "\n", tuple(left_out)


def _columns(rows: list[Row]) -> list[str]:
    lines = []
    for name, type_name, not_null, identity, generated, expression, collation in rows:
        line = f"{quote(name or '')} {type_name}"
        if collation:
            line += f" COLLATE {collation}"
        if generated == "s":
            line += f" GENERATED ALWAYS AS ({expression}) STORED"
        elif generated:
            line += f" GENERATED ALWAYS AS ({expression}) VIRTUAL"
        elif identity:
            # BY DEFAULT whatever it was: captured rows are written back with their own numbers.
            line += " GENERATED BY DEFAULT AS IDENTITY"
        elif expression:
            line += f" DEFAULT {expression}"
        if not_null == "true":
            line += " NOT NULL"
        lines.append(line)
    return lines


def _types(
    asking: Asking, tables: tuple[Table, ...], within: timedelta, left_out: list[str]
) -> tuple[list[str], set[str]]:
    oids = "{" + ",".join(str(one.oid) for one in tables) + "}"
    made: list[str] = []
    schemas: set[str] = set()
    for _, name, kind, schema, base, not_null, default, labels, checks, extension, body in asking.query(
        _TYPES, [oids], limit=_ROWS, within=within
    ):
        if extension is not None:
            line = f"CREATE EXTENSION IF NOT EXISTS {extension};"
            if line not in made:
                made.insert(0, line)
            schemas.add(quote(schema or ""))
            continue
        if kind == "e":
            made.append(f"CREATE TYPE {name} AS ENUM ({labels or ''});")
        elif kind == "d":
            line = f"CREATE DOMAIN {name} AS {base}"
            line += f" DEFAULT {default}" if default else ""
            line += " NOT NULL" if not_null == "true" else ""
            made.append(line + (f" {checks}" if checks else "") + ";")
        elif kind in ("c", "r") and body is not None:
            made.append(f"CREATE TYPE {name} AS {'RANGE ' if kind == 'r' else ''}({body});")
        elif kind != "m":  # a multirange comes with its range
            left_out.append(f"type {name}")
            continue
        schemas.add(quote(schema or ""))
    return made, schemas
