"""holdtrue history: the count of one invariant over time"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from holdtrue.cli.options import ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.reading import open_reading
from holdtrue.cli.terminal import paint, say, say_json, table, visible
from holdtrue.errors import Refused
from holdtrue.model import parse_duration, show_duration, utc

WIDTH = 60
_LEVELS = "▁▂▃▄▅▆▇█"
_PLAIN_LEVELS = "_.-:=+*#"
_COULD_NOT_LOOK = "?"
_NOBODY_LOOKED = " "


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("history")(history)


def history(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The invariant.")],
    *,
    database: Annotated[
        str | None, typer.Option("--database", "-d", metavar="NAME", help="One of its databases; without it, all.")
    ] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="A duration back from now (24h, 7d) or a moment in ISO 8601.")
    ] = "24h",
    costs: Annotated[
        bool, typer.Option("--costs", help="Show what each of the last 30 days cost the database, and nothing else.")
    ] = False,
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Show one invariant's count over time, and its newest runs.

    Exit code: 0 if there was something to show, whatever it says. `overview` is the command that judges.
    """
    start = since_when(since, datetime.now(UTC))
    with open_reading(config, url) as reading:
        databases = reading.databases_of(name)
        if database is not None and database not in databases:
            raise Refused(f"{name} is not asked of {database}", remedy=f"its databases: {', '.join(databases)}")
        reports = [reading.history(name, one, start) for one in databases if database in (None, one)]
    if format_ is Format.JSON:
        say_json({"histories": reports})
        return
    for number, report in enumerate(reports):
        for line in ([""] if number else []) + (cost_lines(report) if costs else lines(report)):
            say(line)


def since_when(text: str, now: datetime) -> datetime:
    """Read ``--since``.

    Raises:
        Refused: it is neither a duration nor a moment with a time zone, or lies in the future.
    """
    duration = parse_duration(text)
    try:
        moment = now - duration if duration is not None else utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise Refused(
            f"--since {text!r} is neither a duration nor a moment", remedy="write 24h, 7d or 2026-11-29T13:00:00Z"
        ) from None
    if moment >= now:
        raise Refused(f"--since {text!r} is not in the past")
    return moment


def lines(report: dict[str, Any]) -> list[str]:
    """The report for people: a line of bars, the spans, the newest runs."""
    since, now = _read(report["since"]), _read(report["now"])
    bars = sparkline(report["spans"], since=since, until=now, fresh=timedelta(seconds=report["fresh_seconds"]))
    unicode = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "") == "utf8"
    shown = bars if unicode else bars.translate(str.maketrans(_LEVELS, _PLAIN_LEVELS))
    title = table([[report["invariant"], f"on {report['database']}", f"since {report['since']}"]], gap=" ")[0]
    highest = max((one["highest"] for one in report["spans"]), default=0)
    return [
        paint(title, "bold"),
        f"  [{shown}] 0…{highest}" if unicode else f"  [{shown}] 0..{highest}",
        f"  {_COULD_NOT_LOOK} could not look, blank: nobody looked",
        "",
        *("  " + line for line in _spans(report["spans"])),
        "",
        *("  " + line for line in _runs(report["runs"])),
        *_over(report),
    ]


def cost_lines(report: dict[str, Any]) -> list[str]:
    """What the days cost, newest first, beside the budget."""
    budget = report["budget_seconds"]
    said = f"budget {_took(budget)} of statement time a day" if budget is not None else "no budget declared"
    title = paint(table([[report["invariant"], f"on {report['database']}: {said}"]], gap=" ")[0], "bold")
    if not report["costs"]:
        return [title, "  no runs in the last 30 days"]
    highest = max(one["statement_seconds"] for one in report["costs"])
    rows = [
        (
            one["day"],
            str(one["runs"]),
            str(one["errors"]),
            _took(one["statement_seconds"]),
            _took(one["slowest_seconds"]),
            "#" * round(20 * one["statement_seconds"] / highest) if highest else "",
            "over budget" if one["over_budget"] else "",
        )
        for one in reversed(report["costs"])
    ]
    headings = ("DAY (UTC)", "RUNS", "ERRORS", "STATEMENT TIME", "SLOWEST", "", "")
    return [title, *("  " + line for line in table(rows, headings=headings)), *_over(report)]


def _over(report: dict[str, Any]) -> list[str]:
    over = report["over_budget"]
    return [] if over is None else ["", "  " + paint(visible(over["sentence"]), "yellow")]


def _took(number: float) -> str:
    return show_duration(timedelta(seconds=number))


def sparkline(
    spans: Sequence[dict[str, Any]], *, since: datetime, until: datetime, fresh: timedelta, width: int = WIDTH
) -> str:
    """One character for each equal part of the time, the worst that was known in it.

    A span is known until the next one begins, but no longer than ``fresh`` after its last run: what nobody looked at is
    blank, and never the lowest bar. Nobody looked at what was skipped: it is not what a run tried to see and could not.
    """
    pieces = []
    for number, one in enumerate(spans):
        if one["outcome"] == "skipped":
            continue
        first, last = _read(one["first_at"]), _read(one["last_at"])
        following = _read(spans[number + 1]["first_at"]) if number + 1 < len(spans) else until
        good = one["outcome"] in ("held", "violated")
        # A run that waited for its place looked after a due time that was missed meanwhile, and is known all the same.
        pieces.append((first, max(last, min(last + fresh, following)), one["highest"] if good else None))
    highest = max((count for _first, _last, count in pieces if count is not None), default=0)
    step = (until - since) / width
    return "".join(
        _bar([count for first, last, count in pieces if first < start + step and last > start], highest)
        for start in (since + step * column for column in range(width))
    )


def _bar(counts: Sequence[int | None], highest: int) -> str:
    known = [count for count in counts if count is not None]
    if known and max(known) > 0:
        return _LEVELS[max(1, round(max(known) * (len(_LEVELS) - 1) / highest))]
    if any(count is None for count in counts):
        return _COULD_NOT_LOOK
    return _LEVELS[0] if known else _NOBODY_LOOKED


def _spans(spans: Sequence[dict[str, Any]]) -> list[str]:
    if not spans:
        return ["no runs in this time: nobody looked"]
    rows = [
        (
            one["first_at"],
            one["last_at"],
            one["outcome"],
            _count(one) if one["outcome"] in ("held", "violated") else "",
            str(one["runs"]),
        )
        for one in spans
    ]
    return table(rows, headings=("FROM", "TO", "OUTCOME", "COUNT", "RUNS"))


def _runs(runs: Sequence[dict[str, Any]]) -> list[str]:
    if not runs:
        return []
    rows = [
        (
            one["due_at"],
            one["started_at"] if one["outcome"] != "skipped" else "",
            _outcome(one),
            _count(one) if one["outcome"] in ("held", "violated") else "",
            show_duration(timedelta(seconds=one["seconds"])),
            (one["position"] or {}).get("replica", ""),
            (one["failure"] or {}).get("sentence", ""),
        )
        for one in runs
    ]
    return table(rows, headings=("NEWEST RUNS DUE", "STARTED", "OUTCOME", "COUNT", "TOOK", "REPLICA", "REASON"))


def _outcome(one: dict[str, Any]) -> str:
    """How it ended, and what was special about it: outside the schedule, or not the first attempt."""
    notes = [one["kind"]] if one["kind"] != "scheduled" else []
    if one["attempt"] > 1:
        notes.append(f"attempt {one['attempt']}")
    return f"{one['outcome']} ({', '.join(notes)})" if notes else str(one["outcome"])


def _count(one: dict[str, Any]) -> str:
    low, high = one.get("lowest", one["counted"]), one.get("highest", one["counted"])
    count = f"{low}…{high}" if low != high else str(one["counted"])
    return count if one["complete"] else f"at least {count}"


def _read(moment: str) -> datetime:
    return utc(datetime.fromisoformat(moment))
