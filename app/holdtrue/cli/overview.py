"""holdtrue overview: every invariant on every database, worst first"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from holdtrue.cli.exits import ExitCode
from holdtrue.cli.options import ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.reading import open_reading
from holdtrue.cli.silences import silenced_until
from holdtrue.cli.terminal import paint, say, say_json, table, visible

_PROBLEMS_SHOWN = 5
_COLOURS = {"violated": "red", "unknown": "yellow", "holds": "green"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("overview")(overview)


def overview(
    *,
    each: Annotated[
        bool, typer.Option("--each", help="List every database of every invariant, those that hold too.")
    ] = False,
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Show what holds and what does not, worst first.

    An invariant on several databases has a line that sums them up; below it stand those that do not hold.

    Exit code: 0 everything holds, 1 something is violated, 3 something is unknown.
    """
    with open_reading(config, url) as reading:
        report = reading.overview()
    if format_ is Format.JSON:
        say_json(report)
    else:
        for line in lines(report, each=each):
            say(line)
    raise typer.Exit(int(ExitCode(report["exit_code"])))


def lines(report: dict[str, Any], *, each: bool = False) -> list[str]:
    """The report for people; ``each`` lists what holds within a sum too."""
    entries = report["entries"]
    if not entries:
        nothing = "unknown: no invariant is in force, so nothing was looked at"
        return [*unwell(report), nothing, *lost(report), *proofs(report)]
    sums = {one["invariant"]: one for one in report["sums"]}
    shards: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        shards.setdefault(entry["invariant"], []).append(entry)
    shown: list[tuple[str, tuple[str, ...]]] = []
    for name, its in shards.items():
        if name not in sums:
            shown += [(_tone(entry), _cells(entry, name)) for entry in its]
            continue
        of = sums[name]
        summed = (name, f"{of['databases']} databases", its[0]["severity"], of["verdict"]["sentence"], "")
        shown.append((_tone(of), summed))
        shown += [
            (_tone(entry), _cells(entry, f"  {name}"))
            for entry in its
            if each or _tone(entry) != "holds" or entry["over_budget"]
        ]
    cells = table([row for _, row in shown], headings=("INVARIANT", "DATABASE", "SEVERITY", "VERDICT", ""))
    coloured = [paint(line, _COLOURS[tone]) for line, (tone, _) in zip(cells[1:], shown, strict=True)]
    counts = Counter(entry["verdict"]["word"] for entry in entries)
    told = [f"{counts[word]} {word}" for word in _COLOURS if counts[word]]
    over = sum(1 for entry in entries if entry["over_budget"])
    summed_up = " · ".join([*told, *([f"{over} over budget"] if over else [])])
    return [*unwell(report), paint(cells[0], "dim"), *coloured, "", summed_up, *lost(report), *proofs(report)]


def unwell(report: dict[str, Any]) -> list[str]:
    """What is not well with the monitor itself, above all verdicts: they are as old as it says."""
    monitor = report.get("monitor")  # a service of an older version says nothing of it
    if monitor is None:
        return []
    refused = monitor["refused_reload"]
    problems = [f"    {visible(one)}" for one in (refused["problems"] if refused is not None else ())]
    more = [f"    … and {len(problems) - _PROBLEMS_SHOWN} more"] if len(problems) > _PROBLEMS_SHOWN else []
    said = [paint(f"monitor: {visible(one)}", "red") for one in monitor["sentences"]]
    return [*said, *problems[:_PROBLEMS_SHOWN], *more, ""] if said else []


def lost(report: dict[str, Any]) -> list[str]:
    """A line where messages failed for good lately: nobody was told."""
    given_up = report.get("given_up")  # a service of an older version says nothing of it
    return [paint(f"messages: {visible(given_up['sentence'])}", "red")] if given_up and given_up["messages"] else []


def proofs(report: dict[str, Any]) -> list[str]:
    """A line for each notifier that the canary is to prove."""
    canary = report.get("canary")  # a service of an older version says nothing of it
    return [
        paint(f"canary: {visible(one['notifier'])} {visible(one['sentence'])}", "green" if one["proven"] else "red")
        for one in (canary["notifiers"] if canary is not None else ())
    ]


def _tone(one: dict[str, Any]) -> str:
    judged = one["verdict"]
    return "violated" if judged["firing"] else str(judged["word"])


def _cells(entry: dict[str, Any], name: str) -> tuple[str, ...]:
    over = entry["over_budget"]
    beside = [f"alert {entry['alert']}"] if entry["alert"] else []
    beside += [f"{entry['acknowledged_by']} has it"] if entry["acknowledged_by"] else []
    beside += [over["sentence"]] if over else []
    if silenced := silenced_until(entry):
        # Nobody is told now, whoever the routes name.
        beside.append(silenced)
    elif _tone(entry) != "holds":
        beside.append(f"tells {', '.join(entry['told']) or 'nobody'}")
    return (name, entry["database"], entry["severity"], entry["verdict"]["sentence"], ", ".join(beside))
