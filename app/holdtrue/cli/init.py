"""init: writes a first holdtrue.yaml, a first invariant and a secret of one's own"""

from __future__ import annotations

import os
import re
import secrets
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from holdtrue.cli.exits import ExitCode
from holdtrue.cli.terminal import complain, say, visible

_SECRET = "HOLDTRUE_LEDGER_SECRET"  # noqa: S105  the variable's name
_FILES = ("holdtrue.yaml", "invariants/first.yaml", "schema.sql")
_IGNORED = (".env", ".venv/", "holdtrue.db*", "app.db*")


def register(app: typer.Typer) -> None:
    """Add ``holdtrue init``."""
    app.command("init")(init)


def init(
    folder: Annotated[Path, typer.Argument(help="Where; it is made if it is not there.")] = Path(),
) -> None:
    """Write a commented holdtrue.yaml, a first invariant, its tables, .env with a secret, and lines in .gitignore.

    Nothing that is there is overwritten: if a file is in the way, nothing is written and the exit code is 2.
    """
    in_the_way = [name for name in _FILES if os.path.lexists(folder / name)]
    if in_the_way:
        for name in in_the_way:
            complain(f"holdtrue: {visible(str(folder / name))} is there already; nothing was written")
        raise typer.Exit(ExitCode.REFUSED)
    try:
        _write(folder)
    except OSError as problem:
        complain(f"holdtrue: cannot write {visible(str(problem.filename or folder))}: {problem.strerror}")
        raise typer.Exit(ExitCode.REFUSED) from problem
    say()
    say(
        "Next: `holdtrue check` reads it all; `holdtrue test` proves that the first invariant can fail; holdtrue.yaml says how"
        " to make the first database; `holdtrue run` asks it."
    )


def _write(folder: Path) -> None:
    starter = files("holdtrue.catalog") / "starter"
    # The secret first: it alone may fail half-way without leaving a catalog that looks complete.
    made = _write_secret(folder)
    for name in _FILES:
        text = starter.joinpath(name).read_text(encoding="utf-8")
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
        say(f"wrote {visible(str(target))}")
    say(f"{'wrote' if made else 'kept'} {_SECRET} in {visible(str(folder / '.env'))}, which only you can read")
    if _ignore(folder / ".gitignore"):
        say(f"wrote {visible(str(folder / '.gitignore'))}")


def _write_secret(folder: Path) -> bool:
    """Make the secret, unless the .env that is there has one; whether it was made."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".env"
    line = f"{_SECRET}={secrets.token_urlsafe(32)}\n"
    comment = (
        "# The key under which violations are recognised again. Keep it: a new one re-baselines every invariant.\n"
    )
    try:
        # 0600 from the first moment: a file made readable and narrowed later has been readable.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        if re.search(rf"^\s*(export\s+)?{_SECRET}\s*=", text, re.MULTILINE):
            return False
        with path.open("a", encoding="utf-8") as file:
            file.write(("" if not text or text.endswith("\n") else "\n") + comment + line)
        path.chmod(0o600)
        return True
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(comment + line)
    return True


def _ignore(path: Path) -> bool:
    """Add what git must not keep; whether anything was missing."""
    text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
    missing = [line for line in _IGNORED if line not in text.splitlines()]
    if missing:
        with path.open("a", encoding="utf-8") as file:
            file.write(("" if not text or text.endswith("\n") else "\n") + "\n".join(missing) + "\n")
    return bool(missing)
