"""Secrets: refused where they are literal, read where they are used, and shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalogs import POSTGRES, accepted, item, look, refused
from holdtrue.catalog import resolve_secret
from holdtrue.errors import SettingsRefused
from holdtrue.model import Secret

RULE = item("sql: SELECT id FROM orders WHERE total < 0")


def _database(url: str, more: str = "") -> str:
    return f"databases: {{shop: {{replicas: [{{name: r, url: '{url}'{more}}}]}}}}\n"


@pytest.mark.parametrize(
    "config",
    [
        _database("postgresql://u:hunter2@h/d"),
        _database("postgresql://u:hunter2${X}@h/d"),
        _database("postgresql://h/d?user=u&password=hunter2"),
        _database("postgresql://u:p@hunter2:w/o#rd@h/d"),
        _database("postgresql://u:hunter2#x@h/d"),
        _database("postgresql://u@h/d", ", password: hunter2"),
        _database("postgresql://u@h/d", ", password: 12345678"),
        _database("postgresql://u@h/d", ", password: '${X'"),
        _database("postgresql://u@h/d", ", password: '${X:-hunter2}'"),
        POSTGRES + "store: {url: 'postgresql://u:hunter2@h/d'}\n",
        POSTGRES + "notifiers: {oncall: {kind: slack, channel: c, token: xoxb-hunter2}}\n",
        POSTGRES + "notifiers: {oncall: {kind: slack, webhook_url: 'https://hooks.example.com/hunter2'}}\n",
    ],
)
def test_a_literal_secret_is_refused_with_the_remedy_and_never_repeated(config: str) -> None:
    """semantics 1.7: the texts are kept in the store and in git"""
    found = refused(RULE, config)
    assert any("${VARIABLE}" in problem.message for problem in found)
    text = " ".join(f"{problem} {problem!r}" for problem in found)
    assert "hunter2" not in text
    assert "12345678" not in text


@pytest.mark.parametrize(
    "config",
    [
        _database("${DSN}"),
        _database("postgresql://u:${PW}@h/d"),
        _database("postgresql://${USER}:${PW}@h:5432/d?sslmode=require"),
        _database("postgresql://h/d?password=${PW}"),
        _database("postgresql://u@h/d", ", password: '${file:/run/secrets/pw}'"),
        _database("postgresql://u@h/d", ", password_command: [vault, read, shop]"),
        _database("postgresql://u@[::1]:5432/d"),
        POSTGRES + "notifiers: {oncall: {kind: slack, webhook_url: 'https://hooks.example.com/${HOOK}'}}\n",
    ],
)
def test_references_are_accepted(config: str) -> None:
    assert accepted(RULE, config)


def test_a_password_and_a_command_for_it_exclude_each_other() -> None:
    config = _database("postgresql://u@h/d", ", password: '${P}', password_command: [vault]")
    assert any("exclude each other" in problem.message for problem in refused(RULE, config))


def test_a_password_is_used_as_it_is_whatever_it_holds() -> None:
    """case 074"""
    password = "p@ss:w/o#rd?%41&x=1 {y} 'z' ${NOT}"
    assert resolve_secret(Secret("${PW}"), {"PW": password}) == password


def test_files_are_read_now_and_without_their_last_line_break(tmp_path: Path) -> None:
    """semantics 1.7: passwords rotate"""
    file = tmp_path / "pw"
    secret = Secret(f"postgresql://u:${{file:{file}}}@${{HOST}}/d")
    file.write_text("first\n")
    assert resolve_secret(secret, {"HOST": "h"}) == "postgresql://u:first@h/d"
    file.write_text("second\n\n")
    assert resolve_secret(secret, {"HOST": "h"}) == "postgresql://u:second\n@h/d"


def test_what_is_missing_is_named_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(SettingsRefused, match="MISSING") as refusal:
        resolve_secret(Secret("${FOUND}${MISSING}"), {"FOUND": "hunter2"})
    assert "hunter2" not in str(refusal.value)
    with pytest.raises(SettingsRefused, match="/none"):
        resolve_secret(Secret(f"${{file:{tmp_path}/none}}"), {})
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    with pytest.raises(SettingsRefused) as binary:
        resolve_secret(Secret(f"${{file:{tmp_path}/binary}}"), {})
    assert binary.value.__cause__ is None
    assert "hunter2" not in str(binary.value)


def test_references_exist_in_holdtrue_yaml_alone() -> None:
    """semantics 1.7"""
    rule = item("sql: SELECT id FROM orders WHERE note = '${HOME}'\nowner: team")
    found = look(rule, environ={"HOME": "/root"})
    assert found.catalog is not None
    assert "${HOME}" in found.catalog.invariants[0].sql


def test_a_catalog_shows_no_template_when_it_is_printed() -> None:
    config = accepted(RULE, _database("postgresql://u:${PW}@secret-host/d")).config
    assert "secret-host" not in repr(config)
