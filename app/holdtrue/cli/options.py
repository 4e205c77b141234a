"""the options that many commands share"""

from __future__ import annotations

import getpass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


def _or_login_name(given: str) -> str:
    """The name that was given, or that of the account: services and containers often set no USER."""
    try:
        return given or getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return ""


class Format(StrEnum):
    """How a command prints: for people, or for programs."""

    TEXT = "text"
    JSON = "json"


class ReportFormat(StrEnum):
    """How a command that judges prints: for people, for programs, or for a pipeline's own pages."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"


ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="holdtrue.yaml [HOLDTRUE_CONFIG; default: ./holdtrue.yaml]"),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The running service to ask, instead of the store. [HOLDTRUE_URL]"),
]
FormatOption = Annotated[Format, typer.Option("--format", help="text, or json for programs.")]
ReportFormatOption = Annotated[
    ReportFormat, typer.Option("--format", help="text, json for programs, junit (XML), or github (annotations).")
]
DatabaseOption = Annotated[
    str | None, typer.Option("--database", "-d", metavar="NAME", help="One of its databases; without it, all.")
]
AlertArgument = Annotated[str, typer.Argument(metavar="ALERT", help="Its number, or NAME[@DATABASE] of the open one.")]
ByOption = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="NAME",
        envvar="USER",
        show_envvar=False,
        callback=_or_login_name,
        help="Your name, for the others. [default: your login name]",
    ),
]
SelectOption = Annotated[
    list[str] | None,
    typer.Option("--select", "-s", metavar="KIND:VALUE", help="tag:…, owner:… or database:…; may be repeated."),
]
