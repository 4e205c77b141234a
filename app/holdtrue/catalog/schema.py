"""the JSON Schema of both kinds of file, out of the declared keys"""

from __future__ import annotations

from typing import Any

from holdtrue.catalog.keys import CONFIG_FILE, INVARIANTS_FILE

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: str = "") -> dict[str, Any]:
    """The schema of ``invariants`` files, of the ``config`` file, or of either.

    Raises:
        ValueError: there is no such kind of file.
    """
    if kind == "invariants":
        return {"$schema": _DRAFT, "title": "Holdtrue: a file of invariants", **INVARIANTS_FILE.schema()}
    if kind == "config":
        return {"$schema": _DRAFT, "title": "Holdtrue: holdtrue.yaml", **CONFIG_FILE.schema()}
    if kind:
        raise ValueError("the kinds of file are invariants and config")
    return {
        "$schema": _DRAFT,
        "title": "Holdtrue: a file of invariants, or holdtrue.yaml",
        "anyOf": [INVARIANTS_FILE.schema(), CONFIG_FILE.schema()],
    }
