"""The demo's folder: the shipped rules, a secret of its own, and never somebody else's folder."""

from __future__ import annotations

import stat
from importlib.resources import files
from pathlib import Path

import pytest

from holdtrue.catalog import load_catalog
from holdtrue.demo.place import INTERVAL, SLACK_VARIABLE, Place, choose
from holdtrue.errors import Refused
from holdtrue.model import Dialect, Interval, parse_duration

ROOT = Path(__file__).parents[2]


def test_the_demo_asks_the_shipped_invariants() -> None:
    shipped = (ROOT / "invariants" / "refunds.yaml").read_bytes()
    assert (files("holdtrue.demo") / "invariants" / "refunds.yaml").read_bytes() == shipped


@pytest.mark.parametrize("replica", ["", "postgresql://reader:secret@127.0.0.1:1/postgres"])
def test_the_folder_is_a_catalog_that_is_accepted(tmp_path: Path, replica: str) -> None:
    place = Place(tmp_path / "demo")
    place.write(replica_url=replica, slack_url="http://127.0.0.1:1/api/")
    catalog = load_catalog(place.config, environ={"HOLDTRUE_DEMO_REPLICA": replica, SLACK_VARIABLE: "x"})
    assert len(catalog.invariants) == 4
    assert {one.schedule for one in catalog.invariants} == {Interval(parse_duration(INTERVAL))}  # type: ignore[arg-type]
    assert catalog.config.databases[0].dialect is (Dialect.POSTGRESQL if replica else Dialect.SQLITE)
    assert "secret" not in place.config.read_text()
    said = [one.message for one in catalog.warnings]
    assert not [one for one in said if "timeout" in one or "interval" in one], "the demo's own pace is in order"


def test_nothing_but_the_pace_differs_from_the_shipped_rules(tmp_path: Path) -> None:
    place = Place(tmp_path / "demo")
    place.write()
    shipped = (ROOT / "invariants" / "refunds.yaml").read_text().splitlines()
    written = (place.folder / "invariants" / "refunds.yaml").read_text().splitlines()
    changed = [new for old, new in zip(shipped, written, strict=True) if old != new]
    assert [line.split(":")[0].strip() for line in changed] == ["defaults", "confirm"]


def test_the_secret_is_ours_alone_and_outlives_the_next_start(tmp_path: Path) -> None:
    """Semantics 4.2: the demo writes a ledger secret into a .env that Git ignores."""
    place = Place(tmp_path / "demo")
    place.write()
    secret = (place.folder / ".env").read_text()
    assert stat.S_IMODE((place.folder / ".env").stat().st_mode) == 0o600
    assert (place.folder / ".gitignore").read_text() == "*\n"
    place.write()
    assert (place.folder / ".env").read_text() == secret


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holdtrue.yaml").write_text("version: 1\n")
    with pytest.raises(Refused, match="not empty"):
        Place(tmp_path).refuse_strangers()
    assert (tmp_path / "holdtrue.yaml").read_text() == "version: 1\n"


def test_a_demo_can_go_on_in_its_own_folder(tmp_path: Path) -> None:
    place = Place(tmp_path / "demo")
    place.refuse_strangers()
    place.write()
    place.refuse_strangers()


def test_only_a_folder_of_our_making_is_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert choose(None, temporary=False) == Place(tmp_path / "demo-state")
    assert choose(Path("here"), temporary=True) == Place(tmp_path / "here")
    made = choose(None, temporary=True)
    assert made.temporary
    made.folder.rmdir()


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.alone(), pytest.raises(Refused, match="another demo runs in"), Place(tmp_path).alone():
        pass
    with place.alone():
        place.refuse_strangers()
