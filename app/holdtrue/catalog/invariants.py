"""one invariant out of its keys, its file's defaults and the databases it is asked of"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from holdtrue.catalog import rules
from holdtrue.catalog.definitions import definition_hash, meaning_hash
from holdtrue.catalog.effective import Effective, effective
from holdtrue.catalog.nodes import Node, Scalar
from holdtrue.catalog.nodes import Sequence as SequenceNode
from holdtrue.catalog.shapes import Fields, nearest
from holdtrue.catalog.sources import SqlSource, from_file, inline
from holdtrue.model import (
    BaseRows,
    DatabaseConfig,
    Dialect,
    Examples,
    Interval,
    Invariant,
    Policy,
    Problem,
    Returns,
    Settle,
    Severity,
    States,
    Waiver,
    show_duration,
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an invariant is read against. ``databases`` is None if holdtrue.yaml could not be read: no name is doubted."""

    texts: Mapping[str, str]
    lines: Mapping[str, tuple[str, ...]]
    databases: Mapping[str, DatabaseConfig] | None
    allow_empty: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """The databases that an invariant is asked of, and the dialects among them."""

    dialects: tuple[Dialect, ...]
    configs: Sequence[DatabaseConfig]


def read_invariant(
    own: Fields, defaults: Fields | None, around: Surroundings, problems: list[Problem], *, refused: bool = False
) -> Invariant | None:
    """The invariant, or None if it is ``refused`` already or anything about it is now; every problem is noted."""
    found: list[Problem] = []
    has = effective(own, defaults)
    schedule = rules.schedule_of(has, found)
    rules.check_together(has, found)
    rules.check_links(has, found)
    source = _sql_source(has, around, found)
    names, declared = _databases(has, around, found)
    configs = [around.databases[name] for name in names] if around.databases is not None else []
    rules.check_cap(has, configs, found)
    dialects = tuple(dict.fromkeys(one.dialect for one in configs)) or (Dialect.POSTGRESQL,)
    tables = _check_texts(source, has, _Asked(dialects, configs), around, found)
    timeout = has.get("timeout", timedelta(seconds=10))
    if isinstance(schedule, Interval) and timeout > schedule.every:
        whose = "" if has.has("timeout") else ", the default,"
        message = (
            f"`timeout` ({show_duration(timeout)}){whose} is longer than the interval ({show_duration(schedule.every)}):"
            " runs would miss their due times"
        )
        found.append(Problem(has.node("timeout").place, message, fatal=False))
    problems.extend(found)
    if source is None or refused or any(one.fatal for one in found):
        return None  # fields that could not be read are not there to be used
    policy = has.get("policy")
    shared = _shared(has, source.sql, policy)
    mysql = Dialect.MYSQL in dialects
    return Invariant(
        name=own.get("name"),
        sql=source.sql,
        databases=names,
        schedule=schedule,
        definition=definition_hash(**shared, databases=declared, mysql=mysql),
        meaning=meaning_hash(sql=source.sql, returns=shared["returns"], key=shared["key"], mysql=mysql),
        declared_databases=declared,
        severity=Severity(has.get("severity", Severity.WARNING)),
        returns=shared["returns"],
        key=shared["key"],
        settle=shared["settle"],
        confirm=shared["confirm"],
        waive=shared["waive"],
        population=shared["population"],
        count_limit=shared["count_limit"],
        columns=frozenset(name for name, how in has.get("columns", {}).items() if how == "safe"),
        timeout=timeout,
        policy=Policy(**policy.values) if policy else Policy(),
        base_rows=_base_rows(has),
        operation=has.get("promote").get("operation") if has.get("promote") else None,
        states=_states(has),
        links=tuple(has.get("links", {}).items()),
        examples=_examples(has),
        tables=tables,
        place=own.written["name"][1].place,
        **{
            key: has.get(key)
            for key in (
                "description",
                "owner",
                "tags",
                "rows_sql",
                "assumes",
                "runbook_url",
                "renamed_from",
                "inspected",
                "budget",
            )
            if key in has.values
        },
    )


def _shared(has: Effective, sql: str, policy: Fields | None) -> dict[str, Any]:
    """What the definition is made of, beside the databases."""
    settle = has.get("settle")
    return {
        "sql": sql,
        "returns": Returns(has.get("returns", Returns.ROWS)),
        "key": has.get("key", ()),
        "settle": _settle(settle, has) if settle else None,
        "confirm": has.get("confirm"),
        "tolerate": policy.get("tolerate", 0) if policy else 0,
        "population": has.get("population"),
        "waive": tuple(
            Waiver(tuple(sorted(one.get("key").items())), one.get("reason"), one.get("until"), one.node.place)
            for one in has.get("waive", ())
        ),
        "count_limit": has.get("count_limit"),
    }


def _settle(fields: Fields, has: Effective) -> Settle:
    after: timedelta = fields.get("after")
    # A key may settle three times as long as a row, but at least until the next run has seen it (semantics 5.1).
    at_most = max(3 * after, has.get("interval", rules.DEFAULT_INTERVAL))
    return Settle(fields.get("column"), after, fields.get("at_most", at_most))


def _base_rows(has: Effective) -> tuple[BaseRows, ...]:
    return tuple(
        BaseRows(one.get("table"), tuple(one.get("where").items()), one.get("written_at", ""))
        for one in has.get("base_rows", ())
    )


def _states(has: Effective) -> tuple[States, ...]:
    declared = has.get("promote").get("states", {}) if has.get("promote") else {}
    return tuple(
        States(column, tuple((before, after) for before, follow in moves.items() for after in follow))
        for column, moves in declared.items()
    )


def _examples(has: Effective) -> Examples:
    fields = has.get("examples")
    return Examples(fields.get("violating", ()), fields.get("healthy", ())) if fields else Examples()


def _sql_source(has: Effective, around: Surroundings, problems: list[Problem]) -> SqlSource | None:
    if "sql" in has.values:
        node = has.node("sql")
        return inline("sql", node, has.get("sql"), around.lines) if isinstance(node, Scalar) else None
    if "sql_file" in has.values:
        node = has.node("sql_file")
        if isinstance(node, Scalar):
            return from_file(node, has.get("sql_file"), around.texts, problems)
    elif not has.has("sql") and not has.has("sql_file"):
        problems.append(Problem(has.fields.node.place, "an invariant has no `sql` (or `sql_file`)"))
    return None


def _databases(
    has: Effective, around: Surroundings, problems: list[Problem]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names, patterns resolved, and what was written."""
    if not has.has("database") and not has.has("databases"):
        message = "an invariant has no `database`; say which, here or once for the file in `defaults`"
        problems.append(Problem(has.fields.node.place, message))
        return (), ()
    key = "databases" if "databases" in has.values else "database"
    if key not in has.values:
        return (), ()
    declared: tuple[str, ...] = has.get("databases") if key == "databases" else (has.get("database"),)
    if around.databases is None:
        return (), declared
    node = has.node(key)
    names: dict[str, None] = {}
    for at, pattern in enumerate(declared):
        where: Node = node.items[at] if isinstance(node, SequenceNode) else node
        matching = [name for name in around.databases if fnmatchcase(name, pattern)]
        if not matching and any(letter in pattern for letter in "*?["):
            message = "no database of holdtrue.yaml matches this pattern"
            problems.append(Problem(where.place, message, pattern, fatal=not around.allow_empty))
        elif not matching:
            message = "holdtrue.yaml has no database of this name"
            problems.append(Problem(where.place, message, pattern, nearest(pattern, around.databases)))
        names.update(dict.fromkeys(matching))
    return tuple(names), declared


def _check_texts(
    source: SqlSource | None,
    has: Effective,
    asked: _Asked,
    around: Surroundings,
    problems: list[Problem],
) -> tuple[str, ...]:
    """Judge every text of the invariant; the tables that its own text reads."""
    dialects, inspected = asked.dialects, bool(has.get("inspected", False))
    counts = has.get("returns") == Returns.COUNT
    beside: dict[str, SqlSource] = {}
    for key in ("rows_sql", "population"):
        node = has.node(key)
        if key in has.values and isinstance(node, Scalar):
            beside[key] = inline(key, node, has.get(key), around.lines)
    inspections = {
        key: rules.check_text(one, dialects, rows=key == "rows_sql", inspected=inspected, problems=problems)
        for key, one in beside.items()
    }
    own = rules.check_text(source, dialects, rows=not counts, inspected=inspected, problems=problems) if source else []
    if source is not None and own:
        rules.check_clock(source, has, own[0], asked.configs, problems)
        rules.check_promotable(source, has, dialects, problems)
        if counts and own[0].may_be_null:
            message = f"`{source.key}` may yield NULL, which is an error; write coalesce(…, 0)"
            problems.append(Problem(source.place(0), message, fatal=False))
    rows = inspections.get("rows_sql", []) if counts else own
    rules.check_columns(has, rows, problems)
    rules.check_table_names(has, dialects, problems)
    return tuple(sorted({table for one in own for table in one.tables}))
