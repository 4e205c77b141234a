"""holdtrue overview: every invariant on every database, worst first"""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer

from holdtrue.cli.exits import ExitCode
from holdtrue.cli.options import ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.reading import open_reading
from holdtrue.cli.terminal import paint, say, say_json, table

_COLOURS = {"violated": "red", "unknown": "yellow", "holds": "green"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("overview")(overview)


def overview(config: ConfigOption = None, url: UrlOption = None, format_: FormatOption = Format.TEXT) -> None:
    """Show what holds and what does not, worst first.

    Exit code: 0 everything holds, 1 something is violated, 3 something is unknown.
    """
    with open_reading(config, url) as reading:
        report = reading.overview()
    if format_ is Format.JSON:
        say_json(report)
    else:
        for line in lines(report):
            say(line)
    raise typer.Exit(int(ExitCode(report["exit_code"])))


def lines(report: dict[str, Any]) -> list[str]:
    """The report for people."""
    entries = report["entries"]
    if not entries:
        return ["unknown: no invariant is in force, so nothing was looked at"]
    cells = table(
        [
            (
                entry["invariant"],
                entry["database"],
                entry["severity"],
                entry["verdict"]["sentence"],
                f"alert {entry['alert']}" if entry["alert"] else "",
            )
            for entry in entries
        ],
        headings=("INVARIANT", "DATABASE", "SEVERITY", "VERDICT", ""),
    )
    coloured = [paint(line, _COLOURS[entry["verdict"]["word"]]) for line, entry in zip(cells[1:], entries, strict=True)]
    counts = Counter(entry["verdict"]["word"] for entry in entries)
    summary = " · ".join(f"{counts[word]} {word}" for word in _COLOURS if counts[word])
    return [paint(cells[0], "dim"), *coloured, "", summary]
