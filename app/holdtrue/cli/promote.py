"""holdtrue promote: makes a ticket of an alert, and writes its barrier test here"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from holdtrue.cli.options import ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.promoting import Asked, Promoting, PromotingByService, PromotingByStore, looked, rehearsed, safe_name
from holdtrue.cli.reading import find_alert, open_through
from holdtrue.cli.terminal import complain, paint, say, say_json, visible
from holdtrue.errors import Refused

Json = dict[str, Any]

KINDS = ("spec", "csv", "json")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("promote")(promote)


def promote(  # noqa: PLR0917  typer makes options of them
    alert: Annotated[str, typer.Argument(metavar="ALERT", help="Its number, or NAME[@DATABASE] of the open one.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The folder to make. [default: ./tests/incidents/<ticket>]"),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Print exactly what would leave; record and write nothing.")
    ] = False,
    draft: Annotated[
        str, typer.Option("--draft", metavar="CODE", help="What a preview printed: make exactly its files.")
    ] = "",
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="KIND", help="Files beside the test: spec, csv, json; several with commas."),
    ] = None,
    untried: Annotated[
        bool,
        typer.Option("--untried", help="Take the rows though nobody could try them, every file marked NOT LOOKED."),
    ] = False,
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Make a ticket of an alert and write its barrier test. Exit code: 0 if it is there."""
    beside = kinds_of(also or ())
    through: AbstractContextManager[Promoting] = open_through(config, url, PromotingByService, PromotingByStore)
    with through as promoting:
        asked = Asked(find_alert(promoting.reading, alert), draft, beside, untried)
        shown = promoting.preview(asked)
        if preview:
            _show(shown, format_, asked)
            return
        # Where it would be written is settled before anything is recorded.
        folder = out if out is not None else Path("tests") / "incidents" / safe_name(str(shown["id"]))
        refuse_present(folder)
        # With the draft of what was just made: what was tried is what is written.
        ticket = promoting.promote(replace(asked, draft=str(shown.get("draft") or draft)))
    write_folder(folder, ticket["files"])
    if not looked(ticket):
        _say_not_looked(ticket)
    if format_ is Format.JSON:
        say_json({**{name: ticket[name] for name in ticket if name != "files"}, "folder": str(folder)})
        return
    if looked(ticket):
        say(f"  {visible(rehearsed(ticket)[1])}")
    test = next((name for name in sorted(ticket["files"]) if name.startswith("test_")), "")
    say(paint(f"ticket {visible(str(ticket['id']))}: {len(ticket['files'])} files in {visible(str(folder))}", "bold"))
    say(f"  wire run_a and run_b in {visible(str(folder / test))},")
    say(f"  and barrier_schema once, as README.md there says; then: pytest {visible(str(folder))}")


def kinds_of(given: Sequence[str]) -> tuple[str, ...]:
    """The kinds of files that ``--also`` names, each once.

    Raises:
        Refused: there is no such kind.
    """
    named = [one.strip() for text in given for one in text.split(",") if one.strip()]
    unknown = [one for one in named if one not in KINDS]
    if unknown:
        raise Refused(f"--also {visible(unknown[0])} is no kind of file", remedy=f"give {', '.join(KINDS)}")
    return tuple(dict.fromkeys(named))


def refuse_present(folder: Path) -> None:
    """Never write over a test that may have been wired.

    Raises:
        Refused: the folder is there and has something in it, or is no folder.
    """
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise Refused(
            f"{folder} is there already, and its test may have been wired",
            remedy="move it away, or give --out another folder",
        )


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files and then give the folder its name, so that half a ticket never looks like one.

    Raises:
        ServiceError: a file's name leads elsewhere; nothing was written.
        Refused: the folder came about meanwhile, or cannot be written.
    """
    names = {safe_name(str(path)): str(text) for path, text in files.items()}
    partial = folder.parent / f".{folder.name}.{os.getpid()}.partial"
    try:
        partial.mkdir(parents=True)
        for name, text in names.items():
            (partial / name).write_text(text, encoding="utf-8", newline="")
        refuse_present(folder)
        partial.replace(folder)
    except OSError as problem:
        raise Refused(
            f"{folder} cannot be written: {problem.strerror or type(problem).__name__}",
            remedy="give --out another folder",
        ) from problem
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _say_not_looked(ticket: Json) -> None:
    complain(
        paint("  NOT LOOKED: ", "yellow", stream=sys.stderr)
        + f"{visible(rehearsed(ticket)[1])}; nobody knows yet whether these rows break the rule"
    )


def _show(ticket: Json, format_: Format, asked: Asked) -> None:
    if not looked(ticket):
        _say_not_looked(ticket)
    if format_ is Format.JSON:
        say_json(ticket)
        return
    for path in sorted(ticket["files"]):
        say(paint(f"── {visible(path)}", "bold"))
        say(visible(ticket["files"][path].removesuffix("\n"), keep_newlines=True))
    if ticket.get("draft"):
        more = (f" --also {','.join(asked.also)}" if asked.also else "") + (" --untried" if asked.untried else "")
        complain(f"exactly these files: holdtrue promote {asked.number} --draft {visible(str(ticket['draft']))}{more}")
