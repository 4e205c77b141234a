"""The pages and forms of silences, acknowledgements and deliveries, over a real store (semantics 7.4, 7.5)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from holdtrue.model import Undelivered
from scenes import HELD, Scene
from scenes.reading import Texts
from scenes.refunds import REFUNDS, refunds_world
from scenes.seeing import OURS, THREE, fresh, number_of_firing
from scenes.serving import Elsewhere, client_of, form_token_of, web_service

FORM = {
    "matchers": f"name={REFUNDS}\r\n\r\nseverity=critical",
    "length": "2h",
    "comment": "migration 41",
    "by": "alice",
}


@pytest.fixture
def world(tmp_path: Path) -> Scene:
    """The refunds service on a bad morning, of this test alone."""
    return refunds_world(tmp_path)


@pytest.fixture
def client(world: Scene) -> TestClient:
    return browser(world)


def browser(scene: Scene, **more: object) -> TestClient:
    """A browser that has our cookie."""
    made = client_of(web_service(scene, **more), accept="text/html", **OURS)
    made.get("/silences")
    return made


def send(client: TestClient, path: str, **fields: str) -> tuple[int, str]:
    """Send a form of ours, follow where it leads, and read the page."""
    token = form_token_of(client.get("/silences").text)
    answer = client.post(path, data={**fields, "form_token": token})
    if answer.status_code == 303:
        answer = client.get(answer.headers["location"])
    return answer.status_code, Texts(answer.text).text


def test_the_preview_shows_what_would_be_silent_and_keeps_what_was_typed(client: TestClient, world: Scene) -> None:
    status, shown = send(client, "/silences/preview", **FORM)
    assert status == 200
    assert "Now they match 1, 1 of them with an open alert." in shown
    assert f"alert {number_of_firing(world)}" in shown
    assert f"name={REFUNDS}" in shown
    assert world.store.silences.list(ended_too=True) == ()
    assert "Now they match nothing" in send(client, "/silences/preview", **{**FORM, "matchers": "owner=nobody"})[1]


def test_a_silence_is_made_shown_and_ended_on_the_pages(client: TestClient, world: Scene) -> None:
    _, shown = send(client, "/silences", **FORM)
    assert "It is silent from its start on." in shown
    assert "alice (loopback)" in shown
    (made,) = world.store.silences.list()
    page = client.get(f"/silences/{made.id}").text
    assert "It withheld nothing of what is open." in page
    _, shown = send(client, f"/silences/{made.id}/end")
    assert "None: every message is sent." in shown
    assert "by loopback" in shown
    assert send(client, f"/silences/{made.id}/end")[0] == 422
    assert client.get("/silences/99").status_code == 404


def test_what_opened_and_ended_under_it_is_listed(tmp_path: Path) -> None:
    """Semantics 7.5."""
    scene = fresh(tmp_path)
    client = browser(scene)
    send(client, "/silences", **{**FORM, "matchers": "name=refunds"})
    scene.look({("refunds", "payments"): THREE})
    open_ = client.get("/silences/1").text.split('id="came-and-went"')[0]
    assert "alert 1" in open_
    assert "withheld by silence 1" in client.get("/alerts/1").text
    scene.pass_time()
    scene.look({("refunds", "payments"): HELD})
    ended = Texts(client.get("/silences/1").text.split('id="came-and-went"')[1]).text
    assert "What opened and ended under the silence is listed here, and was not sent." in ended
    assert "resolved" in ended


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("comment", " ", "a silence needs a comment"),
        ("matchers", "refunds", "is no matcher"),
        ("matchers", "", "at least one matcher"),
        ("length", "soon", "'soon' is no duration. write 90m, 2h, 1d"),
        ("by", "x" * 101, "a name has at most 100 characters"),
    ],
)
def test_a_form_that_cannot_be_taken_says_why_and_keeps_what_was_typed(
    client: TestClient, world: Scene, field: str, value: str, said: str
) -> None:
    status, shown = send(client, "/silences", **{**FORM, field: value})
    assert status == 422
    assert said in shown
    assert world.store.silences.list(ended_too=True) == ()


def test_the_alert_says_who_has_it_and_until_when_it_is_silent(client: TestClient, world: Scene) -> None:
    number = number_of_firing(world)
    _, shown = send(client, f"/alerts/{number}/acknowledge", by="alice", note="<b>a bad deploy</b>")
    assert "alice (loopback) has it since" in shown
    assert "<b>a bad deploy</b>" in shown
    _, shown = send(client, f"/alerts/{number}/unacknowledge", by="bob")
    assert "has it since" not in shown
    assert "by bob (loopback); alice (loopback) had it" in shown
    send(client, "/silences", **FORM)
    page = client.get(f"/alerts/{number}").text
    assert "Silenced until 2026-11-29" in page
    assert "by alice (loopback): migration 41" in page
    assert 'id="silence-it"' not in page


def test_an_ended_alert_offers_nothing_and_refuses_in_words(client: TestClient, world: Scene) -> None:
    ended = next(one for one in world.store.alerts.list() if not one.open)
    page = client.get(f"/alerts/{ended.id}").text
    assert 'id="quiet"' not in page
    assert 'id="silence-it"' not in page
    status, shown = send(client, f"/alerts/{ended.id}/acknowledge")
    assert (status, "there is nothing to acknowledge any more" in shown) == (422, True)


@pytest.mark.parametrize(
    "path",
    ["/silences", "/silences/preview", "/silences/1/end", "/alerts/{}/acknowledge", "/alerts/{}/unacknowledge"],
)
def test_a_form_that_is_not_ours_does_nothing(client: TestClient, world: Scene, path: str) -> None:
    """Semantics 11.2."""
    send(client, "/silences", **FORM)
    before = world.store.reads.audit(1)
    path = path.format(number_of_firing(world))
    assert client.post(path, data={**FORM, "form_token": "0" * 64}).status_code == 403
    assert client.post(path, data=FORM, headers={"origin": "http://evil.example"}).status_code == 403
    assert world.store.reads.audit(1) == before


def test_what_could_not_be_silenced_elsewhere_is_said_at_once(world: Scene) -> None:
    """Semantics 7.6."""
    client = browser(world, mirrors=lambda: (Elsewhere("am-1"), Elsewhere("am-2", "it did not answer")))
    _, shown = send(client, "/silences", **FORM)
    assert "Here it is made. Not so at am-2: it did not answer of 1" in shown


def test_whoever_signed_in_on_a_page_is_named_by_the_session(world: Scene) -> None:
    client = client_of(replace(web_service(world), token="the-token"), accept="text/html", **OURS)
    token = form_token_of(client.get("/sign-in").text)
    client.post("/sign-in", data={"token": "the-token", "form_token": token})
    send(client, f"/alerts/{number_of_firing(world)}/acknowledge", by="alice")
    (line,) = world.store.reads.audit(1)
    assert (line.who, line.detail) == ("session", "by alice (session)")


def test_deliveries_are_counted_and_filtered_in_the_address(client: TestClient, world: Scene) -> None:
    number = number_of_firing(world)
    send(client, f"/alerts/{number}/acknowledge")
    world.deliver(Undelivered("channel_not_found", permanent=True))
    page = client.get("/deliveries").text
    assert re.search(r'href="/deliveries\?state=failed"[^>]*>failed 1<', page)
    failed = client.get("/deliveries?state=failed").text
    assert "given up" in failed
    assert "<span>sent</span>" not in failed
    of_one = Texts(client.get(f"/deliveries?alert={number}&notifier=oncall").text).text
    assert set(re.findall(r"alert (\d+)", of_one)) == {str(number)}
    assert "No message matches these filters." in client.get("/deliveries?alert=nonsense").text
    assert "No message matches these filters." in client.get("/deliveries?notifier=nobody").text
    assert "<span>sent</span>" in client.get("/deliveries?state=nonsense").text
