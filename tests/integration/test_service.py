"""A whole instance in this process: how it starts, takes over catalogs, and ends (semantics 1.3, 8.3)."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdtrue.bootstrap.building import build
from holdtrue.bootstrap.service import Service
from holdtrue.errors import CatalogRefused, StoreNotShareable
from holdtrue.settings import load_settings
from holdtrue.store import Store, open_store
from servers.service import LEDGER_SECRET, until

DATABASE = """
  {name}:
    dialect: sqlite
    replicas: [{{name: file, url: "sqlite:///shop.db"}}]
    allow_primary: true
    freshness: none
    concurrency: {concurrency}
"""
NOTIFIER = """
notifiers:
  oncall: {kind: slack, channel: "#on-call", token: "${SLACK_TOKEN}"}
"""
LOCAL = '{kind: webhook, url: "https://127.0.0.1/", secret: "${KNOWN}"}'
RULE = "  - {{name: {name}, database: {database}, interval: {every}, timeout: 5s, key: [id], sql: '{sql}'}}\n"
NEVER = "SELECT id FROM t WHERE id < 0"


class Folder:
    """A catalog in a folder, on SQLite throughout; ``write`` changes it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "invariants").mkdir()
        with closing(sqlite3.connect(place / "shop.db")) as shop:
            shop.execute("CREATE TABLE t(id integer)")
            shop.commit()

    def write(self, *rules: tuple[str, str, str], more: str = "", every: str = "1h", concurrency: int = 2) -> None:
        """Rules as (name, database, sql)."""
        names = dict.fromkeys(database for _, database, _ in rules)
        databases = "".join(DATABASE.format(name=name, concurrency=concurrency) for name in names)
        config = f"version: 1\nstore: {{url: 'sqlite:///store.db'}}\ndatabases:{databases}{more}"
        (self.place / "holdtrue.yaml").write_text(config)
        lines = [RULE.format(name=name, database=database, sql=sql, every=every) for name, database, sql in rules]
        (self.place / "invariants" / "all.yaml").write_text("version: 1\ninvariants:\n" + "".join(lines))

    def build(self, **environ: str) -> Service:
        told = {"HOLDTRUE_LEDGER_SECRET": LEDGER_SECRET, "HOLDTRUE_TICK": "100ms", **environ}
        return build(load_settings(self.place / "holdtrue.yaml", told), told)

    @contextmanager
    def serve(self, **environ: str) -> Iterator[Service]:
        service = self.build(**environ)
        try:
            service.start()
            yield service
        finally:
            service.stop_working()
            service.close()

    def store(self, host: str | None = None) -> Store:
        return open_store(f"sqlite:///{self.place / 'store.db'}", host=host)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write(("rule", "shop", NEVER))
    return made


def words(service: Service) -> dict[str, str]:
    """Health by invariant, as the store has it."""
    return {row.standing.invariant: row.standing.health.value for row in service.faces.store.reads.overview()}


def test_a_file_that_another_machine_uses_is_refused_at_the_start_and_left_as_it_is(folder: Folder) -> None:
    """Semantics 8.3: refused, and not only said in the log."""
    with closing(folder.store(host="there")) as theirs:
        theirs.upgrade()
        theirs.instances.beat("there:1")
        service = folder.build()
        try:
            with pytest.raises(StoreNotShareable, match="another machine"):
                service.start()
        finally:
            service.stop_working()
            service.close()
        assert theirs.catalogs.number() == 0


def test_an_instance_that_ended_is_no_longer_said_to_run(folder: Folder) -> None:
    """Semantics 0, 8.3: nothing is being asked from then on, and another machine may take the file over at once."""
    with folder.serve() as service:
        assert len(service.faces.store.reads.instances()) == 1
    with closing(folder.store(host="there")) as theirs:
        assert theirs.reads.instances() == ()
        theirs.instances.beat("there:1")


def test_a_catalog_whose_secret_is_missing_is_refused_whole(folder: Folder) -> None:
    """Semantics 1.3: all or nothing; no instance follows to a catalog that the one that loaded it cannot work under."""
    with folder.serve() as service:
        until(lambda: words(service) == {"rule": "ok"}, "the first look")
        folder.write(("rule", "shop", NEVER), ("more", "shop", NEVER), more=NOTIFIER)
        answer = service.reload("somebody")
        assert (answer.ok, answer.generation) == (False, 1)
        assert "SLACK_TOKEN" in answer.problems[0]
        assert service.faces.store.catalogs.number() == 1
        folder.write(("rule", "shop", NEVER), ("more", "shop", NEVER))
        assert service.reload("somebody").ok
        until(lambda: words(service) == {"rule": "ok", "more": "ok"}, "life goes on")


def test_a_first_catalog_whose_secret_is_missing_ends_the_start(folder: Folder) -> None:
    """Semantics 1.3: exit 2 with none stored. All that is missing is said at once, with its place."""
    more = NOTIFIER + '  hooks: {kind: webhook, url: "https://${HOST}/${PATH_OF_IT}", secret: "${file:/nowhere/key}"}\n'
    folder.write(("rule", "shop", NEVER), more=f"{more}  local: {LOCAL}\n")
    service = folder.build(KNOWN="signs")
    try:
        with pytest.raises(CatalogRefused) as refused:
            service.start()
    finally:
        service.stop_working()
        service.close()
    with closing(folder.store()) as store:
        assert (store.catalogs.number(), store.reads.instances()) == (0, ())
    lines = (folder.place / "holdtrue.yaml").read_text().splitlines()
    said = [(lines[one.place.line - 1].split(":")[0].strip(), one.message) for one in refused.value.problems]
    assert said == [
        ("oncall", "`token` of notifier 'oncall' cannot be read: the environment variable SLACK_TOKEN is not set"),
        ("hooks", "`url` of notifier 'hooks' cannot be read: the environment variable HOST is not set"),
        ("hooks", "`url` of notifier 'hooks' cannot be read: the environment variable PATH_OF_IT is not set"),
        ("hooks", "`secret` of notifier 'hooks' cannot be read: the file /nowhere/key cannot be read"),
        ("local", "the `url` of notifier 'local' is an internal address; `allow_internal: true` allows it"),
    ]
    assert refused.value.remedy == "set what they name, as this process sees its environment"
    assert {one.place.file for one in refused.value.problems} == {"holdtrue.yaml"}


def test_an_instance_without_the_secret_claims_nothing_and_goes_on_once_the_catalog_needs_none(folder: Folder) -> None:
    """Semantics 1.3: it follows the store's generation or works under none; it never ends its ticks."""
    with folder.serve() as without:
        until(lambda: words(without) == {"rule": "ok"}, "the first look")
        folder.write(("rule", "shop", NEVER), more=NOTIFIER)
        with folder.serve(SLACK_TOKEN="xoxb-of-a-test") as owner:
            until(lambda: without.faces.generation() == 0, "it works under no catalog")
            folder.write(("rule", "shop", NEVER), ("more", "shop", NEVER))
            assert owner.reload("somebody").ok
            until(lambda: without.faces.generation() == 3, "it follows again")


def threads_of_runs() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith(("holdtrue-shop", "holdtrue-stock"))}


def test_a_database_that_left_the_catalog_leaves_no_thread_behind(folder: Folder) -> None:
    """A service that reloads for months must not grow."""
    with folder.serve() as service:
        until(lambda: words(service) == {"rule": "ok"}, "the first look")
        for number in range(3):
            name = f"stock{number}"
            folder.write((f"rule{number}", name, NEVER))
            assert service.reload("somebody").ok
            until(lambda number=number: words(service) == {f"rule{number}": "ok"}, "the new database was asked")
        until(lambda: {one.rpartition("_")[0] for one in threads_of_runs()} == {"holdtrue-stock2"}, "only its own")
    until(lambda: not threads_of_runs(), "none after the end")
