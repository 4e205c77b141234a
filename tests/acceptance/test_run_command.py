"""`holdtrue run` as a person meets it: a real process, a real database, an exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from holdtrue.cli import run as main
from servers.postgres import FreshDatabase, wait_until

INVARIANTS = """
version: 1
defaults: {database: shop, owner: shop-oncall}
invariants:
  - name: one_refund
    severity: critical
    sql: SELECT dispute_id, note FROM refunds WHERE state = 'doubled' ORDER BY dispute_id
    key: [dispute_id]
    columns: {dispute_id: safe}
    tags: [money]
    runbook_url: https://runbooks.example/refunds
  - name: no_negative
    owner: somebody
    sql: SELECT dispute_id FROM refunds WHERE amount < 0
  - name: broken
    sql: SELECT absent FROM refunds
    tags: [broken, money]
"""
MARKER = "private-4711"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a catalog on a SQLite file: one violated, one held, one that cannot be looked at."""
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("CREATE TABLE refunds(dispute_id TEXT, state TEXT, amount INTEGER, note TEXT)")
    rows = [(f"dsp_{number:02}", "doubled", 1, MARKER) for number in range(25)]
    connection.executemany("INSERT INTO refunds VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    (tmp_path / "invariants").mkdir()
    (tmp_path / "invariants" / "shop.yaml").write_text(INVARIANTS, encoding="utf-8")
    config = {
        "databases": {"shop": {"replicas": [{"name": "file", "url": "sqlite:///shop.db"}], "allow_primary": True}}
    }
    (tmp_path / "holdtrue.yaml").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path


def command(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDTRUE_")}
    return subprocess.run(
        [sys.executable, "-c", "from holdtrue.cli import main; main()", "run", *arguments],
        cwd=folder,
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def answers(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, object]]:
    return {one["invariant"]: one for one in json.loads(done.stdout)["asked"]}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["no_negative"], 0),
        (["one_refund"], 1),
        (["one_refund", "no_negative"], 1),
        (["broken"], 3),
        (["broken", "no_negative"], 3),
        ([], 1),
        (["--select", "tag:money"], 1),
        (["--select", "tag:broken"], 3),
        (["--select", "owner:somebody"], 0),
        (["--select", "owner:somebody", "--select", "owner:shop-oncall"], 1),
        (["--select", "tag:money", "--select", "owner:somebody"], 2),
        (["--select", "database:shop", "no_negative"], 0),
        (["--select", "database:elsewhere"], 2),
        (["--select", "colour:red"], 2),
        (["misspelt"], 2),
        (["--config", "absent.yaml"], 2),
        (["--format", "xml"], 2),
    ],
)
def test_the_exit_code_says_how_it_stands(
    shop: Path,
    arguments: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Semantics 6 and design 10: 0 holds, 1 violated, 2 refused, 3 could not look; 2 before 1 before 3."""
    monkeypatch.chdir(shop)
    assert main(["run", *arguments]) == code
    said = capsys.readouterr()
    if code == 2:
        assert said.out == ""
        assert said.err


def test_it_can_be_run_from_any_folder(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A relative SQLite file lies beside holdtrue.yaml, wherever one stands."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = command(elsewhere, "no_negative", "--config", str(shop / "holdtrue.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_text_says_what_was_found_where_and_when(shop: Path) -> None:
    done = command(shop)
    assert re.search(r"^violated  one_refund @ shop  25 rows  in ", done.stdout, re.MULTILINE)
    assert re.search(r"^holds  no_negative @ shop  0 rows  in ", done.stdout, re.MULTILINE)
    assert re.search(r"^could not look  broken @ shop  in ", done.stdout, re.MULTILINE)
    assert "why: SQLite refused the text" in done.stdout
    assert "`holdtrue run broken --raw` shows what the server said" in done.stdout
    assert "freshness not proven" in done.stdout
    assert "dsp_00" in done.stdout
    assert "… and 5 more" in done.stdout
    assert "https://runbooks.example/refunds" in done.stdout
    assert done.stdout.endswith("3 asked: 1 violated, 1 could not look, 1 holds (accepts are not known here)\n")
    assert done.stderr == ""


def test_nothing_is_logged_between_the_answers(shop: Path) -> None:
    (shop / "shop.db").unlink()
    done = command(shop, "no_negative")
    assert done.returncode == 3
    assert "why: connection refused" in done.stdout
    assert done.stderr == ""


def test_rows_are_masked_unless_the_caller_asks_for_them(shop: Path) -> None:
    """Semantics 4.4, 11.1: a column that is not declared safe is shown with --raw alone."""
    masked = command(shop, "one_refund")
    assert MARKER not in masked.stdout + masked.stderr
    assert "note (masked)" in masked.stdout
    raw = command(shop, "one_refund", "--raw")
    assert MARKER in raw.stdout
    assert "(masked)" not in raw.stdout
    assert MARKER not in raw.stderr


WAIVED = """
version: 1
defaults: {database: shop, owner: shop-oncall}
invariants:
  - name: one_refund
    sql: SELECT dispute_id, note FROM refunds WHERE dispute_id < 'dsp_03' ORDER BY dispute_id
    key: [dispute_id]
    columns: {dispute_id: safe}
    waive:
      - {key: {dispute_id: dsp_00}, reason: agreed, until: 2999-01-01}
      - {key: {dispute_id: dsp_02}, reason: agreed, until: 2020-01-01}
"""


@pytest.mark.parametrize("raw", [(), ("--raw",)])
def test_each_row_says_whether_it_counts_and_those_that_do_come_first(shop: Path, raw: tuple[str, ...]) -> None:
    """Semantics 5.1, 5.3: the waived row is the server's first, and shown last; a waiver that has ended waives nothing."""
    (shop / "invariants" / "shop.yaml").write_text(WAIVED, encoding="utf-8")
    done = command(shop, *raw)
    assert "2 rows · 1 waived · 1 waiver has ended" in done.stdout
    rows = [line.split()[:2] for line in done.stdout.splitlines() if "dsp_" in line]
    assert rows == [["counted", "dsp_01"], ["counted", "dsp_02"], ["waived", "dsp_00"]]
    assert done.stdout.endswith("(accepts are not known here)\n")
    found = command(shop, "--format", "json", *raw)
    assert json.loads(found.stdout)["accepts_known"] is False
    told = answers(found)["one_refund"]
    assert told["sample"]["dispositions"] == ["counted", "counted", "waived"]  # type: ignore[index]
    assert [row[0] for row in told["sample"]["rows"]] == ["dsp_01", "dsp_02", "dsp_00"]  # type: ignore[index]
    assert told["waivers_ended"] == 1


def test_nothing_is_saved(shop: Path) -> None:
    """Semantics 11.1: run never writes to the store."""
    before = {path: path.stat().st_mtime_ns for path in shop.rglob("*")}
    command(shop, "--raw")
    assert {path: path.stat().st_mtime_ns for path in shop.rglob("*")} == before


def test_json_is_complete_and_the_same_code_is_inside(shop: Path) -> None:
    done = command(shop, "--format", "json")
    assert json.loads(done.stdout)["exit_code"] == done.returncode == 1
    found = answers(done)
    assert set(found) == {"one_refund", "no_negative", "broken"}
    violated = found["one_refund"]
    assert (violated["outcome"], violated["count"], violated["complete"]) == ("violated", 25, True)
    assert violated["severity"] == "critical"
    assert violated["sample"]["columns"] == ["dispute_id", "note"]  # type: ignore[index]
    assert violated["sample"]["masked"] == ["note"]  # type: ignore[index]
    assert found["no_negative"]["failure"] is None
    broken = found["broken"]
    assert broken["count"] is None
    assert broken["failure"]["reason"] == "query failed"  # type: ignore[index]
    assert MARKER not in done.stdout


def test_junit_has_a_case_for_each_with_masked_rows(shop: Path) -> None:
    done = command(shop, "--format", "junit")
    assert done.returncode == 1
    assert MARKER not in done.stdout
    root = Xml.fromstring(done.stdout)  # noqa: S314 - our own
    assert {name: root.attrib[name] for name in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
    }
    cases = {one.attrib["name"]: one for one in root.iter("testcase")}
    assert list(cases["no_negative"]) == []
    assert cases["one_refund"].attrib["file"] == "invariants/shop.yaml"
    (failure,) = cases["one_refund"].findall("failure")
    assert failure.attrib["message"] == "25 rows"
    assert "dsp_00" in (failure.text or "")
    assert "note (masked)" in (failure.text or "")
    (error,) = cases["broken"].findall("error")
    assert "SQLite refused the text" in error.attrib["message"]


def test_github_gets_an_error_for_what_does_not_hold_and_no_row(shop: Path) -> None:
    done = command(shop, "--format", "github")
    assert done.returncode == 1
    *commands, summary = done.stdout.splitlines()
    assert [line.partition(",title=")[2].partition("::")[0] for line in commands] == [
        "broken @ shop%3A could not look",
        "one_refund @ shop%3A violated",
    ]
    assert all(line.startswith("::error file=invariants/shop.yaml,line=") for line in commands)
    assert commands[1].endswith("::25 rows")
    assert "dsp_00" not in done.stdout
    assert summary == "3 asked: 1 violated, 1 could not look, 1 holds (accepts are not known here)"


@pytest.mark.parametrize("format", ["junit", "github"])
def test_hostile_values_stay_values_in_a_pipelines_report(
    shop: Path, format: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = sqlite3.connect(shop / "shop.db")
    hostile = "\x1b[2J]]></failure>\u202e\r\n::error::no\uffff"
    connection.execute("UPDATE refunds SET dispute_id = ? WHERE dispute_id = 'dsp_00'", (hostile,))
    connection.commit()
    connection.close()
    monkeypatch.chdir(shop)
    assert main(["run", "one_refund", "--format", format]) == 1
    said = capsys.readouterr().out
    assert said.isascii()
    assert "\x1b" not in said
    if format == "junit":
        (failure,) = Xml.fromstring(said).iter("failure")  # noqa: S314 - our own
        assert "\\x1b[2J]]></failure>\\u202e\\r\\n::error::no\\uffff" in (failure.text or "")
    else:
        assert len(said.splitlines()) == 2


@pytest.mark.parametrize("format", ["junit", "github"])
def test_unmasked_rows_are_refused_where_others_read(
    shop: Path, format: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shop)
    assert main(["run", "--raw", "--format", format]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "--raw" in said.err


def test_control_characters_in_values_are_written_out(shop: Path) -> None:
    connection = sqlite3.connect(shop / "shop.db")
    connection.execute(
        "UPDATE refunds SET dispute_id = ? WHERE dispute_id = 'dsp_00'", ("\x1b[2J\x1b[1;1Hholds\u202e\n",)
    )
    connection.commit()
    connection.close()
    for arguments in (["one_refund"], ["one_refund", "--raw"], ["one_refund", "--format", "json"]):
        done = command(shop, *arguments)
        assert "\x1b" not in done.stdout
        assert "\u202e" not in done.stdout
        assert done.returncode == 1


def test_a_server_says_more_to_its_caller_alone(postgres_database: FreshDatabase, tmp_path: Path) -> None:
    """Semantics 3.5: the server's message, which carries a value, comes with --raw only."""
    postgres_database.execute(["CREATE TABLE t(v text)", f"INSERT INTO t VALUES ('{MARKER}')"])
    (tmp_path / "invariants").mkdir()
    text = "version: 1\ninvariants:\n  - {name: numbers, database: shop, sql: 'SELECT v::int AS n FROM t'}\n"
    (tmp_path / "invariants" / "a.yaml").write_text(text, encoding="utf-8")
    config = {"databases": {"shop": {"replicas": [{"name": "r1", "url": "${SHOP_URL}"}]}}}
    (tmp_path / "holdtrue.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = command(tmp_path, SHOP_URL=postgres_database.standby_url)
    assert done.returncode == 3
    assert "SQLSTATE 22P02" in done.stdout
    assert "lag 0s" in done.stdout
    assert MARKER not in done.stdout + done.stderr
    raw = command(tmp_path, "--raw", SHOP_URL=postgres_database.standby_url)
    assert f'the server said: ERROR:  invalid input syntax for type integer: "{MARKER}"' in raw.stdout
    unset = command(tmp_path)
    assert unset.returncode in (2, 3)
    assert "SHOP_URL" in unset.stdout + unset.stderr


def test_ctrl_c_cancels_on_the_server(postgres_database: FreshDatabase, tmp_path: Path) -> None:
    """Nothing is left running on the replica, and no verdict is given."""
    (tmp_path / "invariants").mkdir()
    text = "version: 1\ninvariants:\n  - {name: slow, database: shop, sql: 'SELECT 1 AS id FROM pg_sleep(300)', timeout: 5m}\n"
    (tmp_path / "invariants" / "a.yaml").write_text(text, encoding="utf-8")
    config = {"databases": {"shop": {"replicas": [{"name": "r1", "url": "${SHOP_URL}"}]}}}
    (tmp_path / "holdtrue.yaml").write_text(json.dumps(config), encoding="utf-8")
    child = subprocess.Popen(
        [sys.executable, "-c", "from holdtrue.cli import main; main()", "run"],
        cwd=tmp_path,
        env={**os.environ, "SHOP_URL": postgres_database.standby_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    where = f"application_name = 'holdtrue run' AND datname = '{postgres_database.name}'"
    ours = f"SELECT count(*) FROM pg_stat_activity WHERE {where}"
    try:
        wait_until(lambda: postgres_database.replica.value(f"{ours} AND state = 'active'") == 1, "the query runs")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
        assert child.returncode == 130
        assert "Traceback" not in out + err
        wait_until(lambda: postgres_database.replica.value(ours) == 0, "no session is left")
    finally:
        child.kill()
        child.wait(10)
