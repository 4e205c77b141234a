"""``holdtrue promote``: through the store and through a service, never over a wired test, never outside its folder."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from holdtrue.catalog import load_catalog
from holdtrue.cli import run as command
from holdtrue.cli.promote import refuse_present, safe_name, write_folder
from holdtrue.databases import Databases, Examined, Look, examine_invariant
from holdtrue.errors import Refused, ServiceError
from holdtrue.model import KeyState, Novelty
from holdtrue.store import open_store
from holdtrue.testing import load_incident
from racy import duplicate, schema
from servers.invariants import HASHER
from stores import Clock, House, entry

NAME = "one_settled_refund_per_dispute"
HOLDTRUE = """
store: {url: "sqlite:///holdtrue.db"}
databases:
  payments:
    replicas: [{name: file, url: "sqlite:///refunds.db"}]
    freshness: none
    allow_primary: true
"""
INVARIANTS = f"""
version: 1
invariants:
  - name: {NAME}
    database: payments
    sql: |
      SELECT dispute_id, count(*) AS refunds FROM refunds WHERE state = 'settled' GROUP BY dispute_id HAVING count(*) > 1
    key: [dispute_id]
    columns: {{refunds.state: safe, refunds.amount_eur: safe}}
    base_rows:
      - {{table: refunds, where: {{dispute_id: dispute_id}}}}
"""


@pytest.fixture
def texts() -> str:
    """The invariants that were in force when the rows were taken."""
    return INVARIANTS


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: str) -> Path:
    """A folder with a configuration, a broken database, and a store whose alert 1 is open."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDTRUE_URL", raising=False)
    (tmp_path / "holdtrue.yaml").write_text(HOLDTRUE, encoding="utf-8")
    (tmp_path / "invariants").mkdir()
    (tmp_path / "invariants" / "refunds.yaml").write_text(texts, encoding="utf-8")
    engine = create_engine(f"sqlite:///{tmp_path / 'refunds.db'}")
    with engine.begin() as connection:
        for statement in (*schema.SQLITE.split(";"), *schema.ROWS):
            if statement.strip():
                connection.exec_driver_sql(statement)
        for _ in range(2):
            connection.exec_driver_sql(duplicate.INSERT.replace(":d", "'dsp_1'"))
    engine.dispose()
    catalog = load_catalog(tmp_path / "holdtrue.yaml", environ={})
    rule = catalog.invariants[0]
    databases = Databases(environ={})
    databases.configure(catalog.config.databases)

    def examine(look: Look) -> Examined:
        return examine_invariant(look, rule, hasher=HASHER, never_seen=lambda tallied, _complete: tuple(tallied.keys))

    examined = databases.look("payments", time_limit=rule.timeout, newest_good=None, examine=examine)
    databases.close()
    assert isinstance(examined, Examined)
    store = open_store(f"sqlite:///{tmp_path / 'holdtrue.db'}", clock=Clock())
    store.upgrade()
    house = House(store, Clock(), "")
    new = replace(entry(NAME), definition=rule.definition)
    store.catalogs.install(
        dict(catalog.texts), catalog.content_hash, "ana", [new], withdraw=lambda *_: None, notifiers=()
    )
    house.generation = 1
    (claim,) = house.claim()
    now = house.clock.now
    keys = tuple(KeyState(key, kind, Novelty.NEW, now, now, now) for key, (kind, _) in examined.tallied.keys.items())
    run = house.run(claim, examined.outcome, counted=1, returned=1, position=examined.position)
    house.save(house.finished(claim, run=run, evidence=examined.evidence, key_changes=keys))
    store.close()
    return tmp_path


def test_an_alert_becomes_a_folder_by_its_name(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["promote", NAME]) == 0
    folder = place / "tests" / "incidents" / f"{NAME}_1"
    assert {one.name for one in folder.iterdir()} == {
        f"test_incident_{NAME}_1.py",
        "incident.json",
        "incident_schema.sql",
        "ticket.json",
        "README.md",
    }
    record = json.loads((folder / "ticket.json").read_text(encoding="utf-8"))
    frozen = load_incident(folder / "incident.json", checksum=record["checksum"])
    assert frozen.engine == "sqlite"
    assert frozen.incident.sql.startswith("SELECT dispute_id")
    assert record["created_by"] == "store"
    assert f"wire run_a and run_b in tests/incidents/{NAME}_1/test_incident" in capsys.readouterr().out
    assert not [one for one in folder.parent.iterdir() if "partial" in one.name]


def test_the_manual_tells_the_same_guesses_as_the_header_of_the_test(place: Path) -> None:
    """semantics 9.3: no run was made before the violation, so nothing about before and after is known."""
    assert command(["promote", NAME]) == 0
    folder = place / "tests" / "incidents" / f"{NAME}_1"
    header = (folder / f"test_incident_{NAME}_1.py").read_text(encoding="utf-8")
    manual = (folder / "README.md").read_text(encoding="utf-8")
    assert "rows split       no run before it: every row is a guess" in header
    assert "## Guesses\n\n- `no run before it: every row is a guess`\n" in manual
    assert "None: " not in manual.partition("## Guesses")[2].partition("## Stand-ins")[0]


@pytest.mark.parametrize("texts", [INVARIANTS.replace("refunds.state: safe, ", "")])
def test_rows_that_were_kept_as_stand_ins_make_no_test_though_their_columns_are_safe_since(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """semantics 4.4, 9.1: the text compares with 'settled', and what was kept in its place is a stand-in."""
    assert command(["promote", NAME]) == 2
    refused = capsys.readouterr().err
    assert "columns: {refunds.state: safe}" in refused
    assert "SIGHUP or POST /-/reload" in refused
    (place / "invariants" / "refunds.yaml").write_text(INVARIANTS, encoding="utf-8")
    catalog = load_catalog(place / "holdtrue.yaml", environ={})
    store = open_store(f"sqlite:///{place / 'holdtrue.db'}", clock=Clock())
    new = replace(entry(NAME), definition=catalog.invariants[0].definition)
    store.catalogs.install(
        dict(catalog.texts), catalog.content_hash, "ana", [new], withdraw=lambda *_: None, notifiers=()
    )
    assert command(["promote", NAME]) == 2
    refused = capsys.readouterr().err
    assert "stand-ins were kept for refunds.state" in refused
    assert "the next new violation, of another key or in another alert" in refused
    assert not (place / "tests").exists()
    assert store.tickets.list(1) == ()
    store.close()


def test_a_wired_test_is_never_written_over_and_nothing_is_recorded(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["promote", "1", "--out", "here"]) == 0
    (place / "here" / "README.md").write_text("mine", encoding="utf-8")
    assert command(["promote", "1", "--out", "here"]) == 2
    assert "may have been wired" in capsys.readouterr().err
    assert (place / "here" / "README.md").read_text(encoding="utf-8") == "mine"
    store = open_store(f"sqlite:///{place / 'holdtrue.db'}")
    try:
        assert len(store.tickets.list(1)) == 1
        assert len([line for line in store.reads.audit(50) if line.action == "alert.promote"]) == 1
    finally:
        store.close()


def test_a_preview_prints_every_file_and_leaves_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["promote", f"{NAME}@payments", "--preview"]) == 0
    shown = capsys.readouterr().out
    assert "── incident.json" in shown
    assert "raise NotWired" in shown
    assert "dsp_1" not in shown, "a column that is not declared safe does not leave"
    assert not (place / "tests").exists()
    store = open_store(f"sqlite:///{place / 'holdtrue.db'}")
    try:
        assert store.tickets.list(1) == ()
    finally:
        store.close()


def test_what_a_preview_shows_is_what_its_draft_writes_byte_for_byte(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """semantics 4.4: stand-ins are drawn anew for each export, so the preview hands out what draws the same ones again."""
    assert command(["promote", NAME, "--preview", "--format", "json"]) == 0
    exact = json.loads(capsys.readouterr().out)
    assert command(["promote", NAME, "--preview", "--draft", exact["draft"]]) == 0
    said = capsys.readouterr()
    assert said.err == f"exactly these files: holdtrue promote 1 --draft {exact['draft']}\n"
    assert said.out == "".join(f"── {path}\n{exact['files'][path]}" for path in sorted(exact["files"]))
    assert command(["promote", NAME, "--draft", exact["draft"], "--out", "here"]) == 0
    assert {one.name: one.read_bytes().decode() for one in (place / "here").iterdir()} == exact["files"]
    assert command(["promote", NAME, "--out", "there"]) == 0
    assert (place / "there" / "incident.json").read_text(encoding="utf-8") != exact["files"]["incident.json"]
    capsys.readouterr()
    assert command(["promote", NAME, "--draft", "made-up", "--out", "nowhere"]) == 2
    assert "no draft of a preview of the last 24 hours" in capsys.readouterr().err
    assert not (place / "nowhere").exists()


def test_where_nobody_could_look_the_command_refuses_until_it_is_told_untried(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """semantics 0, 9.2: not knowing is never good news."""
    assert command(["promote", NAME]) == 0
    assert "with the observed rows the rule breaks" in capsys.readouterr().out

    def full(_: str) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("holdtrue.rehearsal.incidents.on_sqlite", full)
    for more in (["--out", "blind"], ["--preview"]):
        assert command(["promote", NAME, *more]) == 2
        said = capsys.readouterr()
        assert "a scratch SQLite ended with an unexpected OSError" in said.err
        missing, *ways = said.err.splitlines()
        assert missing.endswith("a scratch SQLite ended with an unexpected OSError")
        assert [one[:4] for one in ways] == ["  - "] * 2
        assert "holdtrue promote 1 --untried" in ways[-1]
        assert said.out == ""
    assert not (place / "blind").exists()
    assert command(["promote", NAME, "--untried", "--preview"]) == 0
    said = capsys.readouterr()
    assert "NOT LOOKED: a scratch SQLite ended" in said.err
    assert said.err.endswith(" --untried\n"), "the line that makes exactly these files says it too"
    for out, form in (("blind", "text"), ("blinder", "json")):
        assert command(["promote", NAME, "--untried", "--out", out, "--format", form]) == 0
        said = capsys.readouterr()
        assert "NOT LOOKED: a scratch SQLite ended with an unexpected OSError" in said.err
        assert "nobody knows yet whether these rows break the rule" in said.err
    record = json.loads((place / "blind" / "ticket.json").read_text(encoding="utf-8"))
    assert record["rehearsed"]["result"] == "not looked"


def test_what_can_be_tried_is_tried_however_it_is_asked_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["promote", NAME, "--untried"]) == 0
    said = capsys.readouterr()
    assert "with the observed rows the rule breaks" in said.out
    assert said.err == ""
    record = json.loads((place / "tests" / "incidents" / f"{NAME}_1" / "ticket.json").read_text(encoding="utf-8"))
    assert record["rehearsed"]["result"] == "breaks"


@pytest.mark.parametrize("reference", ["99", "no_such_rule", f"{NAME}@elsewhere"])
def test_an_alert_that_is_not_there_is_refused(reference: str, place: Path) -> None:
    assert command(["promote", reference]) == 2
    assert not (place / "tests").exists()


@contextmanager
def service(answer: dict[str, object]) -> Iterator[str]:
    """Something at HOLDTRUE_URL that answers every promotion with ``answer``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_files_of_a_service_are_written_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """semantics 11.1."""
    monkeypatch.chdir(tmp_path)
    tried = {"result": "breaks", "sentence": "on a scratch SQLite"}
    with service(
        {"id": "rule_7", "rehearsed": tried, "files": {"test_incident_rule_7.py": "x = 1\n", "README.md": "\u2028"}}
    ) as url:
        assert command(["promote", "7", "--url", url]) == 0
    folder = tmp_path / "tests" / "incidents" / "rule_7"
    assert (folder / "README.md").read_bytes() == "\u2028".encode()


def test_a_service_that_does_not_say_whether_it_tried_is_not_believed_to_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """semantics 0: one of an older version gives what it did not try without being asked for it so."""
    monkeypatch.chdir(tmp_path)
    with service({"id": "rule_7", "files": {"README.md": "fine"}}) as url:
        assert command(["promote", "7", "--url", url]) == 2
        assert list(tmp_path.rglob("*")) == []
        assert command(["promote", "7", "--url", url, "--untried"]) == 0
    assert "NOT LOOKED: the service does not say" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["../evil.py", "/tmp/evil.py", "a/../../evil.py", "..", "", ".", "a\\b", "C:evil", "x\x00"]
)
def test_a_service_cannot_write_outside_of_the_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tried = {"result": "breaks", "sentence": ""}
    with service({"id": "rule_7", "rehearsed": tried, "files": {"README.md": "fine", name: "evil"}}) as url:
        assert command(["promote", "7", "--url", url]) == 4
    with service({"id": name, "rehearsed": tried, "files": {}}) as url:
        assert command(["promote", "7", "--url", url]) == 4
    assert "leads out of the folder" in capsys.readouterr().err
    assert list(tmp_path.rglob("*")) == []


def test_a_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(ServiceError):
        write_folder(tmp_path / "one", {"a.py": "", "../b.py": ""})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused):
        refuse_present(tmp_path / "link")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(Refused):
        write_folder(tmp_path / "file" / "below", {"a.py": ""})
    assert safe_name("test_incident_x.py") == "test_incident_x.py"


def test_rows_leave_as_csv_and_json_if_they_are_asked_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["promote", NAME, "--also", "csv, json"]) == 0
    folder = place / "tests" / "incidents" / f"{NAME}_1"
    names = {one.name for one in folder.iterdir()}
    assert {"rows.json", "rows_1_accounts.csv", "rows_2_disputes.csv", "rows_3_refunds.csv"} < names
    assert "incident.spec" not in names
    frozen = json.loads((folder / "incident.json").read_text(encoding="utf-8"))
    rows = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    assert len(rows) == sum(len(table["rows"]) for part in ("seed", "observed") for table in frozen[part])
    assert all("dsp_1" not in (folder / name).read_text(encoding="utf-8") for name in names)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("also", "says"),
    [("spec", "an isolationtester spec is for PostgreSQL"), ("pdf", "--also pdf is no kind of file")],
)
def test_a_kind_of_file_that_cannot_be_is_refused_and_nothing_is_written(
    place: Path, capsys: pytest.CaptureFixture[str], also: str, says: str
) -> None:
    assert command(["promote", NAME, "--also", also]) == 2
    assert says in capsys.readouterr().err
    assert not (place / "tests").exists()
