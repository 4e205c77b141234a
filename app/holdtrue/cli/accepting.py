"""holdtrue alerts: accept, unaccept, waivers"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdtrue.cli.options import ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.reading import open_reading
from holdtrue.cli.terminal import say, say_json, table, visible


def register(group: typer.Typer) -> None:
    """Add the commands to the group of alerts."""
    group.command("accept")(accept)
    group.command("unaccept")(unaccept)
    group.command("waivers")(waivers)


def accept(
    reference: Annotated[str, typer.Argument(metavar="NAME[@DATABASE]", help="The invariant, and which database.")],
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why its rows are accepted.")],
    until: Annotated[
        str,
        typer.Option("--until", metavar="WHEN", help="A day (to its end, in UTC), a moment with its zone, or 14d."),
    ],
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Take the rows that count now as a baseline: they do not count until then. Rows that come later count.

    It has effect from the next run on, and people are told before it ends. Exit code: 0 if they were accepted.
    """
    name, _, database = reference.partition("@")
    with open_reading(config, url) as reading:
        report = reading.accept(name, database or None, reason=reason, until=until)
    if format_ is Format.JSON:
        say_json(report)
        return
    keys = "1 key" if report["keys"] == 1 else f"{report['keys']} keys"
    say(f"accept {report['id']}: {keys} of {visible(report['invariant'])} on {visible(report['database'])}")
    say(
        f"waived from the next run on, until {report['until']}; `holdtrue alerts unaccept {report['id']}` ends it before"
    )


def unaccept(
    number: Annotated[int, typer.Argument(metavar="ACCEPT", help="Its number: see `holdtrue alerts waivers`.")],
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """End an accept before its time: its rows count from the next run on. Exit code: 0 if it was ended."""
    with open_reading(config, url) as reading:
        report = reading.end_accept(number)
    if format_ is Format.JSON:
        say_json(report)
        return
    say(f"accept {report['id']} has ended: its rows of {visible(report['invariant'])} count from the next run on")


def waivers(
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """List what does not count: the catalog's waivers, and what people accepted. Exit code: 0 if the list could be read."""
    with open_reading(config, url) as reading:
        report = reading.waivers()
    if format_ is Format.JSON:
        say_json(report)
        return
    for line in lines(report):
        say(line)


def lines(report: dict[str, Any]) -> list[str]:
    """The list for people: what is in force first."""
    rows = [
        (
            "waiver",
            _state(one["in_force"], ended=None, matches=True),
            one["invariant"],
            ", ".join(one["databases"]),
            one["until"],
            one["written_in"] or "",
            one["reason"],
        )
        for one in report["waivers"]
    ]
    rows += [
        (
            f"accept {one['id']}",
            _state_of(one),
            one["invariant"],
            one["database"],
            one["until"],
            f"{one['accepted_by']}, {one['keys']} {'key' if one['keys'] == 1 else 'keys'}",
            one["reason"],
        )
        for one in report["accepts"]
    ]
    if not rows:
        return ["nothing is waived: the catalog in force has no waiver, and nobody accepted anything"]
    rows.sort(key=lambda row: row[1] != "in force")
    return table(rows, headings=("WHAT", "STATE", "INVARIANT", "DATABASE", "UNTIL", "BY", "REASON"))


def _state_of(accept: dict[str, Any]) -> str:
    # A service that is older than this command does not say it.
    if accept.get("redefined_in"):
        return "redefined"
    return _state(accept["in_force"], ended=accept["ended_at"], matches=accept["matches"])


def _state(in_force: bool, *, ended: str | None, matches: bool) -> str:
    if in_force:
        return "in force"
    if ended is not None:
        return "ended early"
    return "ended" if matches else "matches nothing"
