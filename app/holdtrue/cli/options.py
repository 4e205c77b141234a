"""the options that many commands share"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How a command prints: for people, or for programs."""

    TEXT = "text"
    JSON = "json"


ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="holdtrue.yaml [HOLDTRUE_CONFIG; default: ./holdtrue.yaml]"),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The running service to ask, instead of the store. [HOLDTRUE_URL]"),
]
FormatOption = Annotated[Format, typer.Option("--format", help="text, or json for programs.")]
