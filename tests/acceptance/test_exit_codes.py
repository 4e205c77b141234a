"""Every exit code of the commands, by the real ``holdtrue`` process (design 10, semantics 6)."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

CONFIG = """\
version: 1
store: {url: "sqlite:///holdtrue.db"}
databases:
  shop:
    replicas: [{name: file, url: "sqlite:///shop.db"}]
    freshness: none
    allow_primary: true
"""
INVARIANT = """\
version: 1
defaults: {database: shop, interval: 1s}
invariants:
  - name: no_negative_stock
    sql: SELECT id, stock FROM items WHERE stock < 0
    key: [id]
    columns: {id: safe, stock: safe, items.stock: safe}
"""
LIMIT = 60.0


@dataclass
class Shop:
    """A catalog, a database and the command line, in one folder."""

    folder: Path

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holdtrue", *arguments],
            cwd=self.folder,
            env=self.environ(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    def environ(self, more: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDTRUE_")}
        return {**kept, "NO_COLOR": "1", **more}

    def write(self, config: str = CONFIG, invariants: str = INVARIANT) -> None:
        (self.folder / "invariants").mkdir(exist_ok=True)
        (self.folder / "holdtrue.yaml").write_text(config)
        (self.folder / "invariants" / "shop.yaml").write_text(invariants)

    def stock(self, amount: int) -> None:
        with sqlite3.connect(self.folder / "shop.db") as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, stock INTEGER)")
            connection.execute("INSERT OR REPLACE INTO items VALUES (1, ?)", (amount,))
        connection.close()

    @contextmanager
    def serving(self) -> Iterator[str]:
        """A real ``holdtrue serve``; its URL."""
        told = self.folder / "url"
        with (self.folder / "serve.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "holdtrue", "serve", "--listen", "127.0.0.1:0", "--url-file", str(told)],
                cwd=self.folder,
                env=self.environ({}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            deadline = time.monotonic() + LIMIT
            while not told.exists():
                assert process.poll() is None, (self.folder / "serve.log").read_text()
                assert time.monotonic() < deadline
                threading.Event().wait(0.05)
            yield told.read_text().strip()
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT) == 0, (self.folder / "serve.log").read_text()
        finally:
            told.unlink(missing_ok=True)
            if process.poll() is None:
                process.kill()
                process.wait()

    def overview_becomes(self, code: int, url: str) -> None:
        """Wait on the API, which costs no process, until the service says so."""
        deadline = time.monotonic() + LIMIT
        while True:
            with urllib.request.urlopen(f"{url}/api/v1/overview", timeout=LIMIT) as answer:
                report = json.load(answer)
            if report["exit_code"] == code and all(one["tried_at"] for one in report["entries"]):
                return
            assert time.monotonic() < deadline, json.dumps(report)
            threading.Event().wait(0.1)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.write()
    shop.stock(5)
    (tmp_path / ".env").write_text("HOLDTRUE_LEDGER_SECRET=a-secret-for-this-test-alone\n")
    return shop


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_0_and_1_as_the_data_is_and_the_same_through_the_service_and_the_store(shop: Shop) -> None:
    with shop.serving() as url:
        shop.overview_becomes(0, url)
        held = shop.run("overview")
        assert held.returncode == 0, held.stderr
        assert "holds" in held.stdout
        assert "no instance is running" not in held.stdout
        shop.stock(-1)
        shop.overview_becomes(1, url)
        violated = shop.run("overview", HOLDTRUE_URL=url)
        assert violated.returncode == 1, violated.stderr
        assert "violated" in violated.stdout
        through = shop.run("alerts", "show", "no_negative_stock@shop", "--format", "json", HOLDTRUE_URL=url)
        history = shop.run("history", "no_negative_stock", "--since", "1h", "--format", "json", HOLDTRUE_URL=url)
    assert (through.returncode, history.returncode) == (0, 0), through.stderr + history.stderr
    still = shop.run("overview")
    assert still.returncode == 1, "bad news stays when the service ends"
    assert still.stdout.startswith("monitor: no instance is running"), "and an age alone does not say that it ended"
    by_store = shop.run("alerts", "show", "no_negative_stock", "--format", "json")
    assert by_store.returncode == 0, by_store.stderr
    first, second = json.loads(through.stdout), json.loads(by_store.stdout)
    assert first.keys() == second.keys()
    assert [first[key] for key in ("id", "opened_at", "first_run")] == [
        second[key] for key in ("id", "opened_at", "first_run")
    ]
    assert json.loads(history.stdout)["histories"][0]["spans"]


def test_0_for_what_was_asked_and_done(shop: Shop) -> None:
    for arguments in (
        ["--version"],
        ["--help"],
        ["check"],
        ["store", "upgrade"],
        ["store", "check"],
        ["alerts", "list"],
    ):
        done = shop.run(*arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["overview", "--no-such-option"],
        ["overview", "--format", "xml"],
        ["overview", "--config", "nowhere/holdtrue.yaml"],
        ["overview", "--url", "holdtrue.internal"],
        ["history"],
        ["history", "no_negative_stock", "--since", "yesterday"],
        ["serve", "--listen", "nowhere"],
        ["serve", "--listen", "0.0.0.0:0"],
        ["demo", "--port", "99999"],
    ],
)
def test_2_for_usage(shop: Shop, arguments: list[str]) -> None:
    done = shop.run(*arguments)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_2_for_a_name_that_does_not_exist(shop: Shop) -> None:
    assert shop.run("store", "upgrade").returncode == 0
    for arguments in (["history", "no_such_rule"], ["alerts", "show", "17"]):
        done = shop.run(*arguments)
        assert done.returncode == 2, (arguments, done.stdout, done.stderr)


def test_2_for_a_name_that_is_nearly_right_and_the_right_one_is_said(shop: Shop) -> None:
    shop.write()
    shop.stock(1)
    asked = shop.run("run", "no_negative_stocks")
    assert asked.returncode == 2
    assert "did you mean 'no_negative_stock'?" in asked.stderr


def test_2_for_serving_where_no_catalog_is_and_no_secret_is_asked_for(shop: Shop) -> None:
    """The secret belongs beside holdtrue.yaml: a line that makes one would be typed in the wrong folder."""
    for name in ("holdtrue.yaml", ".env"):
        (shop.folder / name).unlink()
    served = shop.run("serve", "--listen", "127.0.0.1:0")
    assert served.returncode == 2
    assert "there is no holdtrue.yaml here" in served.stderr
    assert "SECRET" not in served.stderr


def test_2_for_serving_without_a_ledger_secret_and_the_line_that_makes_one_works(shop: Shop) -> None:
    """Semantics 4.2."""
    (shop.folder / ".env").unlink()
    done = shop.run("serve", "--listen", "127.0.0.1:0")
    assert done.returncode == 2
    line = done.stderr.partition("make one: ")[2].strip().removesuffix(")")
    subprocess.run(["/bin/sh", "-c", line], cwd=shop.folder, check=True)
    with shop.serving() as url:
        shop.overview_becomes(0, url)


def test_2_for_a_bad_catalog_with_none_stored_and_every_problem_is_said(shop: Shop) -> None:
    """Semantics 1.3."""
    shop.write(invariants=INVARIANT.replace("sql:", "sqll:").replace("key:", "kee:"))
    for arguments in (["check"], ["serve", "--listen", "127.0.0.1:0"]):
        done = shop.run(*arguments)
        assert done.returncode == 2, (done.stdout, done.stderr)
        said = done.stdout + done.stderr
        assert "sqll" in said
        assert "kee" in said


def test_2_for_an_empty_catalog_unless_it_is_meant(shop: Shop) -> None:
    """Semantics 1.3: no invariant at all is refused unless --allow-empty says so."""
    shop.write(invariants="version: 1\ninvariants: []\n")
    assert shop.run("serve", "--listen", "127.0.0.1:0").returncode == 2


def test_3_when_nothing_was_looked_at(shop: Shop) -> None:
    """Not knowing is never good news."""
    assert shop.run("store", "upgrade").returncode == 0
    done = shop.run("overview")
    assert done.returncode == 3
    assert done.stdout.endswith("\nunknown: no invariant is in force, so nothing was looked at\n")


def test_3_when_the_database_cannot_be_asked(shop: Shop) -> None:
    (shop.folder / "shop.db").unlink()
    with shop.serving() as url:
        shop.overview_becomes(3, url)
        done = shop.run("overview", HOLDTRUE_URL=url)
        assert done.returncode == 3, done.stderr
        assert "unknown" in done.stdout


def test_4_when_the_store_does_not_answer(shop: Shop) -> None:
    shop.write(config=CONFIG.replace("sqlite:///holdtrue.db", f"postgresql://127.0.0.1:{free_port()}/none"))
    for arguments in (["overview"], ["store", "upgrade"]):
        done = shop.run(*arguments)
        assert done.returncode == 4, (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["overview"], ["alerts", "list"], ["promote", "1"], ["store", "check"]])
def test_4_when_nothing_is_kept_yet_and_looking_makes_no_store(shop: Shop, arguments: list[str]) -> None:
    shop.write()
    looked = shop.run(*arguments)
    assert looked.returncode == 4
    assert "nothing is kept yet" in looked.stderr
    assert not (shop.folder / "holdtrue.db").exists()


def test_4_when_the_store_has_another_schema(shop: Shop) -> None:
    (shop.folder / "holdtrue.db").touch()
    done = shop.run("overview")
    assert done.returncode == 4, (done.stdout, done.stderr)
    assert "holdtrue store upgrade" in done.stderr


def test_4_when_the_service_does_not_answer(shop: Shop) -> None:
    done = shop.run("overview", HOLDTRUE_URL=f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 4
    assert "did not answer" in done.stderr


def test_4_and_one_line_for_a_surprise_and_the_traceback_only_when_asked(shop: Shop) -> None:
    shop.run("store", "upgrade")
    (shop.folder / "sitecustomize.py").write_text(
        "import holdtrue.cli.reading as reading\n"
        "def open_reading(*_):\n"
        "    raise RuntimeError('row value: dsp_secret')\n"
        "reading.open_reading = open_reading\n"
    )
    quiet = shop.run("overview", PYTHONPATH=str(shop.folder))
    assert quiet.returncode == 4
    assert "dsp_secret" not in quiet.stderr + quiet.stdout
    assert len(quiet.stderr.splitlines()) == 1
    loud = shop.run("overview", PYTHONPATH=str(shop.folder), HOLDTRUE_DEBUG="1")
    assert loud.returncode == 4
    assert "Traceback" in loud.stderr


def test_output_that_nobody_reads_is_never_taken_for_an_answer(shop: Shop) -> None:
    """A closed pipe must not end with 1, which means violated, nor with 0."""
    shop.run("store", "upgrade")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "holdtrue", "overview", "--format", "json"],
            cwd=shop.folder,
            env=shop.environ({}),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=LIMIT,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.returncode == 4
    assert b"Traceback" not in done.stderr
