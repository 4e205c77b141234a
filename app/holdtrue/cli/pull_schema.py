"""pull-schema: writes the DDL of the tables that invariants use, for scratch databases"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from holdtrue.catalog import load_catalog
from holdtrue.cli.exits import ExitCode
from holdtrue.cli.options import ConfigOption
from holdtrue.cli.quiet import no_log
from holdtrue.cli.terminal import complain, say, visible
from holdtrue.errors import Refused
from holdtrue.model import Failure
from holdtrue.rehearsal import Pulled, pull_schema
from holdtrue.settings import environment, load_settings


def register(app: typer.Typer) -> None:
    """Add ``holdtrue pull-schema``."""
    app.command("pull-schema")(pull)


def pull(
    database: Annotated[str, typer.Argument(metavar="DATABASE", help="A database of holdtrue.yaml.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where to write it; standard output without.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    config: ConfigOption = None,
) -> None:
    """Write the DDL of the tables that a database's invariants use, and of those that they refer to, from a replica.

    It asks with your own login and reads no rows. Ends with 3 if no replica could be asked, or if one of the tables was
    not found there.
    """
    if out is not None and out.exists() and not force:
        raise Refused(f"{out} is there already", remedy="--force replaces it, and what was added to it by hand")
    settings = load_settings(config, os.environ)
    environ = environment(settings.config, os.environ)
    catalog = load_catalog(settings.config, environ=environ)
    with no_log():
        pulled = pull_schema(catalog, database, environ=environ, folder=settings.config.parent)
    if isinstance(pulled, Failure):
        complain(f"holdtrue: could not look: {visible(pulled.sentence)}")
        raise typer.Exit(ExitCode.COULD_NOT_LOOK)
    if not pulled.tables:
        complain(f"holdtrue: none of the tables was found: {visible(', '.join(pulled.missing))}")
        raise typer.Exit(ExitCode.COULD_NOT_LOOK)
    if out is None:
        _print(pulled.text)
    else:
        _write(out, pulled.text)
        count = len(pulled.tables)
        say(
            f"wrote {count} table{'' if count == 1 else 's'} to {visible(str(out))}: {visible(', '.join(pulled.tables))}"
        )
    _say_what_is_missing(pulled)
    raise typer.Exit(ExitCode.COULD_NOT_LOOK if pulled.missing else ExitCode.HOLDS)


def _say_what_is_missing(pulled: Pulled) -> None:
    for one in pulled.left_out:
        complain(f"left out: {visible(one)}")
    for one in pulled.missing:
        complain(f"not found, no table of its own, or not to be seen with this login: {visible(one)}")


def _print(text: str) -> None:
    """Byte for byte into a file or a pipe, whatever the locale; on a terminal no name may move the cursor."""
    if sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        say(visible(text, keep_newlines=True).removesuffix("\n"))
        return
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a schema file that ends half-way would make half a scratch database.

    Raises:
        Refused: it cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        made = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(text)
            made.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
            made.replace(path)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise Refused(f"{path} cannot be written: {problem.strerror}") from problem
