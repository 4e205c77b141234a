"""A value of a column that nobody called safe is in no face of a real service, whatever its type and however it got there."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdtrue.cli import run
from servers.postgres import FreshDatabase
from servers.service import LEDGER_SECRET, Serving, environment, until
from servers.slack import TOKEN, SlackStub

SERVICE_TOKEN = "token-of-the-service-0123456789"
WORD = "mk4711word"
NUMBER = "4711471147"
ADDRESS = "47.11.47.11"
LETTERS = "cafebabe47114711"
MARKERS = re.compile(
    "|".join(
        (WORD, WORD.encode().hex(), NUMBER, ADDRESS.replace(".", r"\."), LETTERS, "4711-4711-4711", "47114711[.]47")
    ),
    re.IGNORECASE,
)

POSTGRESQL = f"""
CREATE TYPE person AS (name text, phone bigint);
CREATE TABLE parents(id int PRIMARY KEY, note text);
CREATE TABLE people(id int PRIMARY KEY, parent int REFERENCES parents(id), t text, v varchar(20), c char(12), n numeric,
 b bigint, u uuid, j jsonb, y bytea, i inet, a text[], p person, r int8range, d double precision, h text,
 g text GENERATED ALWAYS AS (t || '!') STORED);
INSERT INTO parents VALUES (1, '{WORD}');
INSERT INTO people SELECT k, 1, '{WORD}' || k, '{WORD}', '{WORD}', 47114711.47, {NUMBER},
 '47114711-4711-4711-4711-471147114711', jsonb_build_object('who', '{WORD}'), convert_to('{WORD}', 'UTF8'), '{ADDRESS}',
 ARRAY['{WORD}'], ROW('{WORD}', {NUMBER})::person, int8range({NUMBER}, NULL), 47114711.47, repeat('{WORD}', 50000)
 FROM generate_series(1, 3) AS k;
CREATE FUNCTION raises() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{WORD}' USING DETAIL = '{WORD}',
 HINT = '{WORD}', COLUMN = '{WORD}', TABLE = '{WORD}', CONSTRAINT = '{WORD}'; END $$;
CREATE FUNCTION notes() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '{WORD}'; RAISE WARNING '{WORD}'; RETURN 1; END $$
"""
SQLITE = f"""
CREATE TABLE parents(id int PRIMARY KEY, note text);
CREATE TABLE people(id int PRIMARY KEY, parent int REFERENCES parents(id), t text, v text, n real, b bigint, y blob, h text,
 g text GENERATED ALWAYS AS (t || '!') STORED);
INSERT INTO parents VALUES (1, '{WORD}');
WITH RECURSIVE k(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM k WHERE k < 3)
 INSERT INTO people(id, parent, t, v, n, b, y, h) SELECT k, 1, '{WORD}' || k, '{WORD}', 47114711.47, {NUMBER},
 CAST('{WORD}' AS BLOB), replace(hex(zeroblob(20000)), '00', '{WORD}') FROM k;
"""
RULES = {
    "whole_rows": ("SELECT * FROM people", "base_rows: [{table: people, where: {id: id}}]"),
    "keyed": ("SELECT t, b, h, parent FROM people", "key: [t, b, h], base_rows: [{table: people, where: {t: t}}]"),
    "named_as_key": ("SELECT id, t AS who FROM people", "key: [who], columns: {id: safe}"),
    "cut_short": ("SELECT * FROM people", "count_limit: 1"),
    "counted_with_rows": ("SELECT count(*) FROM people", "returns: count, rows_sql: SELECT * FROM people, key: [t]"),
    "wrong_shape": ("SELECT t FROM people WHERE id = 1", "returns: count"),
}
POSTGRESQL_RULES = {
    "cast": ("SELECT id FROM people WHERE t::int = 1", ""),
    "cast_json": ("SELECT id FROM people WHERE t::jsonb IS NULL", ""),
    "cast_moment": ("SELECT id FROM people WHERE t::date IS NULL", ""),
    "raises": ("SELECT id FROM people WHERE raises() = id", ""),
    "notes": ("SELECT id FROM people WHERE notes() = id", "columns: {id: safe}, key: [id]"),
    "divides": ("SELECT id FROM people WHERE b / (b - b) = 1", ""),
}
SQLITE_RULES = {
    "json": ("SELECT id FROM people WHERE json_extract(t, '$.a') = 1", ""),
    "overflows": ("SELECT id FROM people WHERE abs(-9223372036854775807 - 1) = b", ""),
}
CONFIG = """version: 1
store: {{url: "sqlite:///store.db"}}
databases:
  people: {{replicas: [{{name: r1, url: "${{DATABASE_URL}}"}}], allow_primary: true, freshness: none}}
  away: {{replicas: [{{name: r1, url: "postgresql://reader:{word}@127.0.0.1:1/none"}}], allow_primary: true}}
notifiers:
  oncall: {{kind: slack, channel: "#on-call", token: "${{SLACK_TOKEN}}", api_url: "{slack}"}}
  hook: {{kind: slack, webhook_url: "${{SLACK_HOOK}}"}}
"""


@dataclass
class Place:
    folder: Path
    env: dict[str, str]
    rules: dict[str, tuple[str, str]]


@pytest.fixture
def slack() -> Iterator[SlackStub]:
    with SlackStub() as stub:
        yield stub


@pytest.fixture(params=["postgresql", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path, slack: SlackStub) -> Place:
    if request.param == "postgresql":
        database: FreshDatabase = request.getfixturevalue("postgres_database")
        database.execute(POSTGRESQL.split(";\n"))
        url, rules = database.primary_url, {**RULES, **POSTGRESQL_RULES}
    else:
        connection = sqlite3.connect(tmp_path / "people.db")
        connection.executescript(SQLITE)
        connection.close()
        url, rules = "sqlite:///people.db", {**RULES, **SQLITE_RULES}
    folder = tmp_path / "place"
    (folder / "invariants").mkdir(parents=True)
    (tmp_path / "tmp").mkdir()
    if request.param == "sqlite":
        (tmp_path / "people.db").rename(folder / "people.db")
    (folder / "holdtrue.yaml").write_text(CONFIG.format(slack=slack.base_url, word="${AWAY_PASSWORD}"))
    lines = ["version: 1", "invariants:"]
    for name, (sql, more) in rules.items():
        text = sql.replace("'", "''")
        lines.append(f"  - {{name: {name}, database: people, interval: 1h, sql: '{text}'{', ' if more else ''}{more}}}")
    lines.append("  - {name: nobody_there, database: away, interval: 1h, sql: 'SELECT 1 AS id WHERE 1 = 0'}")
    (folder / "invariants" / "all.yaml").write_text("\n".join(lines) + "\n")
    env = {
        "DATABASE_URL": url,
        "AWAY_PASSWORD": "password-of-away",
        "SLACK_TOKEN": TOKEN,
        "SLACK_HOOK": slack.hook_url,
        "HOLDTRUE_TOKEN": SERVICE_TOKEN,
        "HOLDTRUE_LOG_LEVEL": "debug",
        "TMPDIR": str(tmp_path / "tmp"),
    }
    return Place(folder, env, rules)


def test_no_value_and_no_secret_is_in_any_face(
    place: Place, slack: SlackStub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Design 7, semantics 3.5, 4.4 and 11.1: store, API, pages, CSV, commands, messages, log, metrics, files, processes."""
    said: dict[str, str] = {}
    with Serving(place.folder, place.env).until_serving() as serving:
        headers = {"authorization": f"Bearer {SERVICE_TOKEN}"}

        def overview() -> dict[str, dict]:
            answer = serving.get("/api/v1/overview", headers=headers)
            return {one["invariant"]: one for one in answer.json()["entries"]}

        def asked(one: dict) -> bool:
            path = f"/api/v1/invariants/{one['invariant']}/runs"
            return bool(serving.get(path, headers=headers).json()["runs"])

        until(lambda: all(asked(one) for one in overview().values()), "each was asked")
        firing = {name: one["alert"] for name, one in overview().items() if one["alert"]}
        assert {"whole_rows", "keyed", "named_as_key", "cut_short", "counted_with_rows"} <= set(firing)
        # Alerts that fire at once are one message for all, on each of the two notifiers.
        slack.wait_until(lambda stub: all(sum(name in one.seen for one in stub.messages) >= 2 for name in firing))

        paths = ["/", "/alerts", "/catalog", "/databases", "/deliveries", "/metrics", "/healthz", "/readyz", "/nothing"]
        paths += [f"/api/v1/{one}" for one in ("overview", "invariants", "alerts?state=all", "databases", "instances")]
        paths += [f"/api/v1/{one}" for one in ("catalog", "deliveries", "openapi.json")]
        for name in [*place.rules, "nobody_there"]:
            database = "away" if name == "nobody_there" else "people"
            paths += [f"/invariants/{name}", f"/api/v1/invariants/{name}"]
            paths += [f"/api/v1/invariants/{name}/{one}" for one in ("runs", "counts", "keys")]
            paths += [f"/api/v1/invariants/{name}/databases/{database}/history"]
        for number in firing.values():
            paths += [f"/alerts/{number}", f"/alerts/{number}/promote", f"/alerts/{number}/rows.csv"]
            paths += [f"/api/v1/alerts/{number}"]
        for path in paths:
            said[path] = serving.get(path, headers=headers).text
            if path.startswith("/api/"):
                said[f"{path} read"] = json.dumps(json.loads(said[path]), ensure_ascii=False)

        commands = [("overview",), ("overview", "--format", "json"), ("alerts", "list", "--all"), ("run",)]
        commands += [("run", "--format", "json"), ("check",)]
        for name in place.rules:
            commands += [("history", name), ("history", name, "--format", "json")]
        for number in firing.values():
            commands += [("alerts", "show", str(number)), ("alerts", "show", str(number), "--format", "json")]
            commands += [("promote", str(number), "--preview"), ("promote", str(number))]
        monkeypatch.chdir(place.folder)
        for name, value in {**environment(place.env), "HOLDTRUE_URL": serving.url}.items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        for command in commands:
            run(command)
            said[" ".join(command)] = "".join(capfd.readouterr())
            assert "unexpected" not in said[" ".join(command)], command
        said["process"] = Path(f"/proc/{serving.process.pid}/cmdline").read_text()
        assert serving.stop() == 0
        said["log"] = serving.log
    said["slack"] = json.dumps([payload for _, payload in slack.calls], default=str)
    said["slack's screen"] = slack.screen()
    promoted = list((place.folder / "tests" / "incidents").iterdir())
    assert promoted
    for path in (*place.folder.rglob("*"), *Path(place.env["TMPDIR"]).rglob("*")):
        if path.is_file() and path.name not in ("people.db", "all.yaml", "holdtrue.yaml"):
            said[str(path)] = path.read_bytes().decode("latin-1")
    assert any(name.endswith("store.db") for name in said)

    found = {where: MARKERS.search(text) for where, text in said.items()}
    values = {where: said[where][max(0, one.start() - 150) : one.end() + 50] for where, one in found.items() if one}
    assert not values
    secrets = (SERVICE_TOKEN, LEDGER_SECRET, "password-of-away", "secret-of-the-hook", TOKEN)
    url = place.env["DATABASE_URL"]
    secrets += (url.partition("://")[2].partition("@")[0].partition(":")[2],) if "@" in url else ()
    told = {where: secret for where, text in said.items() for secret in secrets if secret and secret in text}
    assert not told
