"""holdtrue databases: list, accept"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdtrue.cli.options import ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.reading import open_reading
from holdtrue.cli.terminal import say, say_json, table, visible


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="The databases that are asked.", no_args_is_help=True)
    group.command("list")(list_)
    group.command("accept")(accept)
    app.add_typer(group, name="databases")


def list_(config: ConfigOption = None, url: UrlOption = None, format_: FormatOption = Format.TEXT) -> None:
    """List the databases in force, and any other server that was met under a name. Exit code: 0 if it could be read."""
    with open_reading(config, url) as reading:
        report = reading.databases()
    if format_ is Format.JSON:
        say_json(report)
        return
    for line in list_lines(report):
        say(line)


def accept(
    database: Annotated[str, typer.Argument(metavar="DATABASE", help="Its name in holdtrue.yaml.")],
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Accept the other server that runs met under this name: from now on its answers count. Audited.

    Exit code: 0 accepted, 2 if no run met another server.
    """
    with open_reading(config, url) as reading:
        report = reading.accept_server(database)
    if format_ is Format.JSON:
        say_json(report)
        return
    say(f"{visible(database)}: the server with the system identifier {visible(report['system'])} is accepted")


def list_lines(report: dict[str, Any]) -> list[str]:
    """The list for people."""
    lines = table(
        [
            (
                one["name"],
                one["dialect"],
                ", ".join(one["replicas"]),
                one["freshness"],
                f"{one['max_lag_seconds']:g}s",
            )
            for one in report["databases"]
        ],
        headings=("DATABASE", "DIALECT", "REPLICAS", "FRESHNESS", "MAX LAG"),
    )
    for one in report["databases"]:
        if (other := one["another_server"]) is not None:
            name = visible(one["name"])
            met = (
                f"replica {visible(other['replica'])} is another server (system {visible(other['system'])}) than before"
            )
            lines += [
                "",
                f"{name}: {met}: its answers do not count.",
                f"  If it is meant: holdtrue databases accept {name}",
            ]
    return lines
