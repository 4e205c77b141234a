"""holdtrue alerts silence, unsilence, silences: messages withheld for a time"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from holdtrue.cli.acting import Asked, open_acting
from holdtrue.cli.exits import ExitCode
from holdtrue.cli.options import ByOption, ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.terminal import paint, say, say_json, table, visible
from holdtrue.errors import Refused
from holdtrue.model import by_whom, parse_duration, utc

MATCHES_SHOWN = 20


def add_silences(group: typer.Typer) -> None:
    """Add the commands to the group of alerts."""
    group.command("silence")(silence)
    group.command("unsilence")(unsilence)
    group.command("silences")(silences)


def silenced_until(alert: dict[str, Any]) -> str:
    """What withholds the messages of an alert now, or empty; not yet made visible."""
    if "silenced" not in alert:
        # A service of before there was that: not knowing is no "no".
        return "silenced or not: this service is too old to say"
    one = alert["silenced"]
    return f"silenced by {one['silence']} until {one['until']}" if one else ""


def silence(  # noqa: PLR0917  typer makes options of them
    matchers: Annotated[
        list[str],
        typer.Argument(
            metavar="MATCHER...",
            help="FIELD=VALUE (the whole value) or FIELD~GLOB; fields: name, owner, severity, database, tag. All must hold.",
        ),
    ],
    comment: Annotated[str, typer.Option("--comment", "-m", metavar="TEXT", help="Why; needed.")] = "",
    length: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long: 2h, 1d.")] = "",
    until: Annotated[str, typer.Option("--until", metavar="WHEN", help="Until then, in ISO 8601, instead.")] = "",
    starts: Annotated[str, typer.Option("--from", metavar="WHEN", help="From then, in ISO 8601. [default: now]")] = "",
    preview: Annotated[bool, typer.Option("--preview", help="Show what they match now; silence nothing.")] = False,
    by: ByOption = "",
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Withhold the messages of what the matchers match, for a time; states go on. Shows what they match now.

    Exit code: 0 done, 2 refused, 4 if the same silence could not be made where alerts carry state.
    """
    if preview:
        with open_acting(config, url) as acting:
            report = acting.preview(matchers)
        _say(report, matched_lines(report), format_)
        return
    asked = Asked(tuple(matchers), comment, _end(length, until), _moment("--from", starts) if starts else None, by)
    with open_acting(config, url) as acting:
        made = acting.silence(asked)
        matched = acting.preview(matchers)
    _say({**made, "matched": matched["matched"]}, [_line(made), *_elsewhere(made), *matched_lines(matched)], format_)
    _end_by(made)


def unsilence(
    number: Annotated[int, typer.Argument(metavar="SILENCE", help="Its number.")],
    by: ByOption = "",
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """End a silence now: what still fires and was never told is told. Exit code: 0 done, 2 if it has ended."""
    with open_acting(config, url) as acting:
        report = acting.unsilence(number, by)
    _say(report, [_line(report), *_elsewhere(report)], format_)
    _end_by(report)


def silences(
    number: Annotated[
        int | None, typer.Argument(metavar="[SILENCE]", help="Show this one, and what it withheld.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Those that have ended too.")] = False,
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """List the silences in force and to come, or one with what it withheld. Exit code: 0 if they could be read."""
    with open_acting(config, url) as acting:
        report = acting.shown(number) if number is not None else acting.silences(ended_too=all_)
    _say(report, list_lines(report) if number is None else shown_lines(report), format_)


def list_lines(report: dict[str, Any]) -> list[str]:
    """The list for people."""
    if not report["silences"]:
        return ["no silence"]
    rows = [
        (
            str(one["id"]),
            one["state"],
            ", ".join(one["matchers"]),
            one["ends_at"],
            one["created_by"],
            str(one["episodes"]),
            one["comment"],
        )
        for one in report["silences"]
    ]
    return table(rows, headings=("SILENCE", "STATE", "MATCHERS", "UNTIL", "BY", "WITHHELD", "COMMENT"))


def shown_lines(report: dict[str, Any]) -> list[str]:
    """One silence for people: what still fires, and what opened and ended under it."""
    lines = [paint(_line(report), "bold"), f"  {visible(report['created_by'])}: {visible(report['comment'])}"]
    if not report["withheld"]:
        return [*lines, "", "  it has withheld nothing"]
    rows = [
        (
            str(one["id"]),
            ("unchecked, " if one["subject"] == "health" else "") + (one["ending"] or one["state"]),
            one["invariant"],
            one["database"],
            one["opened_at"],
            one["ended_at"] or "",
            str(one["messages"]),
        )
        for one in report["withheld"]
    ]
    headings = ("ALERT", "STATE", "INVARIANT", "DATABASE", "OPENED", "ENDED", "WITHHELD")
    return [*lines, "", *("  " + line for line in table(rows, headings=headings))]


def matched_lines(report: dict[str, Any]) -> list[str]:
    """What the matchers match now, for people."""
    found = report["matched"]
    if not found:
        return ["it matches nothing of the catalog in force now"]
    open_ = sum(one["alert"] is not None or one["unchecked"] is not None for one in found)
    rows = [
        (
            one["invariant"],
            one["database"],
            one["severity"],
            one["owner"],
            " ".join(f"alert {number}" for number in (one["alert"], one["unchecked"]) if number is not None),
        )
        for one in found[:MATCHES_SHOWN]
    ]
    more = [f"  … and {len(found) - MATCHES_SHOWN} more"] if len(found) > MATCHES_SHOWN else []
    title = f"it matches {len(found)} now, {open_} of them with an open alert:"
    return [title, *("  " + line for line in table(rows)), *more]


def _line(one: dict[str, Any]) -> str:
    matchers = ", ".join(visible(matcher) for matcher in one["matchers"])
    until = f"{one['starts_at']} … {one['ends_at']}" if one["state"] == "to come" else f"until {one['ends_at']}"
    ended = f" {by_whom(visible(one['ended_by']))}" if one["ended_by"] else ""
    return f"silence {one['id']} ({matchers}): {one['state']}, {until}{ended}"


def _elsewhere(report: dict[str, Any]) -> list[str]:
    return [
        f"  not at {visible(one['name'])}: {visible(one['problem'])}"
        if one["problem"]
        else f"  at {visible(one['name'])}"
        for one in report["elsewhere"]
    ]


def _end_by(report: dict[str, Any]) -> None:
    if any(one["problem"] for one in report["elsewhere"]):
        raise typer.Exit(int(ExitCode.FAILED))


def _say(report: dict[str, Any], lines: list[str], format_: Format) -> None:
    if format_ is Format.JSON:
        say_json(report)
        return
    for line in lines:
        say(line)


def _end(length: str, until: str) -> datetime | timedelta:
    if bool(length) == bool(until):
        raise Refused("a silence needs an end", remedy="give either --for 2h or --until 2026-11-29T18:00:00Z")
    if until:
        return _moment("--until", until)
    duration = parse_duration(length)
    if not duration:
        raise Refused(f"--for {length} is no duration", remedy="write 90m, 2h, 1d")
    return duration


def _moment(option: str, text: str) -> datetime:
    try:
        return utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as problem:
        raise Refused(f"{option} {text} is no moment with a zone", remedy="write 2026-11-29T18:00:00Z") from problem
