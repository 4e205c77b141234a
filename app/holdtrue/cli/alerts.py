"""holdtrue alerts: list, show, ack, unack; what accepting and silencing add is beside it"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from holdtrue.cli import accepting
from holdtrue.cli.acting import open_acting
from holdtrue.cli.options import AlertArgument, ByOption, ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.reading import find_alert, open_reading
from holdtrue.cli.silences import add_silences, silenced_until
from holdtrue.cli.terminal import marked_table, paint, say, say_json, table, visible
from holdtrue.model import by_whom

ROWS_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="The episodes in which an invariant is broken.", no_args_is_help=True)
    group.command("list")(list_)
    group.command("show")(show)
    accepting.register(group)
    group.command("ack")(ack)
    group.command("unack")(unack)
    add_silences(group)
    app.add_typer(group, name="alerts")


def list_(
    all_: Annotated[bool, typer.Option("--all", help="Those that have ended too.")] = False,
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """List the open alerts, newest first. Exit code: 0 if the list could be read, however long it is."""
    with open_reading(config, url) as reading:
        report = reading.alerts(open_only=not all_)
    if format_ is Format.JSON:
        say_json(report)
        return
    for line in list_lines(report, ended_too=all_):
        say(line)


def show(
    alert: AlertArgument,
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Show one alert: rows (masked), timeline, messages, evidence. Exit code: 0 if there is one."""
    with open_reading(config, url) as reading:
        report = reading.alert(find_alert(reading, alert))
    if format_ is Format.JSON:
        say_json(report)
        return
    for line in show_lines(report):
        say(line)


def ack(  # noqa: PLR0917  typer makes options of them
    alert: AlertArgument,
    note: Annotated[str, typer.Option("--note", "-n", metavar="TEXT", help="What you know, for the others.")] = "",
    by: ByOption = "",
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Say that you have an alert: no reminders until it ends or a key joins. Exit code: 0 done, 2 if it has ended."""
    with open_acting(config, url) as acting:
        report = acting.acknowledge(find_alert(acting.reading, alert), note, by)
    _say_whose(report, format_)


def unack(
    alert: AlertArgument,
    by: ByOption = "",
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Give an alert back: reminders are owed again. Exit code: 0 done, 2 if nobody had it."""
    with open_acting(config, url) as acting:
        report = acting.unacknowledge(find_alert(acting.reading, alert), by)
    _say_whose(report, format_)


def _say_whose(report: dict[str, Any], format_: Format) -> None:
    if format_ is Format.JSON:
        say_json(report)
        return
    whose = f"{visible(report['acknowledged_by'])} has it" if report["acknowledged_by"] else "nobody has it"
    say(f"alert {report['id']} ({visible(report['invariant'])} on {visible(report['database'])}): {whose}")


def list_lines(report: dict[str, Any], *, ended_too: bool) -> list[str]:
    """The list for people."""
    if not report["alerts"]:
        return [
            "no alert"
            if ended_too
            else "no open alert (this says nothing about what is unknown: see `holdtrue overview`)"
        ]
    rows = [
        (
            str(one["id"]),
            _state(one),
            one["invariant"],
            one["database"],
            one["severity"],
            _count(one),
            one["fired_at"] or one["opened_at"],
            one["ended_at"] or "",
            ", ".join(_quiet(one)),
        )
        for one in report["alerts"]
    ]
    headings = (
        "ALERT",
        "STATE",
        "INVARIANT",
        "DATABASE",
        "SEVERITY",
        "COUNT",
        "SINCE",
        "ENDED" if ended_too else "",
        "",
    )
    return table(rows, headings=headings)


def show_lines(report: dict[str, Any]) -> list[str]:
    """One alert for people."""
    facts = [
        ("state", _state(report) + (", at first look" if report["at_first_look"] else "")),
        ("severity", f"{report['severity']}" + (f", owner {report['owner']}" if report["owner"] else "")),
        ("count", f"{_count(report)} (peak {report['peak']})" if report["subject"] == "violation" else ""),
        ("opened", report["opened_at"]),
        ("fired", report["fired_at"] or ""),
        ("ended", f"{report['ended_at']} ({report['ending']})" if report["ended_at"] else ""),
        ("acknowledged", _whose(report)),
        ("silenced", silenced_until(report).removeprefix("silenced ")),
        ("window", _window(report)),
        ("evidence", _evidence(report)),
        ("deploys", "; ".join(_deploys(report))),
        ("tickets", ", ".join(report["tickets"])),
    ]
    title = f"alert {report['id']}: {visible(report['invariant'])} on {visible(report['database'])}"
    out = [paint(title, "bold"), *("  " + line for line in table([one for one in facts if one[1]]))]
    out += _part("rows (masked)", _rows(report["last_run"] or report["first_run"]))
    events = [
        (f"{one['number']}", one["at"], one["name"], ", ".join(one["marks"]), f"{one['count']}", one["detail"])
        for one in report["events"]
    ]
    out += _part("timeline", table(events))
    messages = [
        (f"{one['number']}", one["notifier"], one["reason"], one["state"], one["sent_at"] or "", one["problem"])
        for one in report["messages"]
    ]
    out += _part("messages", table(messages))
    if report["subject"] == "violation" and report["evidence"]:
        out += ["", to_promote(report["id"], report["evidence"])]
    return out


def to_promote(number: int, evidence: Sequence[dict[str, Any]]) -> str:
    """How a barrier test is made of an alert; no promise where what was kept says already that it may be refused."""
    command = f"holdtrue promote {number}"
    if any(one["rows"] and "permission denied" not in (one["incomplete"] or "") for one in evidence):
        return f"to make a barrier test of it: {command}"
    reasons = "; ".join(sorted({one["incomplete"] for one in evidence if one["incomplete"]})) or "no rows were kept"
    return f"a barrier test of it may be refused ({command} tells): {visible(reasons)}"


def _part(title: str, lines: list[str]) -> list[str]:
    return ["", f"  {title}", *("    " + line for line in lines)] if lines else []


def _rows(run: dict[str, Any] | None) -> list[str]:
    sample = (run or {}).get("sample")
    if not sample or not sample["rows"]:
        return []
    rows = [["NULL" if cell is None else cell for cell in row] for row in sample["rows"][:ROWS_SHOWN]]
    return marked_table(rows, sample["columns"], sample["novelties"][:ROWS_SHOWN])


def _state(one: dict[str, Any]) -> str:
    if one["subject"] == "waiver":
        return "expiring, told"
    about = "unchecked, " if one["subject"] == "health" else ""
    return f"{about}{one['ending'] or ('confirming' if one['confirming'] else one['state'])}"


def _quiet(one: dict[str, Any]) -> list[str]:
    whose = [f"{one['acknowledged_by']} has it"] if one["acknowledged_by"] and not one["ended_at"] else []
    return whose + [said for said in (silenced_until(one),) if said]


def _whose(report: dict[str, Any]) -> str:
    if not report["acknowledged_by"]:
        return ""
    note = f": {report['note']}" if report["note"] else ""
    return f"{by_whom(report['acknowledged_by'])} at {report['acknowledged_at']}{note}"


def _count(one: dict[str, Any]) -> str:
    if one["subject"] != "violation":
        return ""
    return f"{one['count']}" if one["complete"] else f"at least {one['count']}"


def _window(report: dict[str, Any]) -> str:
    before, first = report["last_good_before"], report["first_run"]
    if report["subject"] != "violation" or first is None:
        return ""
    return f"{before['started_at'] if before else 'no run before it'} … {first['started_at']}"


def _deploys(report: dict[str, Any]) -> list[str]:
    found = report.get("deploys")  # an older service does not tell
    if found is None:
        return ["not known: nobody told of any (`holdtrue deploys add`)"]
    return [f"{one['service']} {one['version']}, {one['where']}" for one in found] or [
        "none in the window or the day before"
    ]


def _evidence(report: dict[str, Any]) -> str:
    if not report["evidence"]:
        return "none" if report["subject"] == "violation" else ""
    rows = sum(one["rows"] for one in report["evidence"])
    incomplete = sorted({one["incomplete"] for one in report["evidence"] if one["incomplete"]})
    keys = len(report["evidence"])
    return f"{rows} row{'' if rows == 1 else 's'} behind {keys} key{'' if keys == 1 else 's'}" + (
        f"; incomplete: {'; '.join(incomplete)}" if incomplete else ""
    )
