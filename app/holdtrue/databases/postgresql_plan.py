"""reads PostgreSQL's plans: EXPLAIN in JSON, and what the server knows of the tables' sizes"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from holdtrue.databases.planning import Plan, PlanStep, TableSize
from holdtrue.databases.postgresql_wire import Stopped
from holdtrue.model import Failure, FailureReason, Row

# Options stand in brackets of ours, so that a text that begins with a bracket cannot give any. Never ANALYZE.
EXPLAIN = "EXPLAIN (FORMAT JSON, VERBOSE)\n"
_SIZES = """SELECT n.nspname, c.relname, c.reltuples::bigint::text, pg_catalog.pg_relation_size(c.oid)::text
 FROM pg_catalog.json_to_recordset($1::json) AS t(s text, r text)
 JOIN pg_catalog.pg_namespace n ON n.nspname = t.s
 JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.r ORDER BY 1, 2"""
_TABLES_LIMIT = 1000
_ONCE = frozenset({"Materialize", "Memoize"})
_WORD = re.compile(r"\w+")
# Names and the numbers of other plans are passed over; a quoted value, or a number, is a value.
_VALUE = re.compile(
    r"""(?:Sub|Init)Plan\ \d+|"(?:[^"]|"")*"|\$?[^\W\d]\w*|\$\d+|(?P<value>'(?:[^']|'')*'|\d[\w.]*)""", re.VERBOSE
)
_SHOWN = ("Index Name", "Join Type", "Strategy", "CTE Name", "Subplan Name")


class Asking(Protocol):
    """What a plan needs of a connection."""

    def query(self, sql: str, parameters: Sequence[str | None], *, limit: int, within: timedelta) -> list[Row]:
        """Rows of one statement, in the protocol that refuses a second one."""
        ...


def read_plan(asking: Asking, sql: str, within: timedelta) -> Plan:
    """The plan of a text that has been found to begin as a query.

    Raises:
        Stopped: the server refused it, at a position of the text, or there was no time.
    """
    try:
        rows = asking.query(EXPLAIN + sql, (), limit=2, within=within)
    except Stopped as stopped:
        failure = stopped.failure
        if failure.position is None:
            raise
        raise Stopped(replace(failure, position=max(1, failure.position - len(EXPLAIN)))) from None
    try:
        document = json.loads(rows[0][0] or "")
        steps = steps_of(document, sql)
        names = sorted({_table(node) for node in _nodes(document[0]["Plan"]) if _table(node)[1]})
    except (ValueError, LookupError, TypeError, RecursionError):
        raise Stopped(Failure(FailureReason.QUERY, "the server's plan could not be read")) from None
    asked = json.dumps([{"s": schema, "r": name} for schema, name in names[:_TABLES_LIMIT]])
    found = asking.query(_SIZES, (asked,), limit=_TABLES_LIMIT, within=within) if names else []
    sizes = tuple(_size(*row) for row in found)
    return Plan(steps, sizes, cost=float(document[0]["Plan"].get("Total Cost", 0.0)))


def _size(schema: str | None, name: str | None, rows: str | None, size: str | None) -> TableSize:
    count, length = int(rows or -1), int(size or 0)
    # Before the first ANALYZE the server has no number: -1, or 0 in older ones.
    known = count > 0 or (count == 0 and length == 0)
    return TableSize(_shown(schema or "", name or ""), count if known else None, length)


def steps_of(document: Any, sql: str) -> tuple[PlanStep, ...]:  # noqa: ANN401  JSON of the server
    """The steps of ``EXPLAIN (FORMAT JSON)`` of a text, from above, with how often each is expected to be done."""
    return tuple(_walk(document[0]["Plan"], 0, 1.0, frozenset(_WORD.findall(sql))))


def _walk(node: Mapping[str, Any], depth: int, times: float, words: frozenset[str]) -> Iterator[PlanStep]:
    schema, name = _table(node)
    rows = float(node.get("Plan Rows", 0))
    kind = str(node.get("Node Type", ""))
    whole = kind == "Seq Scan"
    table = (_shown(schema, name),) if name else ()
    # A whole scan reads the table, not the rows that are left of it: how many these are only its size says.
    yield PlanStep(depth, _text(node, kind, _shown(schema, name), words), table, whole, None if whole else rows, times)
    children = node.get("Plans", ())
    outer = next((float(one.get("Plan Rows", 1)) for one in children if one.get("Parent Relationship") == "Outer"), 1.0)
    for child in children:
        yield from _walk(child, depth + 1, times * _repeats(node, kind, child, outer), words)


def _repeats(node: Mapping[str, Any], kind: str, child: Mapping[str, Any], outer: float) -> float:
    """How often a step is done for each time its parent is."""
    relation = child.get("Parent Relationship")
    if relation == "Inner" and kind == "Nested Loop" and child.get("Node Type") not in _ONCE:
        return max(1.0, outer)
    if relation == "SubPlan":
        name = f"hashed {child.get('Subplan Name', '')}"
        once = any(isinstance(value, str) and name in value for value in node.values())
        return 1.0 if once else max(1.0, float(node.get("Plan Rows", 1)))
    return 1.0


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _table(node: Mapping[str, Any]) -> tuple[str, str]:
    return str(node.get("Schema", "")), str(node.get("Relation Name", ""))


def _shown(schema: str, name: str) -> str:
    return name if schema in ("", "public") else f"{schema}.{name}"


def _text(node: Mapping[str, Any], kind: str, table: str, words: frozenset[str]) -> str:
    parts = [kind]
    if table:
        parts.append(f"on {table}")
        alias = node.get("Alias")
        if alias and alias != node.get("Relation Name"):
            parts.append(str(alias))
    parts += [f"{name.lower()} {node[name]}" for name in _SHOWN if node.get(name) not in (None, "", "Plain")]
    costs = f"(cost {node.get('Total Cost', 0):g}, rows {node.get('Plan Rows', 0):g})"
    conditions = [
        f"{name}: {_masked(str(node[name]), words)}" for name in ("Index Cond", "Hash Cond", "Filter") if node.get(name)
    ]
    return " ".join([*parts, costs, *conditions])


def _masked(condition: str, words: frozenset[str]) -> str:
    """A condition without the values that are not the text's: a function that was worked out may have read them in rows."""

    def shown(found: re.Match[str]) -> str:
        value = found["value"]
        if value is None or all(word in words for word in _WORD.findall(value)):
            return found[0]
        return "'…'" if value.startswith("'") else "…"

    return _VALUE.sub(shown, condition)
