"""`holdtrue diff` as a person meets it: a real process, a real repository, real rows, an exit code."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from servers.mariadb import FreshMariadb
from servers.postgres import FreshDatabase

MARKER = "private-4711"
COMMITTED = """
version: 1
defaults: {database: shop}
invariants:
  - name: one_refund
    sql: SELECT dispute_id, note FROM refunds WHERE state = 'doubled'
    key: [dispute_id]
    columns: {dispute_id: safe}
  - name: how_many
    returns: count
    sql: SELECT count(*) FROM refunds WHERE state = 'doubled'
  - name: keyless
    sql: SELECT dispute_id, note FROM refunds WHERE state = 'doubled'
  - name: going
    sql: SELECT dispute_id FROM refunds WHERE amount < 0
"""
TEXT = "SELECT dispute_id, note FROM refunds WHERE state = 'doubled'"


def git(folder: Path, *arguments: str) -> str:
    """Git in a folder, with nobody's settings."""
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    named = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *named, *arguments],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def commit(folder: Path, message: str = "As it is") -> str:
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def command(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDTRUE_", "GIT_"))}
    return subprocess.run(
        [sys.executable, "-m", "holdtrue", "diff", *arguments],
        cwd=folder,
        env={**kept, "GIT_CONFIG_GLOBAL": os.devnull, **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode
    return found


def catalog(folder: Path, invariants: str = COMMITTED, *, name: str = "shop.yaml") -> Path:
    """A catalog on the SQLite file beside it."""
    (folder / "invariants").mkdir(exist_ok=True)
    (folder / "invariants" / name).write_text(invariants, encoding="utf-8")
    config = {
        "databases": {"shop": {"replicas": [{"name": "file", "url": "sqlite:///shop.db"}], "allow_primary": True}}
    }
    (folder / "holdtrue.yaml").write_text(json.dumps(config), encoding="utf-8")
    return folder


def fill(folder: Path) -> None:
    connection = sqlite3.connect(folder / "shop.db")
    connection.execute("CREATE TABLE refunds(dispute_id TEXT, state TEXT, amount INTEGER, note TEXT)")
    rows = [(f"dsp_{number:02}", "doubled", number, MARKER) for number in range(25)]
    connection.executemany("INSERT INTO refunds VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    (folder / ".gitignore").write_text("*.db*\n", encoding="utf-8")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with a catalog that is committed, on a file with 25 violations."""
    folder = catalog(tmp_path)
    fill(folder)
    commit(folder)
    return folder


def edit(folder: Path, before: str, after: str) -> None:
    path = folder / "invariants" / "shop.yaml"
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_an_untouched_invariant_finds_the_same(shop: Path) -> None:
    done = command(shop, "one_refund")
    assert done.returncode == 0, done.stderr
    assert "the definition is the same" in done.stdout
    assert done.stdout.count("violated: 25 counted") == 2


def test_a_changed_text_says_what_only_one_of_them_finds(shop: Path) -> None:
    """semantics 4.2: keys are compared by their hash."""
    edit(shop, TEXT, TEXT + " AND amount <> 3 UNION ALL SELECT 'dsp_new', 'x'")
    done = command(shop, "one_refund")
    assert done.returncode == 1, done.stderr
    assert "dispute_id=dsp_03" in done.stdout
    assert "dispute_id=dsp_new" in done.stdout
    assert "accepts are not known here" in done.stdout
    found = told(command(shop, "one_refund", "--format", "json"))
    (one,) = found["databases"]
    assert (one["former"]["count"], one["edited"]["count"], one["in_both"]) == (25, 25, 24)
    assert [key["shown"] for key in one["only_former"]["keys"]] == ["dispute_id=dsp_03"]
    assert [key["shown"] for key in one["only_edited"]["keys"]] == ["dispute_id=dsp_new"]
    assert one["one_snapshot"] is True
    assert [(change["key"], change["decides"]) for change in found["changed"]] == [("sql", True)]
    assert found["same_definition"] is False


def test_what_is_not_safe_is_masked_and_what_one_form_hides_both_hide(shop: Path) -> None:
    """semantics 4.4."""
    edit(shop, "columns: {dispute_id: safe}", "columns: {dispute_id: hash}")
    edit(shop, TEXT, TEXT + " AND amount > 3")
    for arguments in (["one_refund"], ["one_refund", "--format", "json"], ["keyless", "--format", "json"]):
        done = command(shop, *arguments)
        assert MARKER not in done.stdout + done.stderr
        assert "dsp_" not in done.stdout


def test_nothing_is_saved(shop: Path) -> None:
    before = sorted(path.name for path in shop.iterdir())
    edit(shop, TEXT, TEXT + " AND amount > 3")
    command(shop, "one_refund")
    assert sorted(path.name for path in shop.iterdir()) == before
    assert git(shop, "status", "--porcelain") == "M invariants/shop.yaml"


def test_a_comment_alone_is_no_change_of_the_definition(shop: Path) -> None:
    edit(shop, f"sql: {TEXT}", f"sql: |\n      -- why\n      {TEXT}")
    done = command(shop, "one_refund")
    assert done.returncode == 0
    assert "space or comments alone" in done.stdout


def test_counts_are_compared_by_number(shop: Path) -> None:
    edit(shop, "count(*) FROM refunds WHERE state = 'doubled'", "count(*) FROM refunds WHERE amount > 4")
    (one,) = told(command(shop, "how_many", "--format", "json"))["databases"]
    assert (one["answer"], one["former"]["count"], one["edited"]["count"]) == ("different", 25, 20)
    assert one["only_former"] is None
    assert one["why"] == "a number has no keys"


def test_without_a_key_whole_rows_are_compared(shop: Path) -> None:
    path = shop / "invariants" / "shop.yaml"
    text = path.read_text(encoding="utf-8")
    head, tail = text.split("  - name: keyless")
    path.write_text(head + "  - name: keyless" + tail.replace(TEXT, TEXT + " AND amount <> 3"), encoding="utf-8")
    (one,) = told(command(shop, "keyless", "--format", "json"))["databases"]
    assert (one["only_former"]["count"], one["only_edited"]["count"]) == (1, 0)
    path.write_text(
        head + "  - name: keyless" + tail.replace(TEXT, "SELECT dispute_id FROM refunds WHERE state = 'doubled'"),
        encoding="utf-8",
    )
    done = command(shop, "keyless")
    assert done.returncode == 0
    assert "their columns were changed" in done.stdout


def test_a_changed_key_is_said_and_not_compared(shop: Path) -> None:
    edit(shop, "key: [dispute_id]", "key: [note]")
    done = command(shop, "one_refund")
    assert "the key was changed, from dispute_id to note" in done.stdout
    assert "key: dispute_id → note" in done.stdout


def test_what_is_tolerated_decides_the_outcome(shop: Path) -> None:
    edit(
        shop, "columns: {dispute_id: safe}", "columns: {dispute_id: safe}\n    timeout: 20s\n    policy: {tolerate: 30}"
    )
    done = command(shop, "one_refund")
    assert done.returncode == 1
    assert "policy.tolerate: 0 → 30" in done.stdout
    assert "timeout: 10s → 20s (decides nothing of what counts)" in done.stdout
    assert "holds: 25 counted" in done.stdout


def test_a_new_a_removed_and_a_renamed_one_are_said(shop: Path) -> None:
    path = shop / "invariants" / "shop.yaml"
    text = path.read_text(encoding="utf-8").split("  - name: going")[0]
    added = f"  - name: fresh\n    sql: {TEXT} AND amount < 2\n  - name: quiet\n    sql: {TEXT} AND amount < 0\n"
    text = text.replace("- name: one_refund", "- name: at_most_one\n    renamed_from: one_refund")
    path.write_text(text + added, encoding="utf-8")
    fresh = command(shop, "fresh")
    assert fresh.returncode == 1
    assert "new: HEAD" in fresh.stdout
    assert "not there" in fresh.stdout
    assert command(shop, "quiet").returncode == 0
    removed = command(shop, "going")
    assert removed.returncode == 0
    assert "removed: the catalog has it no more" in removed.stdout
    for name in ("at_most_one", "one_refund"):
        renamed = command(shop, name)
        assert renamed.returncode == 0
        assert "renamed: it was one_refund at HEAD" in renamed.stdout
    assert command(shop, "at_most_on").returncode == 2


def test_a_text_that_fails_is_could_not_look_and_the_other_is_still_asked(shop: Path) -> None:
    edit(shop, TEXT, "SELECT dispute_id, absent FROM refunds")
    (one,) = told(command(shop, "one_refund", "--format", "json"))["databases"]
    assert one["answer"] == "could not look"
    assert one["former"]["count"] == 25
    assert one["edited"]["count"] is None
    assert command(shop, "one_refund").returncode == 3


@pytest.mark.parametrize("kind", ["revision", "folder", "config", "file"])
def test_against_what_is_a_revision_a_folder_or_a_file(
    shop: Path, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    elsewhere = tmp_path_factory.mktemp("then")
    first = git(shop, "rev-parse", "HEAD")
    catalog(elsewhere, COMMITTED)
    edit(shop, TEXT, TEXT + " AND amount > 3")
    commit(shop, "Narrower")
    assert command(shop, "one_refund").returncode == 0
    against = {
        "revision": first,
        "folder": str(elsewhere),
        "config": str(elsewhere / "holdtrue.yaml"),
        "file": str(elsewhere / "invariants" / "shop.yaml"),
    }[kind]
    found = told(command(shop, "one_refund", "--against", against, "--format", "json"))
    assert found["databases"][0]["former"]["count"] == 25
    assert found["databases"][0]["edited"]["count"] == 21


@pytest.mark.parametrize(
    "against", ["no-such-branch", "--output=/tmp/x", "HEAD^{tree}", "../absent", "holdtrue.yaml\n", "", " "]
)
def test_what_is_neither_is_refused_with_a_remedy(shop: Path, against: str) -> None:
    done = command(shop, "one_refund", f"--against={against}")
    assert done.returncode == 2
    assert "revision" in done.stderr
    assert "Traceback" not in done.stderr


def test_outside_of_a_repository_it_says_what_to_give_instead(tmp_path: Path) -> None:
    catalog(tmp_path)
    fill(tmp_path)
    done = command(tmp_path, "one_refund", GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert done.returncode == 2
    assert "not a git repository" in done.stderr
    assert "--against a folder" in done.stderr


def test_without_git_it_says_so(shop: Path) -> None:
    done = command(shop, "one_refund", PATH="/nowhere")
    assert done.returncode == 2
    assert "git is not installed" in done.stderr


def test_a_repository_with_nothing_committed_is_refused(tmp_path: Path) -> None:
    catalog(tmp_path)
    fill(tmp_path)
    git(tmp_path, "init", "--quiet")
    done = command(tmp_path, "one_refund")
    assert done.returncode == 2
    assert "commit first" in done.stderr


class TestLayouts:
    """The catalog lies anywhere in a repository, or in one of its own."""

    def test_a_catalog_below_the_root_with_texts_in_files(self, tmp_path: Path) -> None:
        folder = tmp_path / "ops" / "monitoring"
        folder.mkdir(parents=True)
        rule = "invariants:\n  - {name: one_refund, database: shop, sql_file: sql/one.sql, key: [dispute_id]}\n"
        catalog(folder, rule)
        fill(folder)
        (folder / "invariants" / "sql").mkdir()
        text = folder / "invariants" / "sql" / "one.sql"
        text.write_text(TEXT, encoding="utf-8")
        commit(tmp_path)
        text.write_text(TEXT + " AND amount > 3", encoding="utf-8")
        done = command(tmp_path, "one_refund", "--config", "ops/monitoring/holdtrue.yaml", "--format", "json")
        (one,) = told(done)["databases"]
        assert (one["former"]["count"], one["edited"]["count"]) == (25, 21)

    def test_a_holdtrue_yaml_that_is_not_committed(self, tmp_path: Path) -> None:
        catalog(tmp_path)
        fill(tmp_path)
        (tmp_path / ".gitignore").write_text("*.db*\nholdtrue.yaml\n", encoding="utf-8")
        commit(tmp_path)
        edit(tmp_path, TEXT, TEXT + " AND amount > 3")
        assert command(tmp_path, "one_refund").returncode == 1

    def test_invariants_in_a_repository_of_their_own(self, tmp_path: Path) -> None:
        catalog(tmp_path)
        fill(tmp_path)
        commit(tmp_path / "invariants")
        edit(tmp_path, TEXT, TEXT + " AND amount > 3")
        assert command(tmp_path, "one_refund").returncode == 1

    def test_a_file_that_is_a_link_and_one_that_moved(self, shop: Path) -> None:
        (shop / "rules").mkdir()
        (shop / "invariants" / "shop.yaml").rename(shop / "rules" / "shop.yaml")
        (shop / "invariants" / "linked.yaml").symlink_to("../rules/shop.yaml")
        commit(shop, "Linked")
        path = shop / "rules" / "shop.yaml"
        path.write_text(COMMITTED.replace(TEXT, TEXT + " AND amount > 3"), encoding="utf-8")
        assert command(shop, "one_refund").returncode == 1

    def test_a_link_to_a_link_leads_to_its_file(self, shop: Path) -> None:
        (shop / "rules").mkdir()
        (shop / "invariants" / "shop.yaml").rename(shop / "rules" / "shop.yaml")
        (shop / "rules" / "between.yaml").symlink_to("shop.yaml")
        (shop / "invariants" / "linked.yaml").symlink_to("../rules/between.yaml")
        commit(shop, "Linked twice")
        assert command(shop, "one_refund").returncode == 0

    def test_what_a_commit_does_not_hold_is_said_to_be_unread(
        self, shop: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """Else an invariant of a submodule would be called new, without a word of why."""
        theirs = tmp_path_factory.mktemp("theirs")
        (theirs / "more.yaml").write_text(COMMITTED.replace("name: ", "name: their_"), encoding="utf-8")
        commit(theirs)
        git(shop, "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(theirs), "invariants/theirs")
        commit(shop, "With theirs")
        found = told(command(shop, "their_one_refund", "--format", "json"))
        assert any("invariants/theirs is a submodule" in note and "not read" in note for note in found["notes"])

    def test_a_hook_of_another_repository_changes_nothing(
        self, shop: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        theirs = tmp_path_factory.mktemp("theirs")
        (theirs / "shop.yaml").write_text(COMMITTED.replace("doubled", "gone"), encoding="utf-8")
        commit(theirs)
        for where in (theirs / ".git", ".git", shop / ".git"):
            done = command(shop, "one_refund", GIT_DIR=str(where), GIT_INDEX_FILE=f"{where}/index")
            assert done.returncode == 0, done.stdout + done.stderr

    def test_a_database_that_is_gone_cannot_be_asked(self, shop: Path) -> None:
        config = json.loads((shop / "holdtrue.yaml").read_text(encoding="utf-8"))
        config["databases"]["other"] = config["databases"].pop("shop")
        (shop / "holdtrue.yaml").write_text(json.dumps(config), encoding="utf-8")
        edit(shop, "database: shop", "database: other")
        done = command(shop, "one_refund")
        assert done.returncode == 1
        assert "shop is no database of holdtrue.yaml any more" in done.stdout
        assert "databases: shop → other" in done.stdout

    def test_a_repository_runs_nothing_of_its_own(self, shop: Path) -> None:
        """Filters, drivers and monitors that a repository names are not the caller's."""
        trap = f"touch {shop}/trapped"
        for name in ("core.fsmonitor", "diff.x.textconv", "filter.x.smudge", "core.pager", "core.sshCommand"):
            git(shop, "config", name, trap)
        (shop / ".gitattributes").write_text("*.yaml diff=x\n", encoding="utf-8")
        assert command(shop, "one_refund").returncode == 0
        assert not (shop / "trapped").exists()


def servers_catalog(folder: Path, dialect: str, text: str) -> Path:
    (folder / "invariants").mkdir()
    rule = {"name": "one_refund", "database": "shop", "sql": text, "key": ["s", "id"], "timeout": "60s"}
    (folder / "invariants" / "shop.yaml").write_text(json.dumps({"invariants": [rule]}), encoding="utf-8")
    config = {"databases": {"shop": {"dialect": dialect, "replicas": [{"name": "r1", "url": "${SHOP_URL}"}]}}}
    (folder / "holdtrue.yaml").write_text(json.dumps(config), encoding="utf-8")
    commit(folder)
    return folder


def test_both_see_the_same_rows_of_a_standby_that_moves_on(postgres_database: FreshDatabase, tmp_path: Path) -> None:
    """One snapshot: what is committed between the two is in neither."""
    postgres_database.execute(["CREATE TABLE refunds(id int)", "INSERT INTO refunds VALUES (1)"])
    text = "SELECT pg_current_snapshot()::text AS s, id, pg_sleep(1) FROM refunds WHERE id < 3"
    shop = servers_catalog(tmp_path, "postgresql", text)
    path = shop / "invariants" / "shop.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("id, pg_sleep(1)", "id, 'edited' AS x"), encoding="utf-8")
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            postgres_database.execute("INSERT INTO refunds VALUES (7)")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        done = command(shop, "one_refund", "--format", "json", SHOP_URL=postgres_database.standby_url)
    finally:
        ended.set()
        writer.join()
    found = told(done)
    (one,) = found["databases"]
    assert done.returncode == 0, found
    assert (one["former"]["count"], one["edited"]["count"], one["in_both"]) == (1, 1, 1)
    assert one["position"]["role"] == "standby"


def test_on_a_standby_a_text_that_fails_takes_only_the_snapshot(
    postgres_database: FreshDatabase, tmp_path: Path
) -> None:
    postgres_database.execute(["CREATE TABLE refunds(id int)", "INSERT INTO refunds VALUES (1)"])
    shop = servers_catalog(tmp_path, "postgresql", "SELECT id / 0 AS s, id FROM refunds")
    path = shop / "invariants" / "shop.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("id / 0", "id / 1"), encoding="utf-8")
    done = command(shop, "one_refund", SHOP_URL=postgres_database.standby_url)
    assert done.returncode == 3
    assert "not in one snapshot" in done.stdout
    assert "violated: 1 counted" in done.stdout
    assert "SQLSTATE 22012" in done.stdout


def test_mariadb_answers_both_in_one_snapshot(mariadb_database: FreshMariadb, tmp_path: Path) -> None:
    mariadb_database.execute(
        ["CREATE TABLE refunds(id int, s varchar(9))", "INSERT INTO refunds VALUES (1, 'a'), (2, 'b')"]
    )
    shop = servers_catalog(tmp_path, "mysql", "SELECT s, id FROM refunds WHERE id > 0")
    path = shop / "invariants" / "shop.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("id > 0", "id > 1"), encoding="utf-8")
    done = command(shop, "one_refund", "--format", "json", SHOP_URL=mariadb_database.replica_url)
    assert done.returncode == 1, done.stderr
    (one,) = told(done)["databases"]
    assert (one["former"]["count"], one["edited"]["count"], one["in_both"], one["one_snapshot"]) == (2, 1, 1, True)
