"""json-schema: prints the JSON Schema of the catalog's files"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdtrue.catalog import json_schema
from holdtrue.cli.terminal import say_json


class FileKind(StrEnum):
    """The two kinds of file."""

    INVARIANTS = "invariants"
    CONFIG = "config"


def register(app: typer.Typer) -> None:
    """Add ``holdtrue json-schema``."""
    app.command("json-schema")(print_schema)


def print_schema(
    kind: Annotated[
        FileKind | None, typer.Argument(help="One kind of file; both without it.", show_default=False)
    ] = None,
) -> None:
    """Print the JSON Schema (draft 2020-12) of invariants files and of holdtrue.yaml, for editors."""
    say_json(json_schema(kind or ""))
