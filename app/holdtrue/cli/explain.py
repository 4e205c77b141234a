"""explain: what a replica means to do with an invariant's text, without executing it"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from holdtrue.catalog import load_catalog
from holdtrue.cli.exits import ExitCode, worst
from holdtrue.cli.looking import failure_as_data, position_as_data, say_failure, where
from holdtrue.cli.options import ConfigOption, DatabaseOption, Format, FormatOption
from holdtrue.cli.quiet import no_log
from holdtrue.cli.terminal import paint, say, say_json, table, visible
from holdtrue.inspection import (
    BIG_TABLE,
    ROWS_PER_SECOND,
    Explained,
    choose,
    connected,
    explain_now,
    plan_findings,
    plan_reach,
    said_reach,
)
from holdtrue.model import show_duration
from holdtrue.settings import environment, load_settings

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def register(app: typer.Typer) -> None:
    """Add ``holdtrue explain``."""
    app.command("explain")(explain)


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The invariant.")],
    *,
    database: DatabaseOption = None,
    big_table: Annotated[
        int, typer.Option("--big-table", metavar="ROWS", min=1, help="Warn where all of a table this big is read.")
    ] = BIG_TABLE,
    rows_per_second: Annotated[
        int, typer.Option("--rows-per-second", metavar="ROWS", min=1, help="What the server is taken to read.")
    ] = ROWS_PER_SECOND,
    strict: Annotated[bool, typer.Option("--strict", help="End with 1 if there is a warning.")] = False,
    format_: FormatOption = Format.TEXT,
    config: ConfigOption = None,
) -> None:
    """Show the plan of an invariant's text on a replica, its tables, and what is worth a warning; nothing is executed.

    Ends with 0 if there is a plan, warnings or not; 1 with --strict if there is a warning; 2 if the catalog or the
    arguments are refused; 3 if no plan could be had.
    """
    settings = load_settings(config, os.environ)
    environ = environment(settings.config, os.environ)
    catalog = load_catalog(settings.config, environ=environ)
    chosen = choose(catalog, [name], [f"database:{database}"] if database is not None else [])
    with no_log(), connected(catalog, environ, settings.config.parent, command="explain") as databases:
        answers = [explain_now(databases, catalog, invariant, where_) for invariant, where_ in chosen]
    told = [_as_data(one, big_table, rows_per_second) for one in answers]
    code = worst(
        ExitCode.COULD_NOT_LOOK
        if one.plan is None
        else ExitCode.VIOLATED
        if strict and data["findings"]
        else ExitCode.HOLDS
        for one, data in zip(answers, told, strict=True)
    )
    if format_ is Format.JSON:
        say_json({"exit_code": int(code), "explained": told})
    else:
        for number, one in enumerate(answers):
            if number:
                say()
            _say(one, big_table, rows_per_second)
    raise typer.Exit(code)


def _say(one: Explained, big_table: int, rows_per_second: int) -> None:
    say(paint(f"{one.invariant.name} @ {visible(one.database)}", "bold"))
    if one.plan is None:
        if one.failure is not None:
            say(f"    {paint('could not look', 'yellow')}: {say_failure(one.failure)}")
        return
    if one.position is not None:
        say(f"    {where(one.position)}; planned in {show_duration(one.duration)}, not executed")
    for step in one.plan.steps:
        say(f"    {'  ' * step.depth}{visible(step.text)}")
    if one.plan.tables:
        rows = [
            (size.table, "not known" if size.rows is None else f"about {size.rows:,}", _size(size.size))
            for size in one.plan.tables
        ]
        say()
        for line in table(rows, headings=("TABLE", "ROWS", "SIZE")):
            say(f"    {line}")
    say()
    reach = visible(said_reach(one.plan, rows_per_second))
    say(f"    {reach}; the time limit is {show_duration(one.invariant.timeout)}")
    for finding in plan_findings(one.plan, one.invariant.timeout, big_table=big_table, rows_per_second=rows_per_second):
        say(f"    {paint('warning', 'yellow')}: {visible(finding.sentence)}")
        say(f"        {visible(finding.remedy)}")


def _size(size: int | None) -> str:
    if size is None:
        return ""
    return next((f"{size / unit:.1f} {name}" for name, unit in _UNITS if size >= unit), f"{size} B")


def _as_data(one: Explained, big_table: int, rows_per_second: int) -> dict[str, object]:
    plan = one.plan
    found = plan_reach(plan, rows_per_second) if plan is not None else None
    limit = one.invariant.timeout
    return {
        "invariant": one.invariant.name,
        "database": one.database,
        "dialect": one.dialect.value,
        "failure": failure_as_data(one.failure),
        "position": position_as_data(one.position) if one.position is not None else None,
        "duration_seconds": round(one.duration.total_seconds(), 6),
        "time_limit_seconds": limit.total_seconds(),
        "cost": plan.cost if plan is not None else None,
        "reads_rows": round(found.rows) if found is not None else None,
        "reads_at_least": found.at_least if found is not None else None,
        "estimated_seconds": found.took.total_seconds() if found is not None else None,
        "rows_per_second": rows_per_second,
        "big_table": big_table,
        "steps": [
            {
                "depth": step.depth,
                "text": step.text,
                "tables": list(step.tables),
                "whole_table": step.whole,
                "rows": step.rows,
                "times": step.times,
            }
            for step in (plan.steps if plan is not None else ())
        ],
        "tables": [
            {"table": size.table, "rows": size.rows, "bytes": size.size}
            for size in (plan.tables if plan is not None else ())
        ],
        "findings": [
            {"kind": finding.kind.value, "sentence": finding.sentence, "remedy": finding.remedy}
            for finding in (
                plan_findings(plan, limit, big_table=big_table, rows_per_second=rows_per_second)
                if plan is not None
                else ()
            )
        ],
    }
