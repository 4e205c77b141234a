"""The keys are declared once: the JSON Schema, the documentation and the model follow."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from holdtrue.catalog import json_schema
from holdtrue.catalog.groups import Group, Key
from holdtrue.catalog.keys import CONFIG_FILE, INVARIANTS_FILE
from holdtrue.model import DatabaseConfig, Invariant, Policy, ReplicaConfig, Retention

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "configuration.md"
ALL = [*CONFIG_FILE.paths(), *INVARIANTS_FILE.paths()]


@pytest.mark.parametrize(("path", "key"), ALL, ids=[path for path, _ in ALL])
def test_every_key_is_documented_with_its_meaning_and_its_default(path: str, key: Key) -> None:
    line = next((line for line in DOCUMENT.read_text().splitlines() if line.startswith(f"| `{path}` |")), None)
    assert line is not None, f"{path} is missing in docs/configuration.md"
    meaning = key.meaning + (" Not acted on yet." if key.later else "")
    _, said, default = line.strip("| ").split(" | ")
    assert said == meaning
    assert default.replace("`", "") == ("required" if key.required else key.default.replace("`", "") or "—")


def test_no_key_is_documented_that_does_not_exist() -> None:
    known = {path for path, _ in ALL}
    written = {line.split("`")[1] for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")}
    assert {one for one in written if not one.startswith(("$", "password_command: "))} <= known


@pytest.mark.parametrize("kind", ["", "invariants", "config"])
def test_the_schema_is_a_schema_and_is_json(kind: str) -> None:
    schema = json.loads(json.dumps(json_schema(kind)))
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")


def test_another_kind_of_file_has_no_schema() -> None:
    with pytest.raises(ValueError, match="invariants and config"):
        json_schema("tracker")


@pytest.mark.parametrize("name", ["invariants/refunds.yaml", "invariants/starter.yaml"])
def test_the_shipped_files_fit_the_schema(name: str) -> None:
    data: Any = yaml.safe_load((ROOT / name).read_text())
    assert not list(Draft202012Validator(json_schema("invariants")).iter_errors(data))
    assert not list(Draft202012Validator(json_schema()).iter_errors(data))


@pytest.mark.parametrize(
    "wrong",
    [
        {"invariants": [{"name": "A", "sql": "x"}]},
        {"invariants": [{"name": "a"}]},
        {"invariants": [{"name": "a", "sql": "x", "sql_file": "y"}]},
        {"invariants": [{"name": "a", "sql": "x", "severty": "y"}]},
        {"invariants": [{"name": "a", "sql": "x", "interval": "1:30"}]},
        {"invariants": [{"name": "a", "sql": "x", "interval": 90}]},
        {"invariants": [{"name": "a", "sql": "x", "policy": {"fire_after": 0}}]},
        {"invariants": {}},
    ],
)
def test_the_schema_refuses_what_the_catalog_refuses(wrong: object) -> None:
    assert list(Draft202012Validator(json_schema("invariants")).iter_errors(wrong))


@pytest.mark.parametrize(
    ("group", "kind", "not_written"),
    [
        ("policy", Policy, set()),
        ("retention", Retention, set()),
        ("replica", ReplicaConfig, set()),
        ("database", DatabaseConfig, {"name"}),
    ],
)
def test_every_field_of_the_model_can_be_written(group: str, kind: Any, not_written: set[str]) -> None:
    groups = {one.what: one for one in _groups()}
    declared = {key.name for key in groups[{"replica": "a replica", "database": "a database"}.get(group, group)].keys}
    assert {field.name for field in dataclasses.fields(kind)} - not_written == declared


def test_every_field_of_an_invariant_can_be_written() -> None:
    made_by_us = {"definition", "meaning", "declared_databases", "tables", "place"}
    other_words = {"operation": "promote", "states": "promote"}
    declared = {key.name for key in next(one for one in _groups() if one.what == "an invariant").keys}
    fields = {other_words.get(field.name, field.name) for field in dataclasses.fields(Invariant)} - made_by_us
    assert fields <= declared
    assert declared - fields == {"sql_file", "database", "interval", "timezone"}


def _groups() -> list[Group]:
    from holdtrue.catalog import keys

    return [one for one in vars(keys).values() if isinstance(one, Group)]
