"""json-schema: prints the JSON Schema of the catalog's files, and of what a webhook is told"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdtrue.catalog import json_schema
from holdtrue.cli.terminal import say_json


class FileKind(StrEnum):
    """The two kinds of file, and the body of a webhook."""

    INVARIANTS = "invariants"
    CONFIG = "config"
    WEBHOOK = "webhook"


def register(app: typer.Typer) -> None:
    """Add ``holdtrue json-schema``."""
    app.command("json-schema")(print_schema)


def print_schema(
    kind: Annotated[
        FileKind | None, typer.Argument(help="One kind of file, or webhook; both files without it.", show_default=False)
    ] = None,
) -> None:
    """Print the JSON Schema (draft 2020-12) of invariants files and of holdtrue.yaml, for editors; or of a webhook's body."""
    if kind is FileKind.WEBHOOK:
        # Not imported above: it needs what speaks HTTP, and an editor's schema does not.
        from holdtrue.notifiers import body_schema

        say_json(body_schema())
        return
    say_json(json_schema(kind or ""))
