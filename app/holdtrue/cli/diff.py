"""diff: the committed and the edited text of an invariant side by side, on a replica, in one snapshot"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer

from holdtrue.catalog import load_catalog
from holdtrue.cli.exits import ExitCode, worst
from holdtrue.cli.looking import ACCEPTS_UNKNOWN, failure_as_data, position_as_data, say_failure, where
from holdtrue.cli.options import ConfigOption, DatabaseOption, Format, FormatOption
from holdtrue.cli.quiet import no_log
from holdtrue.cli.terminal import paint, say, say_json, visible
from holdtrue.inspection import (
    Answered,
    Changed,
    Compared,
    OnlyKey,
    Pair,
    Side,
    changes,
    connected,
    databases_of,
    diff_now,
    pair_of,
    read_former,
)
from holdtrue.ledger import KeyHasher
from holdtrue.model import Outcome, show_duration
from holdtrue.settings import environment, load_settings

_KEYS_SHOWN = 20
_KEYS_TOLD = 1000
_EDITED = "as edited"
_EXITS = {
    Answered.SAME: ExitCode.HOLDS,
    Answered.DIFFERENT: ExitCode.VIOLATED,
    Answered.COULD_NOT_LOOK: ExitCode.COULD_NOT_LOOK,
}
_COLOURS = {Answered.SAME: "green", Answered.DIFFERENT: "red", Answered.COULD_NOT_LOOK: "yellow"}


def register(app: typer.Typer) -> None:
    """Add ``holdtrue diff``."""
    app.command("diff")(diff)


def diff(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The invariant, by its name now or then.")],
    *,
    database: DatabaseOption = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="REV|PATH", help="A git revision, a folder with a holdtrue.yaml, or a file."),
    ] = None,
    format_: FormatOption = Format.TEXT,
    config: ConfigOption = None,
) -> None:
    """Ask the committed and the edited text of an invariant side by side, of the same rows, and save nothing.

    Ends with 0 if both find the same, 1 if they do not, 2 if a catalog or the arguments are refused, 3 if one of them
    could not be looked at.
    """
    settings = load_settings(config, os.environ)
    environ = environment(settings.config, os.environ)
    catalog = load_catalog(settings.config, environ=environ, allow_empty=True)
    former = read_former(settings.config, against, environ=environ)
    pair = pair_of(name, former.catalog, catalog, former.label)
    asked, gone = databases_of(pair, catalog, database)
    secret = settings.ledger_secret
    hasher = KeyHasher(secret.get_secret_value().encode() if secret is not None else secrets.token_bytes(32))
    configs = {one.name: one for one in catalog.config.databases}
    with no_log(), connected(catalog, environ, settings.config.parent, command="diff") as databases:
        answers = [diff_now(databases, pair, configs[one], hasher) for one in asked]
    codes = [_EXITS[one.difference.answered] for one in answers]
    code = worst([*codes, *([ExitCode.COULD_NOT_LOOK] if gone else [])])
    changed = changes(pair.former, pair.edited) if pair.former is not None and pair.edited is not None else ()
    notes = [note for note in (pair.note, *former.notes) if note]
    notes += [f"{one} is no database of holdtrue.yaml any more: not asked" for one in gone]
    sides = [side for one in answers for side in (one.former, one.edited) if side is not None]
    if any(side.outcome is Outcome.VIOLATED and side.invariant.key for side in sides):
        notes.append(ACCEPTS_UNKNOWN)
    if format_ is Format.JSON:
        say_json(
            {
                "exit_code": int(code),
                "accepts_known": False,
                "invariant": pair.name,
                "against": former.label,
                "notes": notes,
                "same_definition": _same_definition(pair),
                "changed": [
                    {"key": one.name, "before": one.before, "after": one.after, "decides": one.decides}
                    for one in changed
                ],
                "databases": [_as_data(one) for one in answers],
            }
        )
    else:
        _say(pair, former.label, notes, changed, answers)
    raise typer.Exit(code)


def _same_definition(pair: Pair) -> bool:
    return pair.former is not None and pair.edited is not None and pair.former.definition == pair.edited.definition


def _say(pair: Pair, label: str, notes: Sequence[str], changed: Sequence[Changed], answers: Sequence[Compared]) -> None:
    say(paint(f"{pair.name}: {visible(label)} beside the files as they are", "bold"))
    for note in notes:
        say(f"    {visible(note)}")
    if pair.former is not None and pair.edited is not None:
        _say_changes(pair, changed)
    for one in answers:
        say()
        _say_one(one, label)


def _say_changes(pair: Pair, changed: Sequence[Changed]) -> None:
    if _same_definition(pair):
        said = "the definition is the same" + (": space or comments alone were changed" if _texts(changed) else "")
        say(f"    {said}")
    for one in changed:
        if _same_definition(pair) and one.decides:
            continue
        beside = "" if one.decides else " (decides nothing of what counts)"
        say(f"    {one.name}: {visible(one.before) or '—'} → {visible(one.after) or '—'}{beside}")


def _texts(changed: Sequence[Changed]) -> bool:
    return any(one.decides for one in changed)


def _say_one(one: Compared, label: str) -> None:
    found = one.difference
    say(f"{paint(found.answered.value, _COLOURS[found.answered])}  @ {visible(one.database)}  in {_took(one.duration)}")
    if one.position is not None:
        together = "both in one snapshot" if one.one_snapshot else "not in one snapshot: one of them failed"
        if one.together and not one.one_snapshot:
            together = "both in one transaction; whether that sees one snapshot, nobody knows of this kind of database"
        say(f"    {where(one.position)}; {together if one.former and one.edited else 'one of them is not there'}")
    width = max(len(label), len(_EDITED))
    for name, side in ((label, one.former), (_EDITED, one.edited)):
        say(f"    {visible(name.ljust(width))}  {_side(side)}")
    if found.why:
        say(f"    keys: {visible(found.why)}")
    for name, keys in ((label, found.only_former), (_EDITED, found.only_edited)):
        if keys:
            _say_keys(f"only {'in ' if name == label else ''}{visible(name)}", keys, sampled=found.of_a_sample)
    if found.in_both is not None and found.answered is Answered.DIFFERENT:
        say(f"    in both: {found.in_both}{' (of a sample)' if found.of_a_sample else ''}")


def _say_keys(title: str, keys: Sequence[OnlyKey], *, sampled: bool) -> None:
    say(f"    {title}: {len(keys)}{' (of a sample)' if sampled else ''}")
    for key in keys[:_KEYS_SHOWN]:
        beside = f"  ({key.otherwise} in the other)" if key.otherwise else ""
        say(f"        {visible(key.shown) or key.key[:12]}{beside}")
    if len(keys) > _KEYS_SHOWN:
        say(f"        … and {len(keys) - _KEYS_SHOWN} more")


def _side(side: Side | None) -> str:
    if side is None:
        return "not there"
    if side.examined is None or not side.good:
        return f"could not look: {say_failure(side.failure)}" if side.failure is not None else "could not look"
    tallied = side.examined.tallied
    number = f"{tallied.counted}" if side.examined.complete else f"at least {tallied.counted}"
    parts = [f"{number} counted"]
    parts += [
        f"{count} {word}" for count, word in ((tallied.settling, "settling"), (tallied.waived, "waived")) if count
    ]
    outcome = "holds" if side.outcome is Outcome.HELD else "violated"
    return f"{outcome}: {' · '.join(parts)}, statement {_took(side.examined.statement)}"


def _took(duration: timedelta) -> str:
    return show_duration(duration)


def _as_data(one: Compared) -> dict[str, object]:
    found = one.difference
    return {
        "database": one.database,
        "answer": found.answered.value,
        "position": position_as_data(one.position) if one.position is not None else None,
        "one_snapshot": one.one_snapshot,
        "duration_seconds": round(one.duration.total_seconds(), 6),
        "former": _side_as_data(one.former),
        "edited": _side_as_data(one.edited),
        "only_former": _keys_as_data(found.only_former),
        "only_edited": _keys_as_data(found.only_edited),
        "in_both": found.in_both,
        "of_a_sample": found.of_a_sample,
        "why": found.why,
    }


def _side_as_data(side: Side | None) -> dict[str, object] | None:
    if side is None:
        return None
    examined = side.examined
    return {
        "invariant": side.invariant.name,
        "definition": side.invariant.definition,
        "outcome": side.outcome.value,
        "count": examined.tallied.counted if examined is not None and side.good else None,
        "complete": examined.complete if examined is not None else False,
        "settling": examined.tallied.settling if examined is not None else None,
        "waived": examined.tallied.waived if examined is not None else None,
        "statement_seconds": round(examined.statement.total_seconds(), 6) if examined is not None else None,
        "failure": failure_as_data(side.failure),
    }


def _keys_as_data(keys: Sequence[OnlyKey] | None) -> dict[str, object] | None:
    if keys is None:
        return None
    told = [{"key": one.key, "shown": one.shown, "otherwise": one.otherwise or None} for one in keys[:_KEYS_TOLD]]
    return {"count": len(keys), "keys": told}
