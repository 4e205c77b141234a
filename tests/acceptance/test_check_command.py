"""`holdtrue check`, `init` and `json-schema`, as a person at a terminal meets them."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catalogs import POSTGRES, item
from holdtrue import reports
from holdtrue.catalog import CONFIG, examine
from holdtrue.cli import run

RULE = item("sql: SELECT id FROM orders WHERE total < 0")
BROKEN = item("sql: SELECT id FROM orders WHERE a; DELETE FROM orders\nseverty: high\nconfirm: 90")


@dataclass(frozen=True)
class Answer:
    """What a command said, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def holdtrue(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Run a command in a folder, in this process: what ``holdtrue`` itself calls."""
    for name in [one for one in os.environ if one.startswith("HOLDTRUE_")]:
        monkeypatch.delenv(name)

    def run_in(folder: Path, *arguments: str) -> Answer:
        monkeypatch.chdir(folder)
        capsys.readouterr()
        code = run(arguments)
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return run_in


def _write(folder: Path, invariants: str, config: str = POSTGRES) -> Path:
    (folder / "invariants").mkdir()
    (folder / "holdtrue.yaml").write_text(config)
    (folder / "invariants" / "a.yaml").write_text(invariants)
    return folder


def test_a_catalog_in_order_ends_with_0_and_a_summary(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    answer = holdtrue(_write(tmp_path, RULE), "check")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == "in order: 1 invariant, 3 databases; 0 errors, 0 warnings\n"


def test_every_problem_comes_at_once_and_the_exit_code_is_2(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    """design 10, semantics 1.4"""
    answer = holdtrue(_write(tmp_path, BROKEN, POSTGRES + "notifers: {}\n"), "check")
    assert answer.returncode == 2
    lines = answer.stdout.splitlines()
    assert [line.split(" ")[0] for line in lines[:-1]] == [
        "holdtrue.yaml:9:1:",
        "invariants/a.yaml:4:41:",
        "invariants/a.yaml:5:5:",
        "invariants/a.yaml:6:5:",
        "invariants/a.yaml:6:14:",
    ]
    assert "(did you mean 'notifiers'?)" in lines[0]
    assert "'DELETE FROM orders'" in lines[1]
    assert lines[-1].startswith("refused: ")


def test_warnings_are_said_and_refuse_nothing(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    rule = item("sql: SELECT id FROM jobs WHERE lease_until < now()")
    answer = holdtrue(_write(tmp_path, rule), "check")
    assert answer.returncode == 0
    assert "invariants/a.yaml:4:10: warning: the text compares with the clock" in answer.stdout
    assert answer.stdout.endswith("0 errors, 1 warning\n")


def test_a_waiver_is_listed_with_the_line_on_which_it_is_written() -> None:
    ended = "{key: {id: '1'}, reason: agreed, until: 2020-01-01}"
    texts = {CONFIG: POSTGRES, "invariants/a.yaml": item(f"sql: SELECT id FROM jobs\nkey: [id]\nwaive:\n  - {ended}")}
    catalog = examine(texts, environ={"PASSWORD": "x"}).catalog
    assert catalog is not None
    (listed,) = reports.waivers(catalog, (), datetime(2026, 11, 30, tzinfo=UTC))["waivers"]
    assert listed["written_in"].startswith("invariants/a.yaml:7")


def test_a_waiver_that_has_ended_is_a_warning_at_its_line(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    """Semantics 5.3: its row counts again, and nothing else of the catalog says so."""
    ended = "{key: {id: '1'}, reason: agreed, until: 2020-01-01}"
    rule = item(f"sql: SELECT id FROM jobs\nkey: [id]\nwaive:\n  - {ended}")
    answer = holdtrue(_write(tmp_path, rule), "check")
    assert answer.returncode == 0, answer.stdout
    assert "invariants/a.yaml:7:9: warning: this waiver has ended" in answer.stdout
    assert answer.stdout.endswith("0 errors, 1 warning\n")


def test_json_says_the_same_for_programs(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    answer = holdtrue(_write(tmp_path, BROKEN), "check", "--format", "json")
    said = json.loads(answer.stdout)
    assert (answer.returncode, said["in_order"], said["invariants"]) == (2, False, None)
    first = said["problems"][0]
    assert (first["file"], first["line"], first["column"], first["level"]) == ("invariants/a.yaml", 4, 41, "error")
    assert first["offending"] == "DELETE FROM orders"


def test_github_shows_each_problem_at_its_line(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    answer = holdtrue(_write(tmp_path, BROKEN), "check", "--format", "github")
    assert answer.returncode == 2
    assert "::error file=invariants/a.yaml,line=5,col=5::unknown key in an invariant: 'severty'" in answer.stdout


def test_paths_are_those_that_a_click_here_opens(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    _write(tmp_path / "shop", BROKEN)
    answer = holdtrue(tmp_path, "check", "--config", "shop/holdtrue.yaml")
    assert answer.stdout.startswith("shop/invariants/a.yaml:4:41: error: ")


def test_untrusted_text_moves_no_cursor_and_ends_no_annotation(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    rule = RULE + '    "x\\e[2J\\n::error::y\\u202e": 1\n'
    for format_ in ("text", "github"):
        answer = holdtrue(
            tmp_path if (tmp_path / "holdtrue.yaml").exists() else _write(tmp_path, rule), "check", "--format", format_
        )
        assert answer.returncode == 2
        assert not {"\x1b", "\u202e"} & set(answer.stdout)
        assert len(answer.stdout.splitlines()) == 2


def test_a_folder_without_holdtrue_yaml_says_what_writes_one(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    answer = holdtrue(tmp_path, "check")
    assert answer.returncode == 2
    assert "holdtrue.yaml:1:1: error: there is no such file; `holdtrue init` writes one" in answer.stdout


def test_an_empty_catalog_is_refused_unless_that_is_meant(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    """semantics 1.3"""
    _write(tmp_path, "# none yet\n")
    assert holdtrue(tmp_path, "check").returncode == 2
    assert holdtrue(tmp_path, "check", "--allow-empty").returncode == 0


def test_the_kind_of_database_is_known_from_the_env_file_beside(
    holdtrue: Callable[..., Answer], tmp_path: Path
) -> None:
    _write(tmp_path, RULE, "databases: {shop: {allow_primary: true, replicas: [{name: r, url: '${SHOP_URL}'}]}}\n")
    assert "is not known" in holdtrue(tmp_path, "check").stdout
    (tmp_path / ".env").write_text("SHOP_URL=sqlite:///shop.db\n")
    assert "0 warnings" in holdtrue(tmp_path, "check").stdout


def test_check_asks_no_database_and_writes_nothing(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    """semantics 11.1: it is offline"""
    config = "databases: {shop: {allow_primary: true, replicas: [{name: r, url: 'sqlite:///shop.db'}]}}\n"
    _write(tmp_path, RULE, config)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert holdtrue(tmp_path, "check").returncode == 0
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_init_writes_a_catalog_that_check_accepts_and_the_starter_s_own_lines_run(
    holdtrue: Callable[..., Answer], tmp_path: Path
) -> None:
    answer = holdtrue(tmp_path, "init", "new/project")
    folder = tmp_path / "new" / "project"
    assert answer.returncode == 0, answer.stderr
    check = holdtrue(folder, "check")
    assert (check.returncode, check.stdout) == (0, "in order: 1 invariant, 1 database; 0 errors, 0 warnings\n")
    commented = (folder / "holdtrue.yaml").read_text().splitlines()
    start = next(number for number, line in enumerate(commented) if "python3 -c" in line)
    shell = "\n".join(line.lstrip().removeprefix("#").strip() for line in commented[start : start + 3])
    subprocess.run(["sh", "-c", shell.replace("python3", sys.executable)], cwd=folder, check=True, timeout=60)
    import yaml

    sql = yaml.safe_load((folder / "invariants" / "first.yaml").read_text())["invariants"][0]["sql"]
    with sqlite3.connect(folder / "app.db") as connection:
        found = connection.execute(sql).fetchall()
    connection.close()
    assert [row[0] for row in found] == [2]


def test_init_makes_a_secret_that_only_its_owner_can_read_and_git_does_not_keep(
    holdtrue: Callable[..., Answer], tmp_path: Path
) -> None:
    """semantics 4.2"""
    assert holdtrue(tmp_path, "init").returncode == 0
    env = tmp_path / ".env"
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    name, _, secret = env.read_text().splitlines()[-1].partition("=")
    assert name == "HOLDTRUE_LEDGER_SECRET"
    assert len(secret) >= 40
    assert {".env", ".venv/"} <= set((tmp_path / ".gitignore").read_text().splitlines())


def test_init_overwrites_nothing_and_then_writes_nothing(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "holdtrue.yaml").write_text("mine")
    answer = holdtrue(tmp_path, "init")
    assert answer.returncode == 2
    assert "holdtrue.yaml is there already; nothing was written" in answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["holdtrue.yaml"]
    assert (tmp_path / "holdtrue.yaml").read_text() == "mine"


def test_init_keeps_what_env_and_gitignore_have(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OTHER=1\nHOLDTRUE_LEDGER_SECRET=mine-mine-mine-mine")
    (tmp_path / ".gitignore").write_text("*.pyc")
    assert holdtrue(tmp_path, "init").returncode == 0
    assert (tmp_path / ".env").read_text() == "OTHER=1\nHOLDTRUE_LEDGER_SECRET=mine-mine-mine-mine"
    assert (tmp_path / ".gitignore").read_text() == "*.pyc\n.env\n.venv/\nholdtrue.db*\napp.db*\n"


def test_init_adds_a_secret_to_an_env_that_has_none(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OTHER=1")
    assert holdtrue(tmp_path, "init").returncode == 0
    lines = (tmp_path / ".env").read_text().splitlines()
    assert lines[0] == "OTHER=1"
    assert lines[-1].startswith("HOLDTRUE_LEDGER_SECRET=")


def test_the_exit_codes_reach_the_shell(tmp_path: Path) -> None:
    """design 10"""
    _write(tmp_path, BROKEN)
    codes = [
        subprocess.run(
            [sys.executable, "-m", "holdtrue", *arguments], cwd=tmp_path, capture_output=True, check=False, timeout=60
        )
        for arguments in (["check"], ["init", "sub"])
    ]
    assert [one.returncode for one in codes] == [2, 0]


@pytest.mark.parametrize("kind", [(), ("invariants",), ("config",)])
def test_json_schema_prints_a_schema(holdtrue: Callable[..., Answer], tmp_path: Path, kind: tuple[str, ...]) -> None:
    answer = holdtrue(tmp_path, "json-schema", *kind)
    assert answer.returncode == 0
    assert json.loads(answer.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_an_unknown_kind_of_file_is_a_usage_error(holdtrue: Callable[..., Answer], tmp_path: Path) -> None:
    assert holdtrue(tmp_path, "json-schema", "tracker").returncode == 2
