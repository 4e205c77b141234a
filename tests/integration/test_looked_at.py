"""From outside: what is known begins where a run looked. The time before it, due or not, was looked at by nobody."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue.cli import run as command
from holdtrue.model import Interval
from scenes import HELD, Found, Scene, catalog_of, invariant
from scenes.reading import Texts
from scenes.seeing import OURS, see
from scenes.serving import client_of, served, web_service

RULE = "one_invoice_per_order"
LATE = timedelta(hours=13, minutes=6)
AFTER = timedelta(seconds=37)
NOBODY = "unknown: nobody looked for 23h59m"


def caught_up(folder: Path, found: Found) -> Scene:
    """A daily rule that came into the catalog 13 hours after it would have been due, and was run at once."""
    scene = Scene(folder)
    scene.install(catalog_of([invariant(RULE, schedule=Interval(timedelta(days=1)))]))
    scene.pass_time(LATE)
    scene.look({(RULE, "payments"): found})
    scene.pass_time(AFTER)
    return scene


@pytest.mark.parametrize(
    ("found", "word", "said"),
    [
        (HELD, "held", f"{NOBODY}; held for 37s."),
        (Found(rows=(("7",),)), "violated", f"violated for 37s; {NOBODY}."),
    ],
)
def test_the_pages_draw_a_late_run_from_its_look(tmp_path: Path, found: Found, word: str, said: str) -> None:
    """semantics 0, 8.2."""
    scene = caught_up(tmp_path, found)
    looked = scene.clock() - AFTER
    page = see(scene, f"/invariants/{RULE}?range=24h")
    (known,) = [one for one in re.findall(r"<title>([^<]+)</title>", page) if f": {word}" in one]
    assert known.startswith(f"{looked:%Y-%m-%d %H:%M:%S} UTC to ")
    assert said in Texts(page).text
    row = page.split('class="data runs"')[1].split("<tbody>")[1].split("</tr>")[0]
    assert f"{looked - LATE:%H:%M:%S} UTC" in row
    assert f"{looked:%H:%M:%S} UTC" in row
    assert said in see(scene, "/")


def test_the_api_and_the_command_tell_when_a_late_run_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """semantics 0, 8.2."""
    scene = caught_up(tmp_path, HELD)
    looked = scene.clock() - AFTER
    (span,) = client_of(web_service(scene), **OURS).get(
        f"/api/v1/invariants/{RULE}/counts", params={"since": "2020-01-01T00:00:00Z"}
    ).json()["spans"]  # fmt: skip
    with served(web_service(scene)) as url:
        monkeypatch.setenv("HOLDTRUE_URL", url)
        assert command(["history", RULE, "--since", "2020-01-01T00:00:00Z"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    spans = shown.index(["FROM", "TO", "OUTCOME", "COUNT", "RUNS"])
    assert shown[spans + 1] == [span["first_at"], span["last_at"], "held", "0", "1"]
    assert span["first_at"] == span["last_at"]
    (run,) = [line for line in shown[spans + 2 :] if "held" in line]
    assert run[1] == span["first_at"] != run[0]
    assert f"{looked:%Y-%m-%dT%H:%M:%S}" in run[1]
