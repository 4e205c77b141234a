"""Reads tests/cases and says each case in Holdtrue's words: the one place that knows the cases' neutral shape.

Names and values are rewritten, lines and quoting stay as they are; what is unknown passes through, so that the product itself
refuses it. tests/cases/README.md has the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "cases"
DATABASE = "cases"
"""The name of the database that every rewritten invariant is asked of."""

_KEYS = {"every": "interval", "cron": "schedule", "mode": "returns", "labels": "tags"}
_SEVERITIES = {"page": "critical", "ticket": "warning"}
_KEY_LINE = re.compile(rf"^(\s*(?:- )?)({'|'.join(_KEYS)}):", re.MULTILINE)
_SEVERITY_LINE = re.compile(rf"^(\s*(?:- )?severity:\s*)({'|'.join(_SEVERITIES)})\s*$", re.MULTILINE)
_DEFAULTS_LINE = re.compile(r"^defaults:.*$\n(?P<indent>\s+)", re.MULTILINE)
_OF_THE_DATABASE = {"timezone": "timezone", "search_path": "search_path", "max_replica_lag": "max_lag"}


@dataclass(frozen=True)
class Case:
    """One case of the book. ``raw`` is the file as it stands."""

    raw: dict[str, Any]

    @property
    def id(self) -> str:
        """Its number, three digits."""
        return str(self.raw["id"]).removeprefix("case-")

    @property
    def area(self) -> str:
        """What part of a product it is about."""
        return str(self.raw["area"])

    @property
    def expect(self) -> dict[str, Any]:
        """status, count, must, must_not …"""
        return dict(self.raw["expect"])

    @property
    def environment(self) -> dict[str, Any]:
        """What the database must be like."""
        return dict(self.raw.get("environment") or {})

    def setup_sql(self, dialect: str) -> tuple[str, ...]:
        """The statements that make its tables on ``postgresql``, ``sqlite`` or ``mysql``; none if it has none for it."""
        return tuple((self.raw.get("setup_sql") or {}).get(dialect, ()))

    def sql(self, dialect: str) -> str:
        """The text, byte for byte, as it is meant for a dialect."""
        asked = self.raw["invariant"]
        if dialect in asked.get("sql_by_dialect", {}):
            return str(asked["sql_by_dialect"][dialect])
        if "sql_generate" in asked:
            made = asked["sql_generate"]
            numbers = ",".join(str(one) for one in range(made["from"], made["to"] + 1))
            return f"{made['prefix']}{numbers}{made['suffix']}"
        return str(asked["sql"])

    def columns(self, dialect: str) -> tuple[str, ...]:
        """The result's columns as a bare driver saw them."""
        raw = self.raw.get("raw") or {}
        seen = raw.get({"mysql": "mariadb"}.get(dialect, dialect)) or {}
        return tuple(dict.fromkeys(seen.get("columns", ())))

    def invariant(self, dialect: str = "postgresql", **changed: object) -> dict[str, Any]:
        """The invariant's keys in Holdtrue's words; ``changed`` goes over them, None takes a key away."""
        said: dict[str, Any] = {"name": self.raw["invariant"]["name"], "database": DATABASE, "sql": self.sql(dialect)}
        asked = dict(self.raw["invariant"])
        if "cron" in asked and "timezone" in asked:
            said["timezone"] = asked.pop("timezone")
        for key, value in asked.items():
            if key in ("name", "sql", "sql_by_dialect", "sql_generate", "mask") or key in _OF_THE_DATABASE:
                continue
            said[_KEYS.get(key, key)] = _SEVERITIES.get(value, value) if key == "severity" else value
        columns = self.columns(dialect)
        if columns and "mask" not in asked and said.get("returns") != "count":
            said["columns"] = dict.fromkeys(columns, "safe")
        said.update(changed)
        return {key: value for key, value in said.items() if value is not None}

    def database_settings(self) -> dict[str, Any]:
        """What of the invariant belongs to the database in Holdtrue: time zone, search path, greatest lag."""
        asked = self.raw.get("invariant") or {}
        settings = {
            ours: asked[theirs]
            for theirs, ours in _OF_THE_DATABASE.items()
            if theirs in asked and not (theirs == "timezone" and "cron" in asked)
        }
        for key in ("timezone", "search_path"):
            if key in self.environment:
                settings.setdefault(key, self.environment[key])
        return settings

    def invariants_file(self, dialect: str = "postgresql", **changed: object) -> str:
        """A file that holds this one invariant. Every value is written in JSON's quotes, so no byte of it moves."""
        lines = [
            f"{key}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in self.invariant(dialect, **changed).items()
        ]
        return "version: 1\ninvariants:\n  - " + "\n    ".join(lines) + "\n"

    @cached_property
    def config_files(self) -> tuple[tuple[str, str, str], ...]:
        """Each file that the case brings: its path below ``invariants/``, its rewritten text, and what it links to."""
        found = []
        for one in self.raw.get("config_files") or ():
            path, _, target = str(one["path"]).partition(" -> ")
            found.append((path.removeprefix("invariants/"), rewrite(one["text"]) if not target else "", target))
        return tuple(found)

    def write_config(self, folder: Path, config: str) -> Path:
        """Write the case's files below ``folder/invariants`` and ``config`` as holdtrue.yaml; its path."""
        below = folder / "invariants"
        below.mkdir(parents=True)
        for path, text, target in self.config_files:
            place = below / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if target:
                place.symlink_to(target)
            else:
                place.write_text(text, encoding="utf-8", newline="")
        (folder / "holdtrue.yaml").write_text(config, encoding="utf-8")
        return folder / "holdtrue.yaml"


def rewrite(text: str) -> str:
    """A configuration text in Holdtrue's words. A version and a database are added where no line moves."""
    text = _KEY_LINE.sub(lambda found: f"{found[1]}{_KEYS[found[2]]}:", text)
    text = _SEVERITY_LINE.sub(lambda found: f"{found[1]}{_SEVERITIES[found[2]]}", text)
    if not text.startswith(("invariants:\n", "defaults:")):
        return text
    text = text if text.endswith("\n") else text + "\n"
    defaults = _DEFAULTS_LINE.search(text)
    if defaults is None:
        return f"{text}version: 1\ndefaults: {{database: {DATABASE}}}\n"
    begins = defaults.end()
    return f"{text[:begins]}database: {DATABASE}\n{defaults['indent']}{text[begins:]}version: 1\n"


def sqlite_config(path: str = "cases.db", **settings: object) -> str:
    """A holdtrue.yaml whose one database, ``cases``, is a SQLite file."""
    database = {"replicas": [{"name": "file", "url": f"sqlite:///{path}"}], "allow_primary": True, **settings}
    return json.dumps({"databases": {DATABASE: database}})


def case(number: str) -> Case:
    """The case of this number, three digits."""
    return Case(yaml.safe_load((FOLDER / f"case-{number}.yaml").read_text(encoding="utf-8")))


def all_cases() -> Iterator[Case]:
    """Every case, by number."""
    for path in sorted(FOLDER.glob("case-*.yaml")):
        yield Case(yaml.safe_load(path.read_text(encoding="utf-8")))
