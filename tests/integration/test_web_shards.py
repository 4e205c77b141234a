"""Several databases of one invariant, and what they cost: on the pages, in the API and in the commands' words."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from holdtrue.cli.history import cost_lines
from holdtrue.cli.history import lines as history_lines
from holdtrue.cli.overview import lines
from scenes import COULD_NOT_LOOK, Found, Scene, catalog_of, invariant
from scenes.seeing import names, see, tones
from scenes.serving import client_of, web_service

SHARDS = ("shard-1", "shard-2", "shard-3")
ROWS = (("1",), ("2",))
TIGHT = timedelta(milliseconds=1)


def sharded(tmp_path: Path, **more: object) -> Scene:
    """Two rules on three shards and one on a single database: one shard is violated, one could never be looked at."""
    scene = Scene(tmp_path)
    rules = [
        invariant("money_is_whole", databases=SHARDS, tags=("money",), **more),
        invariant("names_are_set", databases=SHARDS),
        invariant("alone", databases=("shard-1",)),
    ]
    scene.install(catalog_of(rules, databases=SHARDS))
    scene.look({("money_is_whole", "shard-2"): Found(ROWS, new=2), ("money_is_whole", "shard-3"): COULD_NOT_LOOK})
    return scene


def row_of(page: str, name: str) -> str:
    """The line of an invariant."""
    return next(row for row in page.split('<tr role="row" class="')[1:] if f">{name}</a>" in row)


def report(scene: Scene, path: str = "overview", **query: str) -> dict[str, Any]:
    answer = client_of(web_service(scene)).get(f"/api/v1/{path}", params=query)
    assert answer.status_code == 200
    return dict(answer.json())


def test_the_databases_of_an_invariant_are_one_line_over_what_is_known(tmp_path: Path) -> None:
    """semantics 6.1: unknown is in no sum."""
    page = see(sharded(tmp_path))
    assert names(page) == ["money_is_whole", "alone", "names_are_set"]
    assert tones(page) == ["firing", "holds", "holds"]
    row = row_of(page, "money_is_whole")
    assert "3 databases" in row
    assert "violated on 1, unknown on 1, holds on 1" in row
    assert re.search(r'class="num count">2<.*2 of 3 known', row, re.DOTALL)
    assert "of 3 known" not in row_of(page, "names_are_set")


def test_without_a_known_count_there_is_no_sum(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.install(catalog_of([invariant("rule", databases=SHARDS)], databases=SHARDS))
    row = row_of(see(scene), "rule")
    assert 'class="num count">—<span class="reach">0 of 3 known' in row
    assert report(scene)["sums"][0]["verdict"]["violations"] is None


def test_each_database_opens_without_script_and_the_worst_is_first(tmp_path: Path) -> None:
    row = row_of(see(sharded(tmp_path)), "money_is_whole")
    (opened,) = re.findall(r'<details class="shards" id="shards-money_is_whole">(.*?)</details>', row, re.DOTALL)
    assert re.findall(r">(shard-\d)</a>", opened) == ["shard-2", "shard-3", "shard-1"]
    assert re.findall(r'class="number">([^<]+)<', opened) == ["2", "—", "0"]
    assert "never looked" in opened


@pytest.mark.parametrize(
    ("query", "lines_of"),
    [
        ("tag=money", [("money_is_whole", "3 databases")]),
        ("q=money", [("money_is_whole", "3 databases")]),
        ("state=firing", [("money_is_whole", "shard-2")]),
        ("database=shard-1", [("alone", "shard-1"), ("money_is_whole", "shard-1"), ("names_are_set", "shard-1")]),
        (
            "state=holds",
            [("alone", "shard-1"), ("money_is_whole", "shard-1"), ("names_are_set", "3 databases")],
        ),
        (
            "invariant=money_is_whole",
            [("money_is_whole", "shard-2"), ("money_is_whole", "shard-3"), ("money_is_whole", "shard-1")],
        ),
    ],
)
def test_a_filter_that_leaves_some_out_takes_the_sum_apart(
    tmp_path: Path, query: str, lines_of: list[tuple[str, str]]
) -> None:
    """semantics 6.1: a sum over a part would pass for the whole."""
    page = see(sharded(tmp_path), f"/?{query}")
    assert list(zip(names(page), re.findall(r'class="where">([^<]+)<', page), strict=True)) == lines_of


def test_most_of_the_databases_are_no_whole_either(tmp_path: Path) -> None:
    scene = sharded(tmp_path)
    scene.pass_time(timedelta(minutes=15))
    scene.look({("names_are_set", "shard-1"): Found(ROWS), ("names_are_set", "shard-2"): Found(ROWS)})
    page = see(scene, "/?state=firing&q=names_are_set")
    assert re.findall(r'class="where">([^<]+)<', page) == ["shard-1", "shard-2"]


def test_the_invariants_page_says_how_all_of_its_databases_are(tmp_path: Path) -> None:
    page = see(sharded(tmp_path), "/invariants/money_is_whole?database=shard-1")
    assert "All 3 databases: violated on 1, unknown on 1, holds on 1 · 2 in the 2 of 3 known" in page


def test_a_thousand_databases_are_cut_and_a_link_leads_to_all(tmp_path: Path) -> None:
    many = tuple(f"shard-{number}" for number in range(1000))
    scene = Scene(tmp_path)
    scene.install(catalog_of([invariant("rule", databases=many)], databases=many))
    page = see(scene)
    assert len(re.findall(r'class="number"', page)) == 300
    assert 'href="/?invariant=rule">All 1\u202f000 as a list</a>' in page
    assert "1 to 100 of 1\u202f000" in see(scene, "/?invariant=rule")


def test_the_api_and_the_command_sum_up_too(tmp_path: Path) -> None:
    scene = sharded(tmp_path)
    body = report(scene)
    first, second = body["sums"]
    assert (first["invariant"], second["invariant"]) == ("money_is_whole", "names_are_set")
    assert first["verdict"]["violations"] == 2
    assert (first["databases"], first["known"], first["violated"], first["holding"]) == (3, 2, 1, 1)
    assert first["verdict"]["exit_code"] == 1
    assert report(scene, "invariants/money_is_whole")["sum"] == first
    assert report(scene, "invariants/alone")["sum"] is None
    told = [line.split()[:2] for line in lines(body)[:-2]]
    assert told[told.index(["INVARIANT", "DATABASE"]) + 1 :] == [
        ["money_is_whole", "3"],
        ["money_is_whole", "shard-2"],
        ["money_is_whole", "shard-3"],
        ["alone", "shard-1"],
        ["names_are_set", "3"],
    ]
    assert len(lines(body, each=True)) == len(lines(body)) + 4


class TestBudget:
    """semantics 8.4: it is said, and nothing else happens."""

    def test_what_is_over_its_budget_is_said_wherever_verdicts_are(self, tmp_path: Path) -> None:
        scene = sharded(tmp_path, budget=TIGHT)
        body = report(scene)
        over = {(one["invariant"], one["database"]): one["over_budget"] for one in body["entries"]}
        assert over["money_is_whole", "shard-1"]["sentence"].startswith("over budget today: ")
        assert over["alone", "shard-1"] is None
        page = see(scene)
        assert "over budget on 3 of 3" in row_of(page, "money_is_whole")
        assert 'href="/?budget=over">3 over budget</a>' in page
        assert names(see(scene, "/?budget=over")) == ["money_is_whole"]
        assert "It is still asked" in see(scene, "/invariants/money_is_whole?database=shard-1")
        assert lines(body)[-1].endswith("3 over budget")

    def test_it_changes_no_verdict_and_no_exit_code(self, tmp_path: Path) -> None:
        (tmp_path / "plain").mkdir()
        (tmp_path / "tight").mkdir()
        plain, tight = report(sharded(tmp_path / "plain")), report(sharded(tmp_path / "tight", budget=TIGHT))
        assert [one["verdict"] for one in tight["entries"]] == [one["verdict"] for one in plain["entries"]]
        assert [one["next_due"] for one in tight["entries"]] == [one["next_due"] for one in plain["entries"]]
        assert (tight["exit_code"], tight["sums"]) == (plain["exit_code"], plain["sums"])

    def test_yesterdays_is_said_for_a_day_and_then_kept_in_the_costs(self, tmp_path: Path) -> None:
        scene = sharded(tmp_path, budget=TIGHT)
        scene.pass_time(timedelta(days=1))
        (one,) = [one for one in report(scene)["entries"] if one["invariant"] == "money_is_whole"][:1]
        assert one["over_budget"]["sentence"].startswith("over budget yesterday: ")
        scene.pass_time(timedelta(days=1))
        assert not any(one["over_budget"] for one in report(scene)["entries"])
        (day,) = report(scene, "invariants/money_is_whole/costs", database="shard-1")["costs"]
        assert day["over_budget"] is True
        assert day["statement_seconds"] > 0.001

    def test_costs_of_thirty_days_are_drawn_and_listed(self, tmp_path: Path) -> None:
        scene = sharded(tmp_path, budget=timedelta(minutes=1))
        for _ in range(31):
            scene.pass_time(timedelta(days=1))
            scene.look({})
        page = see(scene, "/invariants/money_is_whole?database=shard-1")
        assert len(re.findall(r'<rect class="cost"', page)) == 30
        assert 'class="budget"' in page
        assert "0 over the budget of 1m a day" in page
        history = report(scene, "invariants/money_is_whole/databases/shard-1/history")
        assert len(history["costs"]) == 30
        assert history["budget_seconds"] == 60
        told = cost_lines(history)
        assert "budget 1m of statement time a day" in told[0]
        assert len(told) == 32
        assert "over budget" not in "\n".join(history_lines(history))

    def test_without_a_declared_budget_no_cost_is_read_for_the_overview(self, tmp_path: Path) -> None:
        scene = sharded(tmp_path)
        assert scene.store.reads.over_budget(scene.catalog, scene.clock()) == {}
        assert "over budget" not in see(scene)


def test_costs_are_asked_for_by_day(tmp_path: Path) -> None:
    scene = sharded(tmp_path)
    client: TestClient = client_of(web_service(scene))
    since = {"database": "shard-1", "since": (scene.clock() + timedelta(days=1)).date().isoformat()}
    assert client.get("/api/v1/invariants/money_is_whole/costs", params=since).json()["costs"] == []
    assert client.get("/api/v1/invariants/money_is_whole/costs").status_code == 422
