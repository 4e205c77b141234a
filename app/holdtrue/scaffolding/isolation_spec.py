r"""writes an incident as a spec for PostgreSQL's isolationtester: a session for each commit, with what it wrote (pure)

The tester ends a block at the first ``}``, in a string too, and knows no escape for it. So whatever holds one, or anything
beyond plain ASCII, is written as a literal or name with escapes (``E'\u007D'``, ``U&"\007D"``), and statements that do are
executed from such a literal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime

from holdtrue.model import Dialect, Incident
from holdtrue.scaffolding.commits import Commit, commits_of
from holdtrue.scaffolding.contexts import TicketContext
from holdtrue.scaffolding.placing import SEED, PlacedRow, placed_rows
from holdtrue.scaffolding.texts import in_docstring

_Key = tuple[str, tuple[str | None, ...]]
_SESSIONS = 20
_TABLE = re.compile(r'^CREATE TABLE ("(?:[^"]|"")+")\.("(?:[^"]|"")+") \((.*?)^\);', re.MULTILINE | re.DOTALL)
_PRIMARY = re.compile(r' PRIMARY KEY \(((?:[^()"]|"(?:[^"]|"")*")*)\)')
_NAME = re.compile(r'"((?:[^"]|"")+)"|([^,\s]+)')
_HEAD = """\
# Incident {id}: {invariant}, for PostgreSQL's isolationtester.
#
#   createdb holdtrue_spec && isolationtester "dbname=holdtrue_spec" < incident.spec
#
# The database must be empty, and be made anew for another run. This replays the rows that were written, and not your code: it
# shows whether the schema and the isolation level let them come about together. BEGIN takes the server's default level; write
# another one if your code sets one. A constraint that refuses a write, or a wait, is printed by the tester.
#
{facts}

"""


def why_no_spec(incident: Incident, context: TicketContext) -> str:
    """Why there can be no spec of an incident; empty if there can."""
    if incident.engine != Dialect.POSTGRESQL.value:
        return f"an isolationtester spec is for PostgreSQL, and this incident is from {incident.engine}"
    if not context.writers:
        return "no row was written in the window, so a spec would have no session"
    commits = commits_of(context.writers, context.traces)
    if len(commits) > _SESSIONS:
        return f"{len(commits)} transactions wrote in the window, and a spec has at most {_SESSIONS} sessions"
    return ""


def isolation_spec(incident: Incident, context: TicketContext) -> str:
    """The spec: schema and seed as setup, a session for each commit, one permutation in which all write before any commits.

    Raises:
        ValueError: there can be none, as :func:`why_no_spec` says.
    """
    reason = why_no_spec(incident, context)
    if reason:
        raise ValueError(reason)
    rows = list(placed_rows(incident, context))
    commits = commits_of(context.writers, context.traces)
    tables = _Tables(context.schema_sql)
    seed = [tables.insert(one) for one in rows if one.part == SEED]
    there = {key for one in rows if one.part == SEED and (key := tables.key(one)) is not None}
    made_rule, asked_rule = _rule(incident.sql)
    made = (_executed(context.schema_sql), tables.path, "\n".join(seed), *made_rule)
    setup = "".join(f"setup\n{_block(one)}\n" for one in made if one)
    sessions = "".join(
        _session(f"s{number}", tables, commit, [one for one in rows if one.writer in commit.writers], there)
        for number, commit in enumerate(commits, 1)
    )
    path = _block(tables.path) if tables.path else ""
    rule = '\nsession "rule"\n' + (f"setup\n{path}\n" if path else "")
    rule += f'step "before"\n{_block(asked_rule)}\nstep "after"\n{_block(asked_rule)}\n'
    return _head(incident, context) + setup + sessions + rule + _permutation(commits)


def literal(text: str) -> str:
    """A string constant that no value can leave, in plain ASCII and without a closing brace."""
    if text.isascii() and text.isprintable() and "\\" not in text and "}" not in text:
        return "'" + text.replace("'", "''") + "'"
    return "E'" + "".join(_in_literal(one) for one in text) + "'"


def name(text: str) -> str:
    """An identifier that no name can leave, in plain ASCII and without a closing brace."""
    if text.isascii() and text.isprintable() and "\\" not in text and "}" not in text:
        return '"' + text.replace('"', '""') + '"'
    return 'U&"' + "".join(_in_name(one) for one in text) + '"'


class _Tables:
    """What the captured DDL says of its tables: how they are written, and their primary keys."""

    def __init__(self, ddl: str) -> None:
        self._found: dict[str, tuple[str, tuple[str, ...]]] = {}
        schemas: dict[str, None] = {}
        for schema, table, body in _TABLE.findall(ddl):
            bare, inside = _unquoted(table), _unquoted(schema)
            schemas[inside] = None
            found = (f"{name(inside)}.{name(bare)}", _primary_key(body))
            self._found.setdefault(bare, found)
            self._found[f"{inside}.{bare}"] = found
        others = [one for one in schemas if one != "public"]
        self.path = f"SET search_path = {', '.join(name(one) for one in (*others, 'public'))};" if others else ""

    def insert(self, row: PlacedRow) -> str:
        columns = ", ".join(name(one) for one in row.columns)
        values = ", ".join(_value(one) for one in row.values)
        return f"INSERT INTO {self._reference(row)} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({values});"

    def write(self, row: PlacedRow, there: Collection[_Key]) -> str:
        """What brought the row about: an update of the one that the seed has, else an insert."""
        key = self.key(row)
        if key is None or key not in there:
            return self.insert(row)
        _, primary = self._found[row.table]
        pairs = dict(zip(row.columns, row.values, strict=True))
        changed = ", ".join(f"{name(one)} = {_value(value)}" for one, value in pairs.items() if one not in primary)
        which = " AND ".join(f"{name(one)} = {_value(pairs[one])}" for one in primary)
        return f"UPDATE {self._reference(row)} SET {changed} WHERE {which};" if changed else self.insert(row)

    def key(self, row: PlacedRow) -> _Key | None:
        """The row's identity; None where its table's primary key is not known, or was not kept."""
        found = self._found.get(row.table)
        pairs = dict(zip(row.columns, row.values, strict=True))
        if found is None or not found[1] or any(one not in pairs for one in found[1]):
            return None
        return found[0], tuple(pairs[one] for one in found[1])

    def _reference(self, row: PlacedRow) -> str:
        found = self._found.get(row.table)
        return found[0] if found is not None else name(row.table)


def _head(incident: Incident, context: TicketContext) -> str:
    facts = [f"rows split: {context.split}", *(f"guessed: {one}" for one in incident.marked)]
    facts += [f"stand-in: {one}" for one in context.masked]
    shown = "\n".join(f"# {in_docstring(one)}" for one in facts)
    return _HEAD.format(id=incident.id, invariant=in_docstring(incident.invariant), facts=shown)


def _session(title: str, tables: _Tables, commit: Commit, rows: Sequence[PlacedRow], there: Collection[_Key]) -> str:
    who = f"# {commit.said}" if commit.said else "# the writer is not known"
    begin = f"{tables.path}\nBEGIN;" if tables.path else "BEGIN;"
    writes = "\n".join(tables.write(one, there) for one in rows)
    return (
        f'\nsession "{title}"  {who}\nsetup\n{_block(begin)}\n'
        f'step "{title}_write"\n{_block(writes)}\nstep "{title}_commit"\n{_block("COMMIT;")}\n'
    )


def _permutation(commits: Sequence[Commit]) -> str:
    """All write in the order of their ids; they commit as they did, where that is known."""
    numbered = list(enumerate(commits, 1))

    def committed(one: tuple[int, Commit]) -> tuple[bool, float, int]:
        at: datetime | None = one[1].committed_at
        return at is None, at.timestamp() if at is not None else 0.0, one[0]

    writes = [f'"s{number}_write"' for number, _ in numbered]
    ends = [f'"s{number}_commit"' for number, _ in sorted(numbered, key=committed)]
    serial = [f'"s{number}_{step}"' for number, _ in numbered for step in ("write", "commit")]
    return (
        f'\npermutation "before" {" ".join(writes)} {" ".join(ends)} "after"\n'
        "# One after the other, in another empty database:\n"
        f'# permutation "before" {" ".join(serial)} "after"\n'
    )


def _rule(sql: str) -> tuple[tuple[str, ...], str]:
    """What has to be made for the rule to be asked, and the question."""
    if "}" not in sql and sql.isascii():
        return (), sql.strip()
    body = f"SELECT row_to_json(r) FROM (\n{sql.strip().rstrip(';')}\n) AS r"
    made = f"CREATE FUNCTION holdtrue_rule() RETURNS SETOF json LANGUAGE sql AS {literal(body)};"
    return (made,), "SELECT * FROM holdtrue_rule();"


def _executed(ddl: str) -> str:
    text = ddl.strip()
    if "}" not in text and text.isascii():
        return text
    return f"DO LANGUAGE plpgsql {literal(f'BEGIN EXECUTE {literal(text)}; END')};"


def _block(sql: str) -> str:
    return "{\n" + sql + "\n}"


def _value(value: str | None) -> str:
    return "NULL" if value is None else literal(value)


def _in_literal(character: str) -> str:
    if character == "'":
        return "''"
    if character == "\\":
        return "\\\\"
    if character.isascii() and character.isprintable() and character != "}":
        return character
    point = _point(character)
    return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"


def _in_name(character: str) -> str:
    if character == '"':
        return '""'
    if character == "\\":
        return "\\\\"
    if character.isascii() and character.isprintable() and character != "}":
        return character
    point = _point(character)
    return f"\\{point:04X}" if point < 0x10000 else f"\\+{point:06X}"


def _point(character: str) -> int:
    """Half of a surrogate pair is no character of PostgreSQL's."""
    point = ord(character)
    return 0xFFFD if 0xD800 <= point <= 0xDFFF else point


def _unquoted(quoted: str) -> str:
    return quoted[1:-1].replace('""', '"')


def _primary_key(body: str) -> tuple[str, ...]:
    found = _PRIMARY.search(body)
    if found is None:
        return ()
    return tuple(quoted.replace('""', '"') or plain for quoted, plain in _NAME.findall(found.group(1)))
