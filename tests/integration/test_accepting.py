"""Accepting violations as they are, until an end: through real runs, the API, pages and the watch (semantics 5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from holdtrue.alerting import parse_matchers
from holdtrue.cli.accepting import lines
from holdtrue.model import MessageState, Outcome, Reason, Returns, Subject, Waiver
from holdtrue.watch import Watch
from scenes.monitored import RULE, MonitoredFile
from scenes.reading import Texts
from scenes.serving import client_of, form_token_of, web_service

DAY = timedelta(days=1)
OURS = {"origin": "http://127.0.0.1:8080"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[MonitoredFile]:
    house = MonitoredFile(tmp_path)
    yield house
    house.close()


def client(house: MonitoredFile, **headers: str) -> TestClient:
    scene = SimpleNamespace(store=house.store, catalog=house.catalog, clock=lambda: house.now)
    return client_of(web_service(scene), **{**OURS, **headers})  # type: ignore[arg-type]


def accept(house: MonitoredFile, **more: object) -> dict[str, Any]:
    body = {"invariant": RULE.name, "reason": "refunded twice in good will", "until": "14d", **more}
    answer = client(house).post("/api/v1/alerts/accept", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def refused(house: MonitoredFile, **more: object) -> str:
    body = {"invariant": RULE.name, "reason": "why", "until": "14d", **more}
    answer = client(house).post("/api/v1/alerts/accept", json=body)
    assert answer.status_code in (404, 422), answer.text
    problem = answer.json()
    return f"{problem.get('detail')} / {problem.get('remedy')}"


def watch(house: MonitoredFile) -> Watch:
    return Watch(instance="here", store=house.store, catalog=lambda: house.catalog, notifiers=lambda: ("oncall",))


def told(house: MonitoredFile, reason: Reason = Reason.EXPIRING) -> list[int]:
    return [one.message.episode for one in house.store.reads.deliveries() if one.message.reason is reason]


def parts(house: MonitoredFile) -> tuple[Outcome, int, int]:
    run = house.look_later()
    return run.outcome, run.counted, run.waived


def test_what_is_there_is_waived_and_what_comes_later_counts(house: MonitoredFile) -> None:
    """Semantics 5.4: an accept never hides a key that was not there."""
    house.settle("dsp_1", 2)
    house.settle("dsp_2", 2)
    house.look()
    made = accept(house)
    assert (made["keys"], made["in_force"], made["matches"]) == (2, True, True)
    assert parts(house) == (Outcome.HELD, 0, 2)
    assert house.store.alerts.find_open(RULE.name) == ()
    (ended,) = house.store.alerts.list()
    assert house.store.alerts.get(ended.id).events[-1].detail.endswith("; still returned: 2 waived")
    house.settle("dsp_3", 2)
    assert parts(house) == (Outcome.VIOLATED, 1, 2)
    assert house.newest().new == 1
    assert house.store.reads.audit(1)[0].action == "alert.accept"


def test_it_ends_by_itself_and_people_are_told_a_day_before_once(house: MonitoredFile) -> None:
    """Semantics 5.4, 7.1: a notice that the watch owes by time alone; then the rows count again."""
    house.settle("dsp_1", 2)
    house.look()
    accept(house, until="3d")
    assert parts(house) == (Outcome.HELD, 0, 1)
    house.now += DAY
    watch(house).look()
    assert told(house) == []
    house.now += DAY
    assert watch(house).look().changed >= 1
    watch(house).look()
    (number,) = told(house)
    detail = house.store.alerts.get(number)
    assert (detail.episode.subject, detail.episode.open, detail.keys) == (Subject.WAIVER, False, ())
    assert "refunded twice in good will" in detail.events[0].detail
    page = Texts(client(house).get(f"/alerts/{number}").text).text
    assert "a waiver ends" in page
    assert "Promote" not in page
    house.now += DAY
    assert parts(house) == (Outcome.VIOLATED, 1, 0)
    watch(house).look()
    assert told(house) == [number]


@pytest.mark.parametrize("meanwhile", ["nothing", "taken back", "over"])
def test_a_notice_that_a_silence_withheld_is_told_at_its_end_if_it_is_still_true(
    house: MonitoredFile, meanwhile: str
) -> None:
    """Semantics 7.5: told anew, since what was withheld may be over or taken back by then; once, and to whom it was owed."""
    house.settle("dsp_1", 2)
    house.look()
    number = accept(house, until="3d")["id"]
    assert parts(house) == (Outcome.HELD, 0, 1)
    length = timedelta(days=4 if meanwhile == "over" else 2, hours=1)
    house.store.silences.create(parse_matchers(["name~*"]), "a move", by="alice", who="alice (token)", ends=length)
    house.now += 2 * DAY + timedelta(minutes=1)
    watch(house).look()
    (withheld,) = told(house)
    watch(house).look()
    assert told(house) == [withheld]
    if meanwhile == "taken back":
        assert client(house).post(f"/api/v1/accepts/{number}/end").status_code == 200
    house.now += 2 * DAY if meanwhile == "over" else timedelta(hours=1)
    watch(house).look()
    watch(house).look()
    new = [one for one in told(house) if one != withheld]
    assert len(new) == (1 if meanwhile == "nothing" else 0)
    for number in new:
        detail = house.store.alerts.get(number)
        assert MessageState.WITHHELD not in {one.state for one in detail.messages}
        assert "refunded twice in good will" in detail.events[0].detail


def test_the_end_of_a_waiver_is_told_too(house: MonitoredFile) -> None:
    """Semantics 5.4: ``waive:`` is the reviewed form; its notice has no value of a key in it."""
    waiver = Waiver((("dispute_id", "dsp_secret"),), "agreed with finance", house.now + 2 * DAY)
    house.install(replace(RULE, definition="d2", waive=(waiver,)))
    watch(house).look()
    assert told(house) == []
    house.now += DAY + timedelta(minutes=1)
    watch(house).look()
    watch(house).look()
    (number,) = told(house)
    said = house.store.alerts.get(number).events[0].detail
    assert "agreed with finance" in said
    assert "dsp_secret" not in said


def test_two_waivers_of_one_key_hold_up_nothing_that_time_makes_due(house: MonitoredFile) -> None:
    """Semantics 7.1: nobody would be told that nobody looks."""
    waiver = Waiver((("dispute_id", "dsp_1"),), "agreed with finance", house.now + 9 * timedelta(hours=1))
    house.install(replace(RULE, definition="d2", waive=(waiver, replace(waiver, reason="agreed once more"))))
    house.now += timedelta(hours=2)
    watch(house).look()
    assert len(told(house)) == 1
    assert len(told(house, Reason.UNCHECKED)) == 1


def test_somebody_may_end_it_before_its_time(house: MonitoredFile) -> None:
    house.settle("dsp_1", 2)
    house.look()
    number = accept(house)["id"]
    assert parts(house) == (Outcome.HELD, 0, 1)
    answer = client(house).post(f"/api/v1/accepts/{number}/end")
    assert (answer.status_code, answer.json()["in_force"]) == (200, False)
    assert parts(house) == (Outcome.VIOLATED, 1, 0)
    assert client(house).post(f"/api/v1/accepts/{number}/end").status_code == 422
    assert client(house).post("/api/v1/accepts/99/end").status_code == 404
    assert "accept.end" in [one.action for one in house.store.reads.audit(5)]


def test_it_can_be_renewed_while_its_rows_are_waived(house: MonitoredFile) -> None:
    house.settle("dsp_1", 2)
    house.look()
    accept(house, until="1d")
    assert parts(house) == (Outcome.HELD, 0, 1)
    accept(house, until="9d")
    house.now += 2 * DAY
    assert parts(house) == (Outcome.HELD, 0, 1)


def test_another_secret_says_that_accepted_rows_count_again(house: MonitoredFile) -> None:
    """Semantics 4.2: hashes under the former secret match nothing; in doubt a row counts, and everybody is told."""
    house.settle("dsp_1", 2)
    house.look()
    accept(house)
    assert parts(house) == (Outcome.HELD, 0, 1)
    house.hasher.__init__(b"another secret altogether")  # type: ignore[misc]
    run = house.look_later()
    assert (run.outcome, run.counted, run.waived) == (Outcome.VIOLATED, 1, 0)
    assert run.rebaselined == ("the ledger secret changed; 1 accepted row cannot be matched any more, and counts again")
    (episode,) = house.store.alerts.find_open(RULE.name)
    assert "cannot be matched any more" in house.store.alerts.get(episode.id).events[-1].detail
    (listed,) = client(house).get("/api/v1/waivers").json()["accepts"]
    assert (listed["in_force"], listed["matches"]) == (False, False)
    assert "matches nothing" in client(house).get("/waivers").text
    # Under the former secret again it matches again.
    house.hasher.__init__(b"a secret of this test alone")  # type: ignore[misc]
    assert parts(house) == (Outcome.HELD, 0, 1)


OTHER_TEXT = (
    "SELECT dispute_id, count(*) AS refunds FROM refunds WHERE state <> 'void' GROUP BY dispute_id HAVING count(*) > 1"
)


@pytest.mark.parametrize("changes", [{"sql": OTHER_TEXT}, {"key": ("dispute_id", "refunds")}], ids=["text", "key"])
def test_a_changed_text_or_key_ends_it_as_redefined_and_everybody_is_told(
    house: MonitoredFile, changes: dict[str, Any]
) -> None:
    """Semantics 0, 5.4: an equal key under another text may be another wrong, which nobody accepted."""
    house.install(replace(RULE, meaning="m1"))
    house.settle("dsp_1", 2)
    house.look()
    number = accept(house)["id"]
    assert parts(house) == (Outcome.HELD, 0, 1)
    house.install(replace(RULE, definition="d2", meaning="m2", **changes))
    assert parts(house) == (Outcome.VIOLATED, 1, 0)
    assert house.store.alerts.find_open(RULE.name) != ()
    assert "accept.redefined" in [one.action for one in house.store.reads.audit(9)]
    watch(house).look()
    watch(house).look()
    (notice,) = told(house)
    said = house.store.alerts.get(notice).events[0].detail
    assert "ended as redefined: generation 2 of the catalog changed the text or the key" in said
    assert "refunded twice in good will" in said
    answer = client(house).get("/api/v1/waivers").json()
    assert [(one["in_force"], one["redefined_in"]) for one in answer["accepts"]] == [(False, 2)]
    assert any("redefined" in line for line in lines(answer))
    page = client(house).get("/waivers").text
    assert "ended as redefined" in page.partition('id="waivers-over"')[2]
    assert client(house).post(f"/api/v1/accepts/{number}/end").status_code == 422
    # The former text again is a new text once more: nobody has said that it still stands.
    house.install(replace(RULE, definition="d1 again", meaning="m1"))
    assert parts(house) == (Outcome.VIOLATED, 1, 0)


def test_what_leaves_text_and_key_alone_leaves_it_in_force(house: MonitoredFile) -> None:
    """Semantics 5.4: confirmation and a waiver of another key change no key's meaning; a new name neither."""
    house.install(replace(RULE, meaning="m1"))
    house.settle("dsp_1", 2)
    house.look()
    accept(house)
    waiver = Waiver((("dispute_id", "dsp_2"),), "agreed with finance", house.now + DAY)
    house.install(replace(RULE, definition="d2", meaning="m1", waive=(waiver,), confirm=timedelta(minutes=1)))
    assert parts(house) == (Outcome.HELD, 0, 1)
    house.install(replace(RULE, name="refunds_single", definition="d3", meaning="m1", renamed_from=RULE.name))
    run = house.look_later_at("refunds_single")
    assert (run.outcome, run.counted, run.waived) == (Outcome.HELD, 0, 1)
    assert "accept.redefined" not in [one.action for one in house.store.reads.audit(9)]


@pytest.mark.parametrize("unchanged_first", [True, False])
def test_one_that_is_older_than_what_it_is_of_learns_it_from_an_unchanged_definition_alone(
    house: MonitoredFile, unchanged_first: bool
) -> None:
    """Semantics 5.4: an upgrade ends none, unless its catalog changed at the same start: in doubt a row counts."""
    house.settle("dsp_1", 2)
    house.look()
    accept(house)
    if unchanged_first:
        house.install(replace(RULE, meaning="m1"))
    house.install(replace(RULE, definition="d2", meaning="m1", confirm=timedelta(minutes=1)))
    assert parts(house) == ((Outcome.HELD, 0, 1) if unchanged_first else (Outcome.VIOLATED, 1, 0))


def test_an_instance_that_has_not_heard_of_a_new_text_accepts_nothing(house: MonitoredFile) -> None:
    """Semantics 1.3, 5.4: it would take the keys for those of a text that is gone."""
    house.settle("dsp_1", 2)
    house.look()
    former = house.catalog
    house.install(replace(RULE, definition="d2", meaning="m2", sql=OTHER_TEXT))
    house.catalog = former
    assert "just been redefined" in refused(house)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (replace(RULE, definition="d2", key=()), "declares no `key`"),
        (
            replace(
                RULE, definition="d3", key=(), base_rows=(), returns=Returns.COUNT, sql="SELECT count(*) FROM refunds"
            ),
            "returns a count",
        ),
    ],
)
def test_without_a_key_it_is_refused_with_the_remedy(house: MonitoredFile, rule: Any, says: str) -> None:
    """Semantics 4.2, 5.4."""
    house.install(rule)
    house.settle("dsp_1", 2)
    house.look_later()
    said = refused(house)
    assert says in said
    assert "key" in said.partition(" / ")[2]
    (episode,) = house.store.alerts.find_open(RULE.name)
    page = client(house).get(f"/alerts/{episode.id}").text
    assert 'action="/alerts/' not in page.partition('id="accept"')[2].partition("</section>")[0]


def test_what_makes_no_sense_is_refused(house: MonitoredFile) -> None:
    assert "not been looked at" in refused(house)
    house.look()
    assert "counts" in refused(house)
    house.settle("dsp_1", 2)
    house.look_later()
    for wrong in (
        {"until": "soon"},
        {"until": "2020-01-01"},
        {"reason": " "},
        {"invariant": "other"},
        {"database": "x"},
    ):
        assert refused(house, **wrong)
    assert client(house).get("/api/v1/waivers").json()["accepts"] == []


def test_the_pages_offer_it_list_it_and_end_it(house: MonitoredFile) -> None:
    """Semantics 5.4, 11.2: forms with their token; hostile reasons stay text."""
    house.settle("dsp_1", 2)
    house.look()
    (episode,) = house.store.alerts.find_open(RULE.name)
    browser = client(house, accept="text/html")
    page = browser.get(f"/alerts/{episode.id}").text
    given = {"reason": "<script>alert(1)</script>", "until": "14d"}
    assert browser.post(f"/alerts/{episode.id}/accept", data=given).status_code == 403
    given["form_token"] = form_token_of(page)
    assert browser.post(f"/alerts/{episode.id}/accept", data={**given, "until": "soon"}).status_code == 422
    answer = browser.post(f"/alerts/{episode.id}/accept", data=given)
    assert (answer.status_code, answer.headers["location"]) == (303, "/waivers")
    listed = browser.get("/waivers").text
    assert "&lt;script&gt;" in listed
    assert "<script>alert" not in listed
    assert "accept 1" in browser.get(f"/alerts/{episode.id}").text
    assert browser.post("/accepts/1/end").status_code == 403
    ended = browser.post("/accepts/1/end", data={"form_token": form_token_of(listed)})
    assert ended.status_code == 303
    assert "ended early" in browser.get("/waivers").text


def test_the_list_names_waivers_without_the_values_of_their_keys(house: MonitoredFile) -> None:
    """Semantics 4.4: values of keys are rows."""
    waiver = Waiver((("dispute_id", "dsp_secret"),), "agreed with finance", house.now + DAY)
    over = replace(waiver, reason="long ago", until=house.now - DAY)
    house.install(replace(RULE, definition="d2", waive=(waiver, over)))
    page = client(house).get("/waivers").text
    live, _, ended = page.partition('id="waivers-over"')
    assert "agreed with finance" in live
    assert "long ago" in ended
    body = client(house).get("/api/v1/waivers")
    assert [one["in_force"] for one in body.json()["waivers"]] == [True, False]
    assert "dsp_secret" not in page + body.text


def test_retention_takes_away_keys_of_accepts_that_ended_long_ago(house: MonitoredFile) -> None:
    house.settle("dsp_1", 2)
    house.look()
    accept(house, until="1d")
    assert house.catalog is not None
    retention = house.catalog.config.retention
    assert house.store.prune(retention, house.now + 30 * DAY).accepted == 0
    assert house.store.prune(retention, house.now + 200 * DAY).accepted == 1
    assert len(client(house).get("/api/v1/waivers").json()["accepts"]) == 1
