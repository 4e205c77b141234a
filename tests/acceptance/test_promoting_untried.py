"""A service that cannot try what it promotes, from the outside: refused by command, API and page; the ways on."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from racy import schema
from servers.place import CONFIG
from servers.postgres import FreshDatabase, PostgresPrimary
from servers.service import Serving, holdtrue, until

NAME = "one_settled_refund_per_dispute"
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
INVARIANTS = f"""
version: 1
invariants:
  - name: {NAME}
    database: payments
    interval: 1s
    sql: "{schema.ONE_SETTLED}"
    key: [dispute_id]
    columns: {{refunds.state: safe, refunds.amount_eur: safe}}
    base_rows:
      - {{table: refunds, where: {{dispute_id: dispute_id}}}}
"""


@dataclass
class Blind:
    """A service whose scratch server does not answer, and its open alert."""

    serving: Serving
    alert: int

    def post(self, **body: Any) -> httpx2.Response:
        """Ask the API."""
        url = self.serving.url
        headers = {"origin": url}
        return httpx2.post(f"{url}/api/v1/alerts/{self.alert}/promote", json=body, headers=headers, timeout=60)

    def promote(self, *arguments: str, scratch: str = NOWHERE) -> Any:
        """The command in a shell beside the service."""
        env = {"HOLDTRUE_URL": self.serving.url, "HOLDTRUE_SCRATCH_URL": scratch}
        return holdtrue("promote", str(self.alert), *arguments, cwd=self.serving.folder, env=env)

    def audited(self) -> list[tuple[str, str]]:
        """Who promoted and how, the newest first."""
        page = self.serving.get("/catalog").text
        return re.findall(r"<td>([^<]*)</td><td>alert\.promote</td><td[^>]*>[^<]*</td><td>([^<]*)</td>", page)


@pytest.fixture
def blind(postgres_database: FreshDatabase, tmp_path: Path) -> Iterator[Blind]:
    """The rule holds, is looked at, and is broken then."""
    statements = [one for one in schema.POSTGRESQL.split(";") if one.strip()]
    postgres_database.execute([*statements, *schema.ROWS])
    (tmp_path / "invariants").mkdir()
    config = CONFIG.format(store="sqlite:///holdtrue.db", slack="").partition("notifiers:")[0]
    (tmp_path / "holdtrue.yaml").write_text(config)
    (tmp_path / "invariants" / "refunds.yaml").write_text(INVARIANTS)
    env = {"DATABASE_URL": postgres_database.primary_url, "HOLDTRUE_SCRATCH_URL": NOWHERE}
    with Serving(tmp_path, env).until_serving() as serving:

        def entry() -> dict[str, Any]:
            (found,) = serving.json("/api/v1/overview")["entries"]
            return dict(found)

        until(lambda: entry()["verdict"]["word"] == "holds", "the rule holds")
        settle = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'settled')"
        postgres_database.execute([settle, settle])
        until(lambda: entry()["alert"] is not None, "the alert opens")
        yield Blind(serving, entry()["alert"])


def test_what_nobody_could_try_is_refused_at_every_face_and_leaves_marked_only_where_it_is_asked_for(
    blind: Blind, postgres_primary: PostgresPrimary
) -> None:
    """semantics 9.1, 9.2, 11.1."""
    folder = blind.serving.folder
    for more in ((), ("--preview",)):
        refused = blind.promote(*more)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "the scratch server does not answer, nor here: the scratch server does not answer" in refused.stderr
        assert "name in HOLDTRUE_SCRATCH_URL a PostgreSQL that answers" in refused.stderr
        assert f"holdtrue promote {blind.alert} --untried" in refused.stderr
    assert not (folder / "tests").exists()
    problem = blind.post()
    assert (problem.status_code, problem.json()["reason"]) == (409, "not tried")
    assert "HOLDTRUE_SCRATCH_URL" in problem.json()["remedy"]
    assert blind.audited() == []

    by_page(blind)
    assert marked(blind.post(untried=True).json()["files"])
    by_command = blind.promote("--untried", "--out", "untried")
    assert by_command.returncode == 0, by_command.stderr
    assert "NOT LOOKED: the scratch server does not answer" in by_command.stderr
    assert marked({one.name: one.read_text() for one in (folder / "untried").iterdir()})
    ticket = f"ticket {NAME}_{blind.alert}"
    assert blind.audited() == [("loopback", f"{ticket}, untried")] * 3

    here = blind.promote("--out", "tried", scratch=postgres_primary.url())
    assert (here.returncode, here.stderr) == (0, "")
    assert not marked({one.name: one.read_text() for one in (folder / "tried").iterdir()})
    said = json.loads((folder / "tried" / "ticket.json").read_text())["rehearsed"]
    assert said["result"] == "breaks"
    assert said["sentence"].startswith("tried by the caller of the service")
    assert blind.audited()[0] == ("loopback", f"{ticket}, tried by the caller")


def by_page(blind: Blind) -> None:
    """A person reads the refusal, asks for the files, sees the mark, and takes them."""
    found = os.environ.get("CHROMIUM") or next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    assert found is not None, "no Chromium: run `make system`, or set CHROMIUM"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(accept_downloads=True).new_page()
        page.goto(f"{blind.serving.url}/alerts/{blind.alert}")
        expect(page.get_by_text("untried")).to_have_count(0)
        page.get_by_role("link", name="Preview the files").click()
        expect(page.get_by_text("nobody could try whether what was kept")).to_be_visible()
        expect(page.get_by_text("name in HOLDTRUE_SCRATCH_URL")).to_be_visible()
        expect(page.get_by_role("button", name="Make the ticket")).to_have_count(0)
        read_at_night(page)
        page.get_by_role("button", name="Show the files untried, marked NOT LOOKED").click()
        expect(page.get_by_text("NOT LOOKED: the scratch server does not answer").first).to_be_visible()
        read_at_night(page)
        with page.expect_download() as download:
            page.get_by_role("button", name="Make the ticket untried").click()
        with zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes())) as archive:
            assert marked({Path(name).name: archive.read(name).decode() for name in archive.namelist()})
        browser.close()


def read_at_night(page: Page) -> None:
    """On a phone, and by whoever does not see it."""
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def marked(files: dict[str, str]) -> bool:
    """Whether header, manual and record say that nobody looked; all of them or none."""
    header = next(text for name, text in files.items() if name.startswith("test_incident_"))
    said = {"NOT LOOKED: " in header, "NOT LOOKED: " in files["README.md"]}
    said.add(json.loads(files["ticket.json"])["rehearsed"]["result"] == "not looked")
    assert len(said) == 1
    return said == {True}
