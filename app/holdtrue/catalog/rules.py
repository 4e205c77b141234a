"""what must fit together within one invariant: keys with keys, and keys with the text (semantics 1.4, 1.5, 5.3)"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

from holdtrue.catalog.computing import computed_columns, unsafe_columns
from holdtrue.catalog.configuration import check_timezone
from holdtrue.catalog.effective import Effective
from holdtrue.catalog.nodes import Mapping, Node
from holdtrue.catalog.pasting import safe_columns_line
from holdtrue.catalog.shapes import nearest
from holdtrue.catalog.sources import SqlSource
from holdtrue.catalog.sql import Inspection, inspect_sql
from holdtrue.model import (
    Catalog,
    Cron,
    DatabaseConfig,
    Dialect,
    Interval,
    Problem,
    Returns,
    Schedule,
    may_be_safe,
    show_duration,
    show_moment,
)
from holdtrue.model.table_names import bare_name, name_parts

DEFAULT_INTERVAL: Final = timedelta(minutes=15)
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_LINE: Final = 350
_REFUSES_WRITES: Final = (Dialect.POSTGRESQL, Dialect.SQLITE)


def schedule_of(has: Effective, problems: list[Problem]) -> Schedule:
    """The schedule; a wrong one is noted, and 15 minutes stand in for it."""
    if has.has("interval") and has.has("schedule"):
        place = has.written["schedule"][0].place
        problems.append(Problem(place, "`interval` and `schedule` exclude each other; keep one"))
    timezone = has.get("timezone", "UTC")
    if "timezone" in has.values:
        node = has.node("timezone")
        if not has.has("schedule") and "timezone" not in has.defaulted:
            problems.append(Problem(node.place, "`timezone` belongs to `schedule`; an interval has none", timezone))
        if not check_timezone(timezone, node, problems):
            timezone = "UTC"
    line = has.get("schedule")
    if line is None:
        return Interval(has.get("interval", DEFAULT_INTERVAL))
    wrong = _wrong_cron(line)
    if wrong:
        problems.append(Problem(has.node("schedule").place, wrong, line))
        return Interval(DEFAULT_INTERVAL)
    return Cron(line, timezone)


def _wrong_cron(line: str) -> str:
    if len(line.split()) != 5:
        return "`schedule` must be a cron line of five fields: minute hour day month weekday"
    try:
        next(CronSim(line, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, ValueError, OverflowError):
        return "`schedule` is no cron line: minute hour day month weekday"
    except StopIteration:
        return "`schedule` never comes due"
    return ""


def check_together(has: Effective, problems: list[Problem]) -> None:
    """The keys that need, or exclude, one another."""
    counts = has.get("returns") == Returns.COUNT
    for key, message in _together(has, counts):
        problems.append(Problem(has.written[key][0].place, message))
    if counts and not has.has("rows_sql"):
        for key in ("key", "base_rows"):
            if has.has(key):
                message = f"under `returns: count`, `{key}` describes the rows of `rows_sql`, and there is none"
                problems.append(Problem(has.written[key][0].place, message, fatal=False))
    confirm, interval = has.get("confirm"), has.get("interval", DEFAULT_INTERVAL)
    if confirm is not None and not has.has("schedule") and confirm >= interval:
        message = f"`confirm` is not shorter than the interval of {show_duration(interval)}: the next run comes first"
        problems.append(Problem(has.node("confirm").place, message, show_duration(confirm), fatal=False))
    for waiver in has.get("waive", ()):
        _check_waiver(has, waiver.get("key"), waiver.node, problems)


def _together(has: Effective, counts: bool) -> Iterator[tuple[str, str]]:
    for key in ("settle", "waive"):
        if has.has(key) and counts:
            yield key, f"`{key}` speaks of rows, and `returns: count` has none; return the rows instead"
        elif has.has(key) and not has.has("key"):
            yield key, f"`{key}` needs `key`: the columns by which a row is recognised"
    if has.has("confirm") and not has.has("key") and not counts:
        yield "confirm", "`confirm` needs `key`: the columns by which a row is recognised in the second run"
    if has.has("rows_sql") and not counts:
        yield "rows_sql", "`rows_sql` belongs to `returns: count`; here `sql` returns the rows itself"
    if has.has("sql") and has.has("sql_file"):
        yield "sql_file", "`sql` and `sql_file` exclude each other; keep one"
    if has.has("database") and has.has("databases"):
        yield "databases", "`database` and `databases` exclude each other; keep one"


def ended_waivers(catalog: Catalog, now: datetime) -> list[Problem]:
    """A warning for each waiver whose end has passed, at its place; a catalog with such is in order."""
    message = "this waiver has ended: its row counts again; take it out, or set a later `until`"
    found = {
        one.place: Problem(one.place, message, show_moment(one.until), fatal=False)
        for invariant in catalog.invariants
        for one in invariant.waive
        if one.place is not None and one.until <= now
    }
    return sorted(found.values(), key=lambda one: one.place)


def _check_waiver(has: Effective, key: dict[str, str | None] | None, node: Node, problems: list[Problem]) -> None:
    if key is None or not has.get("key"):
        return
    inner = node.entries["key"][1] if isinstance(node, Mapping) else node
    if set(key) != set(has.get("key")):
        wanted = ", ".join(has.get("key"))
        problems.append(Problem(inner.place, f"a waiver names every column of `key` and no other: {wanted}"))
    for name, value in key.items():
        if not isinstance(value, str):
            problems.append(Problem(inner.place, "a waiver needs a plain value; NULL cannot be waived", name))


def check_text(
    source: SqlSource,
    dialects: Sequence[Dialect],
    *,
    rows: bool,
    inspected: bool,
    problems: list[Problem],
) -> list[Inspection]:
    """What is wrong with one text, in the eyes of each dialect that will read it."""
    folded = source.folded_comment()
    if folded is not None:
        problems.append(folded)
        return []
    found = []
    said: set[tuple[str, int]] = set()
    for dialect in dialects:
        inspection = inspect_sql(source.sql, dialect)
        found.append(inspection)
        for one in inspection.problems:
            if (one.one_row and not rows) or (one.message, one.at) in said:
                continue
            said.add((one.message, one.at))
            message = f"`{source.key}` {one.message}"
            if not one.fatal and not inspected:
                message += "; `inspected: true` says that a person has read it and means it"
            problems.append(Problem(source.place(one.at), message, one.offending, fatal=one.fatal or not inspected))
        if not inspection.parsed and not inspection.problems and not inspected:
            problems.append(_unreadable(source, dialect))
    return found


def _unreadable(source: SqlSource, dialect: Dialect) -> Problem:
    if dialect in _REFUSES_WRITES:
        message = (
            f"`{source.key}` could not be inspected: our parser does not understand it. {dialect} itself still refuses "
            "writes and a second statement; `inspected: true` says that a person has read it"
        )
        return Problem(source.place(0), message, fatal=False)
    message = (
        f"`{source.key}` could not be inspected: our parser does not understand it, and {dialect} does not refuse every "
        "write by itself; read it with care, then say `inspected: true`"
    )
    return Problem(source.place(0), message)


def check_columns(has: Effective, inspections: Sequence[Inspection], problems: list[Problem]) -> None:
    """Columns that are named must be there, as far as the text tells."""
    known = next((one.columns for one in inspections), None)
    if known is None or any(one.columns is None for one in inspections):
        return
    folded = {name.lower() for name in known}

    def check(name: str, node: Node, what: str, *, fatal: bool = True) -> None:
        if name.lower() not in folded:
            there = ", ".join(known)
            message = f"{what} is no output column of the text, which has {there}"
            problems.append(Problem(node.place, message[:500], name, nearest(name, known), fatal))

    key_node = has.node("key")
    for at, name in enumerate(has.get("key", ())):
        items = getattr(key_node, "items", None)
        check(name, items[at] if items else key_node, "this part of `key`")
    settle = has.get("settle")
    if settle is not None and "column" in settle:
        check(settle.get("column"), settle.written["column"][1], "`settle.column`")
    for base in has.get("base_rows", ()):
        for column, name in (base.get("where") or {}).items():
            if name.lower() not in folded:
                node = base.written["where"][1]
                check(name, node.entries[column][1], "this column of the violation")
    for name in has.get("columns", {}):
        if "." not in name and "columns" not in has.defaulted:
            check(name, has.entry("columns", name), "this name in `columns`", fatal=False)


def check_links(has: Effective, problems: list[Problem]) -> None:
    """A link may only carry values that may be shown: a URL is a place where they are shown."""
    columns = has.get("columns", {})
    node = has.node("links")
    for label, url in has.get("links", {}).items():
        place = has.entry("links", label).place
        value = node.entries[label][1] if isinstance(node, Mapping) and label in node.entries else node
        for name in _PLACEHOLDER.findall(url):
            if columns.get(name) != "safe":
                message = (
                    f"a link shows the value of {name!r}, which is not `safe`; add it to `columns`, or take it out"
                )
                near = nearest(name, [one for one, how in columns.items() if how == "safe"])
                problems.append(Problem(value.place if value is not node else place, message, url[:120], near))


def check_cap(has: Effective, databases: Sequence[DatabaseConfig], problems: list[Problem]) -> None:
    """A column that a database does not let anyone call safe must not be called so (semantics 4.4)."""
    for name, how in has.get("columns", {}).items():
        over = [one.name for one in databases if how == "safe" and not may_be_safe(name, one.safe_columns)]
        if over:
            message = f"`safe_columns` of database {', '.join(over)} does not let this column be called safe"
            problems.append(Problem(has.entry("columns", name).place, message, name))


def check_table_names(has: Effective, dialects: Sequence[Dialect], problems: list[Problem]) -> None:
    """A table that cannot be found would be missed only when an incident is there already (semantics 9.1)."""
    if not any(one in _REFUSES_WRITES for one in dialects):
        return
    for base in has.get("base_rows", ()):
        table = base.get("table") or ""
        if name_parts(table) is None:
            inner = table[1:-1] if len(table) > 2 and table[0] == table[-1] == '"' else table
            meant = '"' + inner.replace('""', '"').replace('"', '""') + '"'
            message = (
                "a table's name that holds a double quote is read as SQL reads it, and SQL could not read this one: put the"
                " name in double quotes and double each one in it"
            )
            problems.append(Problem(base.written["table"][1].place, message, table, meant))


def check_promotable(source: SqlSource, has: Effective, dialects: Sequence[Dialect], problems: list[Problem]) -> None:
    """What `promote` would refuse only when an incident is there already (semantics 4.4)."""
    if not has.has("base_rows") or (has.get("returns") == Returns.COUNT and not has.has("rows_sql")):
        return
    tables = {bare_name(one.get("table")) for one in has.get("base_rows", ()) if "table" in one}
    safe = [name for name, how in has.get("columns", {}).items() if how == "safe"]
    unsafe: dict[str, None] = {}
    for dialect in dialects:
        if dialect in _REFUSES_WRITES:  # a barrier test is offered for no other
            computed = computed_columns(source.sql, dialect, certain=True)
            found = unsafe_columns(computed, lambda name: name.rpartition(".")[0] in tables, safe)
            unsafe.update(dict.fromkeys(found))
    if unsafe:
        message = (
            f"the text compares, orders or computes with columns that are not safe, so no alert of it can be promoted: "
            f"if they hold nothing personal, add {safe_columns_line(tuple(unsafe), _LINE)}"
        )
        problems.append(Problem(has.node("base_rows").place, message, fatal=False))


def check_clock(
    source: SqlSource,
    has: Effective,
    inspection: Inspection,
    databases: Sequence[DatabaseConfig],
    problems: list[Problem],
) -> None:
    """A replica sets yesterday's rows against today's clock (semantics 5.3)."""
    lagging = [one.max_lag for one in databases if one.dialect is not Dialect.SQLITE]
    if not inspection.clock or not lagging:
        return
    confirm: timedelta | None = has.get("confirm")
    lag = max(lagging)
    if confirm is None or confirm <= lag:
        message = (
            "the text compares with the clock, and a replica may be behind it by "
            f"{show_duration(lag)}; a `confirm` longer than that keeps late rows from alarming"
        )
        problems.append(Problem(source.place(0), message, fatal=False))
