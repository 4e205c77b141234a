"""The files: what is read, what is skipped, and what cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from catalogs import POSTGRES, item
from holdtrue.catalog import load_catalog, read_texts
from holdtrue.errors import CatalogRefused

RULE = item("sql: SELECT id FROM orders WHERE total < 0")


def _folder(tmp_path: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in {"holdtrue.yaml": POSTGRES, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path / "holdtrue.yaml"


def _problems(config: Path) -> list[str]:
    with pytest.raises(CatalogRefused) as refusal:
        load_catalog(config, environ={})
    return [str(problem) for problem in refusal.value.problems]


def test_files_are_read_by_relative_path_at_any_depth(tmp_path: Path) -> None:
    config = _folder(tmp_path, {"invariants/a.yaml": RULE, "invariants/x/y/b.yml": "", "invariants/README.md": "no"})
    assert sorted(read_texts(config)) == ["holdtrue.yaml", "invariants/a.yaml", "invariants/x/y/b.yml"]


def test_hidden_names_and_what_editors_leave_are_no_part_of_it(tmp_path: Path) -> None:
    """semantics 1.3"""
    leftovers = (".a.yaml", ".a.yaml.swp", "a.yaml~", "#a.yaml#", "a.yaml.bak", "a.yaml.orig", "4913", ".git/b.yaml")
    config = _folder(
        tmp_path, {"invariants/a.yaml": RULE, **{f"invariants/{name}": "not: [yaml" for name in leftovers}}
    )
    assert len(load_catalog(config, environ={}).invariants) == 1


def test_a_mounted_configmap_is_read_once(tmp_path: Path) -> None:
    """semantics 1.3, case 131"""
    config = _folder(tmp_path, {"invariants/..2026_06_01/a.yaml": RULE, "invariants/..2026_06_01/a.sql": "SELECT 1"})
    folder = tmp_path / "invariants"
    (folder / "..data").symlink_to("..2026_06_01")
    (folder / "a.yaml").symlink_to("..data/a.yaml")
    (folder / "a.sql").symlink_to("..data/a.sql")
    assert sorted(read_texts(config)) == ["holdtrue.yaml", "invariants/a.sql", "invariants/a.yaml"]


def test_a_sql_file_is_found_beside_the_file_that_names_it(tmp_path: Path) -> None:
    sql = "SELECT id\nFROM orders -- all\nWHERE total < 0\r\n"
    config = _folder(
        tmp_path, {"invariants/x/a.yaml": item("sql_file: ../sql/orders.sql"), "invariants/sql/orders.sql": sql}
    )
    assert load_catalog(config, environ={}).invariants[0].sql == sql


def test_a_problem_in_a_sql_file_is_placed_in_that_file(tmp_path: Path) -> None:
    config = _folder(
        tmp_path,
        {
            "invariants/a.yaml": item("sql_file: a.sql"),
            "invariants/a.sql": "SELECT id FROM orders\nWHERE x; DROP TABLE y",
        },
    )
    assert _problems(config)[0].startswith("invariants/a.sql:2:10: error: `sql_file` holds more than one statement")


@pytest.mark.parametrize(
    "name", ["../secret.sql", "/etc/passwd.sql", "missing.sql", "link.sql", "a.txt", "..\\\\x.sql", "."]
)
def test_a_sql_file_must_resolve_below_the_folder(tmp_path: Path, name: str) -> None:
    """semantics 1.3"""
    config = _folder(
        tmp_path, {"invariants/a.yaml": item(f'sql_file: "{name}"'), "secret.sql": "SELECT 'hunter2' FROM x"}
    )
    (tmp_path / "invariants" / "link.sql").symlink_to("../secret.sql")
    (problem,) = _problems(config)
    assert "`sql_file` " in problem
    assert "hunter2" not in problem


def test_a_link_out_of_the_folder_that_nobody_names_is_left_alone(tmp_path: Path) -> None:
    config = _folder(tmp_path, {"invariants/a.yaml": RULE, "secret.sql": "SELECT 1"})
    (tmp_path / "invariants" / "link.sql").symlink_to("../secret.sql")
    assert "invariants/link.sql" not in read_texts(config)


def test_a_yaml_file_may_be_a_link_to_anywhere(tmp_path: Path) -> None:
    config = _folder(tmp_path, {"elsewhere.yaml": RULE, "invariants/.keep": ""})
    (tmp_path / "invariants" / "a.yaml").symlink_to("../elsewhere.yaml")
    assert load_catalog(config, environ={}).invariants


def test_what_should_be_read_and_cannot_be_is_told(tmp_path: Path) -> None:
    """semantics 1.3"""
    config = _folder(tmp_path, {"invariants/a.yaml": RULE, "other/b.yaml": RULE})
    folder = tmp_path / "invariants"
    (folder / "broken.yaml").symlink_to("nowhere")
    (folder / "more").symlink_to("../other")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "huge.yaml").write_bytes(b"#" * (9 * 1024 * 1024))
    found = _problems(config)
    assert [line.split(":")[0] for line in found] == [
        f"invariants/{name}" for name in ("broken.yaml", "huge.yaml", "more", "pipe.yaml")
    ]


def test_a_missing_folder_is_refused_unless_that_is_meant(tmp_path: Path) -> None:
    """semantics 1.3"""
    config = _folder(tmp_path, {})
    assert "no folder here that can be read" in _problems(config)[0]
    assert load_catalog(config, environ={}, allow_empty=True).invariants == ()


def test_what_cannot_be_read_is_told_together_with_what_is_wrong_in_the_rest(tmp_path: Path) -> None:
    """semantics 1.4: all at once"""
    config = _folder(tmp_path, {"invariants/a.yaml": item("sql: DELETE FROM orders\nowner: 3")})
    (tmp_path / "invariants" / "b.yaml").symlink_to("nowhere")
    assert [line.split(" ")[0] for line in _problems(config)] == [
        "invariants/a.yaml:4:10:",
        "invariants/a.yaml:5:12:",
        "invariants/b.yaml:1:1:",
    ]


def test_a_missing_configuration_says_what_writes_one(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path / "holdtrue.yaml")
    assert "holdtrue init" in problem


def test_another_folder_may_be_named(tmp_path: Path) -> None:
    config = _folder(
        tmp_path, {"holdtrue.yaml": POSTGRES + "invariants_folder: rules/shop\n", "rules/shop/a.yaml": RULE}
    )
    assert sorted(read_texts(config)) == ["holdtrue.yaml", "rules/shop/a.yaml"]
    assert load_catalog(config, environ={}).invariants


def test_the_configuration_may_have_another_name(tmp_path: Path) -> None:
    _folder(tmp_path, {"invariants/a.yaml": RULE})
    (tmp_path / "holdtrue.yaml").rename(tmp_path / "production.yaml")
    assert "holdtrue.yaml" in read_texts(tmp_path / "production.yaml")


def test_bytes_that_are_no_utf_8_are_told_with_their_place(tmp_path: Path) -> None:
    config = _folder(tmp_path, {"invariants/a.yaml": RULE, "invariants/b.yaml": b"a: b\nc: caf\xe9\n"})
    assert _problems(config)[0].startswith("invariants/b.yaml:2:7: error: the file is not UTF-8")


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    config = _folder(tmp_path, {"invariants/a.yaml": b"\xef\xbb\xbf" + RULE.replace("\n", "\r\n").encode()})
    assert load_catalog(config, environ={}).invariants[0].name == "rule"


def test_the_same_texts_give_the_same_hash_and_any_other_text_another(tmp_path: Path) -> None:
    """semantics 1.3"""
    config = _folder(tmp_path, {"invariants/a.yaml": RULE})
    first = load_catalog(config, environ={})
    assert load_catalog(config, environ={"X": "y"}).content_hash == first.content_hash
    (tmp_path / "invariants/a.yaml").rename(tmp_path / "invariants/b.yaml")
    renamed = load_catalog(config, environ={})
    assert renamed.content_hash != first.content_hash
    assert dict(renamed.texts)["invariants/b.yaml"] == RULE
