"""holdtrue deliveries: owed messages, and what became of them"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdtrue.cli.exits import ExitCode
from holdtrue.cli.options import ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.reading import Owed, find_alert, nearest_of, open_reading
from holdtrue.cli.terminal import paint, say, say_json, table, visible
from holdtrue.errors import NotFound
from holdtrue.model import MessageState


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("deliveries")(deliveries)


def deliveries(  # noqa: PLR0917  typer makes options of them
    state: Annotated[
        list[MessageState] | None, typer.Option("--state", "-s", help="Only these states; may be repeated.")
    ] = None,
    notifier: Annotated[str | None, typer.Option("--notifier", metavar="NAME", help="Only this notifier's.")] = None,
    alert: Annotated[
        str | None, typer.Option("--alert", metavar="ALERT", help="Only this alert's: its number, or NAME[@DATABASE].")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only this invariant's.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 100,
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """List owed messages, newest first, count all there are, and say what each notifier cannot do.

    Exit code: 0 if none of those listed has failed for good, 4 if one has, 2 if there is no such notifier.
    """
    with open_reading(config, url) as reading:
        number = find_alert(reading, alert) if alert is not None else None
        wanted = Owed(tuple(one.value for one in state or ()), notifier, number, name, limit)
        report = reading.deliveries(wanted)
    # A service of an older version does not say which there are.
    known = report.get("notifiers")
    if notifier is not None and known is not None and notifier not in known:
        meant = nearest_of(notifier, known)
        remedy = f"did you mean {meant!r}? " if meant else ""
        remedy += f"There are {', '.join(known)}" if known else "the catalog in force has none"
        raise NotFound(f"no notifier is called {notifier!r}", remedy=remedy)
    if format_ is Format.JSON:
        say_json(report)
    else:
        for line in lines(report):
            say(line)
    if any(one["state"] == MessageState.FAILED.value for one in report["deliveries"]):
        raise typer.Exit(int(ExitCode.FAILED))


def lines(report: dict[str, Any]) -> list[str]:
    """The list for people."""
    counted = [
        f"{visible(notifier)}: " + " · ".join(f"{count} {state}" for state, count in states.items())
        for notifier, states in report["totals"].items()
    ]
    # A service of an older version says nothing of them.
    limits = [f"{visible(notifier)}: {visible(said)}" for notifier, said in report.get("limits", {}).items()]
    last = [*counted, *(["", "what they cannot do:", *(f"  {one}" for one in limits)] if limits else [])]
    if not report["deliveries"]:
        return ["no message was owed" if not counted else "no such message", *last]
    rows = [
        (
            one["owed_at"],
            f"{one['alert']}.{one['number']}",
            one["invariant"],
            one["database"],
            one["reason"],
            one["notifier"],
            _state(one),
            one["sent_at"] or "",
            one["problem"],
        )
        for one in report["deliveries"]
    ]
    headings = ("OWED", "EVENT", "INVARIANT", "DATABASE", "REASON", "NOTIFIER", "STATE", "SENT", "PROBLEM")
    cells = table(rows, headings=headings)
    failed = [one["state"] == MessageState.FAILED.value for one in report["deliveries"]]
    body = [paint(line, "red") if bad else line for line, bad in zip(cells[1:], failed, strict=True)]
    return [paint(cells[0], "dim"), *body, "", *last]


def _state(one: dict[str, Any]) -> str:
    if one["silence"] is not None and one["state"] == MessageState.WITHHELD.value:
        return f"withheld by silence {one['silence']}"
    if one["state"] == MessageState.PENDING.value and one["attempts"]:
        return f"retried at {one['next_try_at']}" if one["next_try_at"] else "being retried"
    return str(one["state"])
