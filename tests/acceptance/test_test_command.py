"""`holdtrue test` as a pipeline meets it: a real process, scratch databases of real engines, an exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from holdtrue.cli import run
from servers.mariadb import ADMIN, MariadbPrimary
from servers.postgres import PostgresPrimary, wait_until
from servers.service import holdtrue as process

SCHEMA = """
CREATE TABLE disputes (id varchar(20) PRIMARY KEY, opened_at timestamp);
CREATE TABLE refunds (
    id integer PRIMARY KEY, dispute_id varchar(20) NOT NULL REFERENCES disputes (id),
    state varchar(20) NOT NULL CHECK (state IN ('settled', 'failed')), note text, created_at timestamp NOT NULL);
CREATE TABLE leases (id integer PRIMARY KEY, until timestamp, zoned timestamp with time zone);
"""
# Its timestamps are moments, kept in UTC; its datetimes are what a clock shows.
MYSQL_SCHEMA = (
    SCHEMA.replace("timestamp with time zone", "moment")
    .replace("timestamp", "datetime")
    .replace("moment", "timestamp NULL")
)
DOUBLED = "SELECT dispute_id FROM refunds WHERE state = 'settled' GROUP BY dispute_id HAVING count(*) > 1"
TWICE = "[{id: 1, dispute_id: d1, state: settled, created_at: now}, {id: 2, dispute_id: d1, state: settled, created_at: now}]"
ONCE = "[{id: 1, dispute_id: d1, state: settled, created_at: now}]"


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def engine(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, str]]]:
    """A dialect, and what of the environment it needs."""
    if request.param == "sqlite":
        yield "sqlite", {}
        return
    if request.param == "mysql":
        mariadb: MariadbPrimary = request.getfixturevalue("mariadb_primary")
        yield "mysql", {"HOLDTRUE_SCRATCH_MYSQL_URL": mariadb.url(user=ADMIN)}
        assert mariadb.value("SELECT count(*) FROM information_schema.schemata WHERE schema_name LIKE 'holdtrue%'") == 0
        assert mariadb.value("SELECT count(*) FROM mysql.user WHERE user LIKE 'holdtrue\\_%'") == 0
        return
    primary: PostgresPrimary = request.getfixturevalue("postgres_primary")
    yield "postgresql", {"HOLDTRUE_SCRATCH_URL": primary.url()}
    assert primary.value("SELECT count(*) FROM pg_database WHERE datname LIKE 'holdtrue_scratch%'") == 0


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, engine: tuple[str, dict[str, str]]) -> Write:
    """Write a catalog of these invariants on a database of the engine that nobody can reach."""

    def write_catalog(*invariants: str, schema: str | None = SCHEMA, **settings: str) -> Path:
        urls = {"sqlite": "sqlite:///absent.db", "postgresql": "postgresql://nobody@127.0.0.1:1/absent"}
        urls["mysql"] = "mysql://nobody@127.0.0.1:1/absent"
        database = {
            "replicas": [{"name": "r", "url": urls[engine[0]]}],
            **({"allow_primary": True} if engine[0] == "sqlite" else {}),
            **({} if schema is None else {"schema_file": "schema.sql"}),
            **settings,
        }
        (tmp_path / "holdtrue.yaml").write_text(json.dumps({"databases": {"shop": database}}))
        (tmp_path / "invariants").mkdir(exist_ok=True)
        listed = "\n".join(f"  - {one}" for one in invariants)
        (tmp_path / "invariants" / "a.yaml").write_text(f"defaults: {{database: shop}}\ninvariants:\n{listed}\n")
        if schema is not None:
            (tmp_path / "schema.sql").write_text(MYSQL_SCHEMA if schema is SCHEMA and engine[0] == "mysql" else schema)
        return tmp_path

    return write_catalog


def rule(sql: str, *, violating: str = "", healthy: str = "", name: str = "rule", keys: str = "") -> str:
    examples = ", ".join(filter(None, (violating and f"violating: {violating}", healthy and f"healthy: {healthy}")))
    more = f", {keys}" if keys else ""
    return f'{{name: {name}, sql: "{sql}"{more}' + (f", examples: {{{examples}}}}}" if examples else "}")


@dataclass(frozen=True)
class Said:
    """What a command said, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


Holdtrue = Callable[..., Said]


@pytest.fixture
def holdtrue(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, engine: tuple[str, dict[str, str]]
) -> Holdtrue:
    """Run ``holdtrue test`` in a folder, in this process: what the command itself calls."""
    for name in [one for one in os.environ if one.startswith("HOLDTRUE_")]:
        monkeypatch.delenv(name)
    for name, value in engine[1].items():
        monkeypatch.setenv(name, value)

    def run_in(folder: Path, *arguments: str) -> Said:
        monkeypatch.chdir(folder)
        capsys.readouterr()
        code = run(["test", *arguments])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run_in


def answers_of(said: Said) -> dict[str, dict[str, Any]]:
    """The answers by invariant; what JSON says of the code is the code."""
    assert said.stdout, said.stderr
    data = json.loads(said.stdout)
    assert data["exit_code"] == said.returncode
    return {one["invariant"]: one for one in data["tested"]}


def command(folder: Path, environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same as a process of its own."""
    return process("test", *arguments, cwd=folder, env=environ, timeout=90)


def test_an_invariant_that_breaks_and_holds_as_its_examples_say_is_proven(
    write: Write, engine: tuple[str, dict[str, str]]
) -> None:
    folder = write(rule(DOUBLED, violating=f"[{{refunds: {TWICE}}}]", healthy=f"[{{refunds: {ONCE}}}, {{}}]"))
    done = command(folder, engine[1])
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^proven  rule @ shop  1 violating, 2 healthy  in ", done.stdout, re.MULTILINE)
    assert "note: refunds refers to rows of disputes that the example leaves out" in done.stdout
    assert done.stdout.endswith("1 tested: 1 proven\n")


RULES = {
    # Each example by itself: the rows of the first must not break the second.
    "alone": rule(DOUBLED, violating=f"[{{refunds: {TWICE}}}, {{refunds: {ONCE}}}]"),
    "never_breaks": rule("SELECT id FROM refunds WHERE 1 = 0", violating=f"[{{refunds: {TWICE}}}]"),
    "always_breaks": rule(
        "SELECT id FROM refunds", violating=f"[{{refunds: {ONCE}}}]", healthy=f"[{{refunds: {ONCE}}}]"
    ),
    "tolerated": rule("SELECT id FROM refunds", violating=f"[{{refunds: {ONCE}}}]", keys="policy: {tolerate: 1}"),
    "beyond": rule("SELECT id FROM refunds", violating=f"[{{refunds: {TWICE}}}]", keys="policy: {tolerate: 1}"),
    "counts": rule(
        "SELECT count(*) FROM refunds", violating=f"[{{refunds: {ONCE}}}]", healthy="[{}]", keys="returns: count"
    ),
    "bare": rule(DOUBLED),
    "only_healthy": rule(DOUBLED, healthy="[{}]"),
    "no_such_column": rule("SELECT x FROM refunds", violating=f"[{{refunds: {ONCE}}}]"),
    "no_number": rule("SELECT sum(id) FROM refunds", violating="[{}]", keys="returns: count"),
    "vacuous": rule(
        DOUBLED, healthy="[{}]", violating=f"[{{refunds: {TWICE}}}]", keys="population: SELECT 1 FROM refunds"
    ),
}
RESULTS = {
    "alone": "failed",
    "never_breaks": "failed",
    "always_breaks": "failed",
    "tolerated": "failed",
    "beyond": "proven",
    "counts": "proven",
    "bare": "not proven",
    "only_healthy": "not proven",
    "no_such_column": "could not look",
    "no_number": "failed",
    "vacuous": "failed",
}


def test_each_invariant_is_judged_by_its_examples_and_the_exit_code_is_the_worst(
    write: Write, holdtrue: Holdtrue
) -> None:
    """design 10: 0 all proven, 1 an example failed, 3 could not look; 1 before 3"""
    folder = write(*(text.replace("name: rule", f"name: {name}", 1) for name, text in RULES.items()))
    said = holdtrue(folder, "--format", "json")
    assert {name: one["result"] for name, one in answers_of(said).items()} == RESULTS
    assert said.returncode == 1
    for names, code in (
        (["beyond", "counts"], 0),
        (["beyond", "bare", "only_healthy"], 0),
        (["beyond", "bare", "--require-examples"], 1),
        (["only_healthy", "--require-examples"], 1),
        (["beyond", "--require-examples"], 0),
        (["no_such_column", "counts"], 3),
        (["no_such_column", "no_number"], 1),
    ):
        assert holdtrue(folder, *names).returncode == code, names


UNFIT = {
    "{refund: [{id: 1}]}": "the schema has no table refund",
    "{refunds: [{id: 1, dispute_id: d1, state: settled, created_at: now, colour: red}]}": "colour",
    "{refunds: [{id: 1, dispute_id: d1, state: settled}]}": "created_at",
    "{refunds: [{id: 1, dispute_id: d1, state: private-4711, created_at: now}]}": "does not fit",
    f"{{refunds: [{ONCE[1:-1]}, {ONCE[1:-1]}]}}": "does not fit",
    "{leases: [{id: now - 5m}]}": "holds",
}


def test_rows_that_the_schema_refuses_are_a_failed_example_and_nothing_is_filled_in(
    write: Write, holdtrue: Holdtrue
) -> None:
    folder = write(rule("SELECT id FROM refunds", violating=f"[{{refunds: {ONCE}}}, {', '.join(UNFIT)}]"))
    said = holdtrue(folder, "--format", "json")
    assert said.returncode == 1
    good, *bad = answers_of(said)["rule"]["examples"]
    assert good["result"] == "shown"
    for one, sentence in zip(bad, UNFIT.values(), strict=True):
        assert (one["result"], one["counted"]) == ("failed", None)
        assert sentence in one["sentence"]
        assert (one["file"], one["line"]) == ("invariants/a.yaml", 3)
    assert "private-4711" not in said.stdout + said.stderr


def test_moments_are_told_from_now_in_every_kind_of_column(
    write: Write, holdtrue: Holdtrue, engine: tuple[str, dict[str, str]]
) -> None:
    """A clock of another zone than UTC, which the session has too: semantics 5.1's reading of a time without a zone."""
    # MariaDB and MySQL know other zones only where their time zone tables are filled.
    zone = {"timezone": "UTC" if engine[0] == "mysql" else "Pacific/Auckland"}
    over = "SELECT id FROM leases WHERE {0} < CURRENT_TIMESTAMP AND {0} > {1}"
    hour_ago = {
        "sqlite": "datetime('now', '-1 hour')",
        "postgresql": "CURRENT_TIMESTAMP - interval '1 hour'",
        "mysql": "CURRENT_TIMESTAMP - INTERVAL 1 HOUR",
    }[engine[0]]
    rules = [
        rule(
            over.format(column, hour_ago),
            name=column,
            violating=f"[{{leases: [{{id: 1, {column}: now - 1m}}]}}, {{leases: [{{id: 1, {column}: now - 59m}}]}}]",
            healthy=f"[{{leases: [{{id: 1, {column}: now + 1m}}, {{id: 2, {column}: null}}, {{id: 3, {column}: now - 61m}}]}}]",
        )
        for column in ("until", "zoned")
    ]
    done = holdtrue(write(*rules, **zone))
    assert done.returncode == 0, done.stdout + done.stderr


def test_triggers_do_not_run_and_what_the_schema_file_wrote_is_there_for_every_example(
    write: Write, holdtrue: Holdtrue, engine: tuple[str, dict[str, str]]
) -> None:
    trigger = {
        "sqlite": "CREATE TRIGGER more AFTER INSERT ON t BEGIN INSERT INTO log VALUES (1); END;",
        "postgresql": (
            "CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN INSERT INTO log VALUES (1); RETURN NEW; END $$;"
            "CREATE TRIGGER more AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION more();"
        ),
        "mysql": "CREATE TRIGGER more AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (1);",
    }[engine[0]]
    schema = (
        f"CREATE TABLE t (id integer PRIMARY KEY); CREATE TABLE log (id integer); INSERT INTO t VALUES (7); {trigger}"
    )
    folder = write(
        rule("SELECT id FROM log", name="log", violating="[{log: [{id: 1}]}]", healthy="[{t: [{id: 1}]}, {}]"),
        rule(
            "SELECT count(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM t WHERE id = 7) OR (SELECT count(*) FROM t) > 2",
            name="seven",
            keys="returns: count",
            violating="[{t: [{id: 1}, {id: 2}]}, {t: [{id: 2}, {id: 3}]}]",
            healthy="[{t: [{id: 1}]}, {}]",
        ),
        schema=schema,
    )
    done = holdtrue(folder)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("schema", [None, "CREATE TABLE refunds (id nonsense((;"])
def test_without_a_usable_schema_nothing_is_proven(
    write: Write, holdtrue: Holdtrue, engine: tuple[str, dict[str, str]], schema: str | None
) -> None:
    """No `schema_file` is configuration (2); one that makes no database could not be looked at (3)."""
    folder = write(rule(DOUBLED, violating=f"[{{refunds: {TWICE}}}]"), schema=schema)
    said = holdtrue(folder, "--format", "json")
    found = answers_of(said)["rule"]
    assert (said.returncode, found["result"]) == ((2, "refused") if schema is None else (3, "could not look"))
    assert found["examples"] == []
    if schema is not None:
        assert "schema.sql" in found["sentence"]
        assert ("line 1: " in found["sentence"]) == (engine[0] == "postgresql")
    (folder / "invariants" / "a.yaml").write_text(f"defaults: {{database: shop}}\ninvariants:\n  - {rule(DOUBLED)}\n")
    assert holdtrue(folder).returncode == 0


def test_a_schema_file_that_is_not_there_is_refused(write: Write, holdtrue: Holdtrue) -> None:
    folder = write(rule(DOUBLED, violating=f"[{{refunds: {TWICE}}}]"))
    (folder / "schema.sql").unlink()
    said = holdtrue(folder)
    assert said.returncode == 2
    assert "the schema file schema.sql cannot be read" in said.stdout


@pytest.mark.parametrize("arguments", [["misspelt"], ["--select", "tag:none"], ["--format", "xml"]])
def test_what_is_not_understood_is_refused(write: Write, holdtrue: Holdtrue, arguments: list[str]) -> None:
    done = holdtrue(write(rule(DOUBLED)), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


def test_reports_for_pipelines_say_the_same(write: Write, holdtrue: Holdtrue) -> None:
    folder = write(
        rule(DOUBLED, name="good", violating=f"[{{name: '<&>, 100%: \"x\"', refunds: {TWICE}}}]"),
        rule(DOUBLED, name="bad", violating=f"[{{name: '<&>, 100%: \"x\"', refunds: {ONCE}}}]"),
        rule(DOUBLED, name="unproven"),
    )
    junit = holdtrue(folder, "--format", "junit")
    assert junit.returncode == 1
    root = Xml.fromstring(junit.stdout)  # noqa: S314 - our own
    assert {name: root.attrib[name] for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    (failed,) = [one for one in root.iter("testcase") if one.find("failure") is not None]
    assert (failed.attrib["classname"], failed.attrib["name"]) == ("bad", 'violating 1: <&>, 100%: "x"')
    assert (failed.attrib["file"], failed.attrib["line"]) == ("invariants/a.yaml", "4")
    required = Xml.fromstring(holdtrue(folder, "--format", "junit", "--require-examples").stdout)  # noqa: S314
    assert (required.attrib["failures"], required.attrib["skipped"]) == ("2", "0")

    github = holdtrue(folder, "--format", "github").stdout.splitlines()
    assert len(github) == 3
    assert github[0].startswith("::error file=invariants/a.yaml,line=4,col=")
    assert ',title=bad @ shop%3A failed::violating 1: <&>, 100%25: "x": the invariant cannot fail' in github[0]
    assert re.match(
        r"::warning file=invariants/a\.yaml,line=5,col=\d+,title=unproven @ shop%3A not proven::", github[1]
    )
    assert github[2] == "3 tested: 1 failed, 1 not proven, 1 proven"


def test_databases_that_are_alike_are_tried_once(write: Write, holdtrue: Holdtrue) -> None:
    folder = write(rule(DOUBLED, violating=f"[{{refunds: {TWICE}}}]", keys="databases: ['*']"))
    config = json.loads((folder / "holdtrue.yaml").read_text())
    config["databases"] |= {
        "shard-1": config["databases"]["shop"],
        "apart": {**config["databases"]["shop"], "schema_file": "other.sql"},
    }
    (folder / "other.sql").write_text("CREATE TABLE refunds (id integer);")
    (folder / "holdtrue.yaml").write_text(json.dumps(config))
    text = (folder / "invariants" / "a.yaml").read_text().replace("defaults: {database: shop}\n", "")
    (folder / "invariants" / "a.yaml").write_text(text)
    done = holdtrue(folder, "--format", "json")
    found = {tuple(one["databases"]): one["result"] for one in json.loads(done.stdout)["tested"]}
    assert found == {("shop", "shard-1"): "proven", ("apart",): "failed"}
    narrowed = json.loads(holdtrue(folder, "--format", "json", "-s", "database:shard-1").stdout)["tested"]
    assert [one["databases"] for one in narrowed] == [["shard-1"]]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_called_off_leaves_no_database_behind(
    tmp_path: Path, postgres_primary: PostgresPrimary, sent: signal.Signals
) -> None:
    (tmp_path / "invariants").mkdir()
    slow = rule("SELECT 1 AS id FROM pg_sleep(300)", violating="[{}]", keys="timeout: 5m, database: shop")
    (tmp_path / "invariants" / "a.yaml").write_text(f"invariants:\n  - {slow}\n")
    database = {"replicas": [{"name": "r", "url": "postgresql://nobody@127.0.0.1:1/x"}], "schema_file": "s.sql"}
    (tmp_path / "holdtrue.yaml").write_text(json.dumps({"databases": {"shop": database}}))
    (tmp_path / "s.sql").write_text("CREATE TABLE t (id integer);")
    child = subprocess.Popen(
        [sys.executable, "-m", "holdtrue", "test"],
        cwd=tmp_path,
        env={**os.environ, "HOLDTRUE_SCRATCH_URL": postgres_primary.url()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        active = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdtrue test' AND query LIKE '%pg_sleep%'"
        )
        wait_until(lambda: postgres_primary.value(active) == 1, "the text runs")
        child.send_signal(sent)
        out, err = child.communicate(timeout=30)
        assert child.returncode == 130, out + err
        assert "Traceback" not in out + err
        left = "SELECT count(*) FROM pg_database WHERE datname LIKE 'holdtrue_scratch%'"
        assert postgres_primary.value(left) == 0
    finally:
        child.kill()
        child.wait(10)


def test_a_server_that_does_not_answer_proves_nothing_and_no_password_is_told(tmp_path: Path) -> None:
    (tmp_path / "invariants").mkdir()
    text = rule("SELECT id FROM t", violating="[{}]", keys="database: shop")
    (tmp_path / "invariants" / "a.yaml").write_text(f"invariants:\n  - {text}\n")
    database = {"replicas": [{"name": "r", "url": "postgresql://nobody@127.0.0.1:1/x"}], "schema_file": "s.sql"}
    (tmp_path / "holdtrue.yaml").write_text(json.dumps({"databases": {"shop": database}}))
    (tmp_path / "s.sql").write_text("CREATE TABLE t (id integer);")
    done = command(tmp_path, {"HOLDTRUE_SCRATCH_URL": "postgresql://u:secret-4711@127.0.0.1:1/postgres"})
    assert done.returncode == 3, done.stdout + done.stderr
    assert "could not look" in done.stdout
    assert "secret-4711" not in done.stdout + done.stderr


def test_without_a_server_of_the_teams_a_throw_away_one_is_started(tmp_path: Path) -> None:
    (tmp_path / "invariants").mkdir()
    text = rule("SELECT id FROM t", violating="[{t: [{id: 1}]}]", healthy="[{}]", keys="database: shop")
    (tmp_path / "invariants" / "a.yaml").write_text(f"invariants:\n  - {text}\n")
    database = {"replicas": [{"name": "r", "url": "postgresql://nobody@127.0.0.1:1/x"}], "schema_file": "s.sql"}
    (tmp_path / "holdtrue.yaml").write_text(json.dumps({"databases": {"shop": database}}))
    (tmp_path / "s.sql").write_text("CREATE TABLE t (id integer);")
    done = command(tmp_path, {})
    assert done.returncode == 0, done.stdout + done.stderr
