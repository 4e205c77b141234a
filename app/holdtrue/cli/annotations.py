"""annotations on a pull request, as GitHub's workflow commands, and paths as one would type them here"""

from __future__ import annotations

import os
from pathlib import Path

from holdtrue.catalog import CONFIG
from holdtrue.cli.terminal import visible
from holdtrue.model import Place


def annotation(level: str, message: str, *, config: Path, place: Place | None, title: str = "") -> str:
    """One workflow command: ``level`` is error, warning or notice. Nothing in it can begin another command."""
    properties = []
    if place is not None:
        properties += [f"file={_value(shown_path(config, place.file))}", f"line={place.line}", f"col={place.column}"]
    if title:
        properties.append(f"title={_value(title)}")
    return f"::{level} {','.join(properties)}::{_data(message)}"


def shown_path(config: Path, name: str) -> str:
    """A file of the catalog as one would type it here, so that a click on it opens the file."""
    return str(config) if name == CONFIG else os.path.normpath(config.parent / name)


def _data(text: str) -> str:
    # Our own line breaks are kept; every other control character is written out before it is escaped.
    text = visible(text, keep_newlines=True)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")
