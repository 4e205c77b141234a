"""run: asks the replicas now, with the caller's own login, and saves nothing"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from holdtrue.catalog import load_catalog
from holdtrue.cli.annotations import annotation, shown_path
from holdtrue.cli.exits import ExitCode, worst
from holdtrue.cli.junit import Case, CaseResult, junit
from holdtrue.cli.looking import ACCEPTS_UNKNOWN, failure_as_data, position_as_data, say_failure, seconds, where
from holdtrue.cli.options import ConfigOption, ReportFormat, ReportFormatOption, SelectOption
from holdtrue.cli.progress import progress
from holdtrue.cli.quiet import no_log
from holdtrue.cli.terminal import marked_table, paint, say, say_json, visible
from holdtrue.errors import Refused
from holdtrue.inspection import Asked, ask_now, choose, connected
from holdtrue.ledger import KeyHasher
from holdtrue.model import Disposition, FailureReason, Outcome, Returns, Row, show_duration, show_moment
from holdtrue.model.masking import excerpt
from holdtrue.settings import environment, load_settings

_CELL_LIMIT = 60
_SHOWN_ROWS = 20
_EXITS = {
    Outcome.HELD: ExitCode.HOLDS,
    Outcome.VIOLATED: ExitCode.VIOLATED,
    Outcome.ERRORED: ExitCode.COULD_NOT_LOOK,
    Outcome.SKIPPED: ExitCode.COULD_NOT_LOOK,
}
_WORDS = {
    Outcome.HELD: ("holds", "green"),
    Outcome.VIOLATED: ("violated", "red"),
    Outcome.ERRORED: ("could not look", "yellow"),
    Outcome.SKIPPED: ("could not look", "yellow"),
}


def register(app: typer.Typer) -> None:
    """Add ``holdtrue run``."""
    app.command("run")(run)


def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Invariants; all if none.")] = None,
    select: SelectOption = None,
    format: ReportFormatOption = ReportFormat.TEXT,
    raw: Annotated[
        bool, typer.Option("--raw", help="Show unmasked rows and the servers' own messages, on this terminal only.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Ask now: run invariants on the replicas of holdtrue.yaml, with its logins, and save nothing.

    Judges only the runs it has just made. Ends with 0 if all hold, 1 if one is violated, 2 if the catalog or the
    arguments are refused, 3 if one could not be looked at (1 wins over 3).
    """
    if raw and format in (ReportFormat.JUNIT, ReportFormat.GITHUB):
        raise Refused(f"--raw shows unmasked rows, and --format {format} is for others to read", remedy="leave one out")
    settings = load_settings(config, os.environ)
    environ = environment(settings.config, os.environ)
    catalog = load_catalog(settings.config, environ=environ)
    chosen = choose(catalog, names or (), select or ())
    # With the service's secret masked values read as on its pages; without one they are stand-ins of this run alone.
    secret = settings.ledger_secret
    hasher = KeyHasher(secret.get_secret_value().encode() if secret is not None else secrets.token_bytes(32))
    with no_log(), connected(catalog, environ, settings.config.parent) as databases:
        answers = ask_now(databases, catalog, chosen, hasher, raw=raw, on_done=progress(len(chosen), "asked"))
    code = worst(_EXITS[one.outcome] for one in answers)
    match format:
        case ReportFormat.JSON:
            say_json({"exit_code": int(code), "accepts_known": False, "asked": [_as_data(one) for one in answers]})
        case ReportFormat.JUNIT:
            say(junit("holdtrue run", [_case(one, settings.config) for one in answers]))
        case ReportFormat.GITHUB:
            for one in answers:
                if one.outcome is not Outcome.HELD:
                    say(_annotation(one, settings.config))
            say(_summary(answers))
        case _:
            for one in answers:
                _say(one)
            say(_summary(answers))
    raise typer.Exit(code)


def _say(one: Asked) -> None:
    word, colour = _WORDS[one.outcome]
    parts = [paint(word, colour), f"{one.invariant.name} @ {visible(one.database)}"]
    if one.examined is not None and one.outcome is not Outcome.ERRORED:
        parts.append(_count(one))
    parts.append(f"in {show_duration(one.duration)}")
    say("  ".join(parts))
    for line in _details(one):
        say(f"    {line}")


def _count(one: Asked) -> str:
    if one.examined is None:
        return ""
    tallied = one.examined.tallied
    number = f"{tallied.counted}" if one.examined.complete else f"at least {tallied.counted}"
    noun = "row" if tallied.counted == 1 and one.examined.complete else "rows"
    text = f"{number} {noun}"
    if one.outcome is Outcome.HELD and tallied.counted:
        text += f" (tolerated: {one.invariant.policy.tolerate})"
    beside = [
        f"{count} {word}" for count, word in ((tallied.settling, "settling"), (tallied.waived, "waived")) if count
    ]
    ended = _ended(one)
    if ended and tallied.counted:
        beside.append(f"{ended} waiver{' has' if ended == 1 else 's have'} ended")
    return " · ".join([text, *beside])


def _ended(one: Asked) -> int:
    return sum(waiver.until <= one.started_at for waiver in one.invariant.waive)


def _details(one: Asked) -> list[str]:
    lines = []
    if one.failure is not None:
        lines.append(f"why: {say_failure(one.failure)}")
        if one.failure.raw:
            lines.append(f"the server said: {visible(one.failure.raw)}")
        elif one.raw is None and one.failure.reason is FailureReason.QUERY:
            lines.append(f"`holdtrue run {one.invariant.name} --raw` shows what the server said")
    if one.examined is not None:
        lines.append(where(one.examined.position, datetime.now(UTC) - one.started_at))
        if one.examined.rows_note:
            lines.append(visible(one.examined.rows_note))
    if one.outcome is Outcome.VIOLATED or (one.examined is not None and one.examined.tallied.counted):
        lines += _rows(one)
        if one.invariant.runbook_url:
            lines.append(f"runbook: {visible(one.invariant.runbook_url)}")
    return lines


def _rows(one: Asked) -> list[str]:
    headings, rows, hidden = _sample(one)
    dispositions = _dispositions(one)
    if not rows:
        return []
    names = [f"{name} (masked)" if name in hidden else name for name in headings]
    cells = [["NULL" if cell is None else excerpt(cell, _CELL_LIMIT) for cell in row] for row in rows]
    all_count = set(dispositions) <= {Disposition.COUNTED}
    lines = marked_table(cells, names, () if all_count else dispositions)
    counted = one.examined.tallied.counted if one.examined is not None else 0
    shown = sum(disposition is Disposition.COUNTED for disposition in dispositions)
    if counted > shown:
        lines.append(f"… and {counted - shown} more")
    return lines


def _sample(one: Asked) -> tuple[tuple[str, ...], tuple[Row, ...], frozenset[str]]:
    """Headings, rows, and which columns are masked; unmasked where the caller asked for it."""
    if one.raw is not None and one.invariant.returns is Returns.ROWS:
        return one.raw.columns, one.raw.rows[:_SHOWN_ROWS], frozenset()
    if one.examined is None:
        return (), (), frozenset()
    sample = one.examined.tallied.sample
    return sample.columns, sample.rows[:_SHOWN_ROWS], sample.masked


def _dispositions(one: Asked) -> tuple[Disposition, ...]:
    """What the rows of the sample are, by row."""
    if one.raw is not None and one.invariant.returns is Returns.ROWS:
        return one.raw.dispositions[:_SHOWN_ROWS]
    if one.examined is None:
        return ()
    sample = one.examined.tallied.sample
    said = sample.novelties or ("",) * len(sample.rows)
    return tuple(Disposition(word) if word else Disposition.COUNTED for word in said)[:_SHOWN_ROWS]


def _summary(answers: tuple[Asked, ...]) -> str:
    counts: dict[str, int] = {}
    for one in answers:
        word = _WORDS[one.outcome][0]
        counts[word] = counts.get(word, 0) + 1
    said = ", ".join(f"{counts[word]} {word}" for word in ("violated", "could not look", "holds") if word in counts)
    # Only a row that has a key can have been accepted.
    accepts = any(one.outcome is Outcome.VIOLATED and one.invariant.key for one in answers)
    return f"{len(answers)} asked: {said}{f' ({ACCEPTS_UNKNOWN})' if accepts else ''}"


def _case(one: Asked, config: Path) -> Case:
    results = {Outcome.HELD: CaseResult.PASSED, Outcome.VIOLATED: CaseResult.FAILURE}
    place = one.invariant.place
    return Case(
        suite=one.database,
        group=one.database,
        name=one.invariant.name,
        seconds=one.duration.total_seconds(),
        result=results.get(one.outcome, CaseResult.ERROR),
        kind=_WORDS[one.outcome][0],
        message=_message(one),
        body=[*([one.invariant.description] if one.invariant.description else []), *_details(one)],
        file=shown_path(config, place.file) if place else "",
        line=place.line if place else 0,
    )


def _annotation(one: Asked, config: Path) -> str:
    # No rows here: an annotation is read by whoever may read the pull request.
    title = f"{one.invariant.name} @ {one.database}: {_WORDS[one.outcome][0]}"
    message = "\n".join(filter(None, (_message(one), one.invariant.description)))
    return annotation("error", message, config=config, place=one.invariant.place, title=title)


def _message(one: Asked) -> str:
    if one.outcome is Outcome.ERRORED or one.examined is None:
        return say_failure(one.failure) if one.failure is not None else "could not look"
    return _count(one)


def _as_data(one: Asked) -> dict[str, object]:
    examined = one.examined
    headings, rows, hidden = _sample(one)
    return {
        "invariant": one.invariant.name,
        "database": one.database,
        "outcome": one.outcome.value,
        "verdict": _WORDS[one.outcome][0],
        "severity": one.invariant.severity.value,
        "owner": one.invariant.owner,
        "started_at": show_moment(one.started_at),
        "duration_seconds": seconds(one.duration),
        "statement_seconds": seconds(examined.statement) if examined is not None else None,
        "count": examined.tallied.counted if examined is not None and one.outcome is not Outcome.ERRORED else None,
        "complete": examined.complete if examined is not None else False,
        "returned": examined.tallied.returned if examined is not None else None,
        "settling": examined.tallied.settling if examined is not None else None,
        "waived": examined.tallied.waived if examined is not None else None,
        "waivers_ended": _ended(one),
        "tolerate": one.invariant.policy.tolerate,
        "failure": failure_as_data(one.failure),
        "position": position_as_data(examined.position) if examined is not None else None,
        "note": examined.rows_note if examined is not None else "",
        "sample": {
            "columns": list(headings),
            "rows": [list(row) for row in rows],
            "masked": sorted(hidden),
            "dispositions": [disposition.value for disposition in _dispositions(one)],
        },
    }
