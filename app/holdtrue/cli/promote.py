"""holdtrue promote: makes a ticket of an alert, and writes its barrier test here"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from holdtrue.cli.options import ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.reading import Reading, ThroughService, ThroughStore, find_alert, open_through
from holdtrue.cli.terminal import complain, paint, say, say_json, visible
from holdtrue.errors import Refused, ServiceError

if TYPE_CHECKING:
    from holdtrue.cli.client import ServiceClient
    from holdtrue.promotion import Rehearsal
    from holdtrue.store import Store

Json = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}", re.ASCII)
_BY_STORE = "store"
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
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Make a ticket of an alert and write its barrier test. Exit code: 0 if it is there."""
    beside = kinds_of(also or ())
    with _open_promoting(config, url) as promoting:
        number = find_alert(promoting.reading, alert)
        shown = promoting.promote(number, preview=True, draft=draft, also=beside)
        if preview:
            _show(shown, format_, number, beside)
            return
        # Where it would be written is settled before anything is recorded.
        folder = out if out is not None else Path("tests") / "incidents" / safe_name(str(shown["id"]))
        refuse_present(folder)
        # With the draft of what was just made: what was tried is what is written.
        ticket = promoting.promote(number, preview=False, draft=str(shown.get("draft") or draft), also=beside)
    write_folder(folder, ticket["files"])
    if format_ is Format.JSON:
        say_json({**{name: ticket[name] for name in ticket if name != "files"}, "folder": str(folder)})
        return
    _say_rehearsed(ticket)
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


def ticket_of(answer: Json) -> Json:
    """The answer, if it is a ticket whose files can be written; the service may be anybody.

    Raises:
        ServiceError: it is none.
    """
    files = answer.get("files")
    if isinstance(answer.get("id"), str) and isinstance(files, dict) and files:
        texts = [text.encode("utf-8", "replace").decode() == text for text in files.values() if isinstance(text, str)]
        if len(texts) == len(files) and all(texts):
            return answer
    raise ServiceError("what the service sent is no ticket; nothing was written")


def safe_name(name: str) -> str:
    """The name, if it can be one file or folder below ours and nothing else.

    Raises:
        ServiceError: a service sent a name that would lead elsewhere.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise ServiceError("the service sent a file name that leads out of the folder; nothing was written")
    return name


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


class _Promoting(Protocol):
    """Promotion through the service or the store."""

    @property
    def reading(self) -> Reading:
        """Where an alert is looked up."""
        ...

    def promote(self, number: int, *, preview: bool, draft: str, also: Sequence[str]) -> Json:
        """The ticket in the shape of `holdtrue.reports`."""
        ...


def _open_promoting(config: Path | None, url: str | None) -> AbstractContextManager[_Promoting]:
    return open_through(config, url, _ThroughService, _ThroughStore)


class _ThroughService:
    """Asks /api/v1; the files come back."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self.reading: Reading = ThroughService(client)

    def promote(self, number: int, *, preview: bool, draft: str, also: Sequence[str]) -> Json:
        body: Json = {
            "preview": preview,
            **({"draft": draft} if draft else {}),
            **({"also": list(also)} if also else {}),
        }
        return ticket_of(self._client.post("alerts", str(number), "promote", body=body))


class _ThroughStore:
    """Promotes under the catalog that is in force in the store."""

    def __init__(self, store: Store, environ: Mapping[str, str]) -> None:
        self._store = store
        self._reading = ThroughStore(store, environ)
        self._environ = environ
        self._rehearsal: Rehearsal | None = None

    @property
    def reading(self) -> Reading:
        return self._reading

    def promote(self, number: int, *, preview: bool, draft: str, also: Sequence[str]) -> Json:
        from holdtrue import promotion, reports  # only where the store is opened: the client needs none of it
        from holdtrue.rehearsal import IncidentRehearsal
        from holdtrue.scaffolding import Extra

        catalog = self._reading.catalog()
        if catalog is None:
            raise Refused("no catalog is in force in the store", remedy="run `holdtrue serve` once")
        make = promotion.preview if preview else promotion.promote
        if self._rehearsal is None:
            self._rehearsal = IncidentRehearsal(self._environ)
        now = self._store.now()
        return reports.ticket(
            make(
                self._store,
                catalog,
                number,
                by=_BY_STORE,
                now=now,
                rehearsal=self._rehearsal,
                draft=draft,
                also=tuple(map(Extra, also)),
            )
        )


def _say_rehearsed(ticket: Json) -> None:
    """What came of trying the rows; a service may be older, and then nothing is known."""
    rehearsed = ticket.get("rehearsed")
    found = (
        rehearsed if isinstance(rehearsed, dict) else {"result": "not looked", "sentence": "the service does not say"}
    )
    sentence = visible(str(found.get("sentence", "")))
    if found.get("result") == "breaks":
        say(f"  {sentence}")
    else:
        complain(
            paint("  not looked: ", "yellow", stream=sys.stderr)
            + f"{sentence}; nobody knows yet whether these rows break the rule"
        )


def _show(ticket: Json, format_: Format, number: int, also: Sequence[str]) -> None:
    if format_ is Format.JSON:
        say_json(ticket)
        return
    for path in sorted(ticket["files"]):
        say(paint(f"── {visible(path)}", "bold"))
        say(visible(ticket["files"][path].removesuffix("\n"), keep_newlines=True))
    if ticket.get("draft"):
        beside = f" --also {','.join(also)}" if also else ""
        complain(f"exactly these files: holdtrue promote {number} --draft {visible(str(ticket['draft']))}{beside}")
