"""The canary over a real store: its rounds, what they prove, and that nothing counts it (semantics 7.7)."""

from __future__ import annotations

import re
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdtrue.alerting import CanaryState, Turn, Turned, WhyProven, WhyTurn, review
from holdtrue.canary import CanaryRunner
from holdtrue.errors import PromotionRefused, Refused
from holdtrue.metrics import Counters, Exposition
from holdtrue.model import CANARY_NAME, CANARY_OWNER, Delivered, MessageState, Outcome, Subject, Undelivered
from holdtrue.promotion import preview
from holdtrue.rehearsal import IncidentRehearsal
from scenes import COULD_NOT_LOOK, HELD, Found, Scene, catalog_of, find_store, invariant, lose_store
from scenes.canary import BROKEN, EVERY, PAIR, Rounds, otherwise, with_canary
from scenes.reading import Texts
from scenes.serving import client_of, web_service
from stores import House, entry

NO_CHANNEL = Undelivered("no such channel", permanent=True)
AWAY = Undelivered("connection refused")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """One rule of a user's that holds, two notifiers, and a canary that proves both."""
    made = Scene(tmp_path)
    made.install(with_canary(catalog_of([invariant("refunds")], notifiers=("oncall", "pager")), "oncall", "pager"))
    made.look({})
    return made


@pytest.fixture
def rounds(scene: Scene) -> Rounds:
    return Rounds(scene)


def test_a_round_that_comes_whole_proves_every_notifier(scene: Scene, rounds: Rounds) -> None:
    assert [one.why for one in rounds.proven().values()] == [WhyProven.WAITING] * 2
    assert rounds.go() == ["break", "mend", "end"]
    found = rounds.proven()
    assert [one.why for one in found.values()] == [WhyProven.PROVEN] * 2
    assert {one.alert for one in found.values()} == {1}
    reasons = [(row.message.reason.value, row.message.notifier) for row in scene.store.reads.deliveries()]
    assert sorted(reasons) == [(reason, name) for reason in ("fired", "resolved") for name in ("oncall", "pager")]
    # Every round is an episode of its own, told as the first one was.
    scene.pass_time(EVERY)
    scene.look({})
    assert rounds.go() == ["break", "mend", "end"]
    assert {row.message.reason.value for row in scene.store.reads.deliveries()} == {"fired", "resolved"}
    assert {one.alert for one in rounds.proven().values()} == {2}


@pytest.mark.parametrize("answer", [NO_CHANNEL, AWAY], ids=["refused for good", "away"])
def test_a_notifier_that_cannot_deliver_is_never_proven_and_keeps_no_other_from_it(
    scene: Scene, rounds: Rounds, answer: Undelivered
) -> None:
    assert rounds.go({"pager": answer}) == ["break", "mend", "end"]
    found = rounds.proven()
    assert found["oncall"].well
    assert (found["pager"].well, found["pager"].proven_at) == (False, None)
    assert answer.sentence in found["pager"].sentence
    for _ in range(2):
        scene.pass_time(EVERY)
        scene.look({})
        rounds.go({"pager": answer})
    assert rounds.proven()["pager"].why is WhyProven.NEVER
    # What is owed of rounds that are over does not pile up.
    pending = scene.store.reads.deliveries(states=(MessageState.PENDING,))
    assert len(pending) <= 1
    # And it is proven by the first round that comes whole again.
    scene.pass_time(EVERY)
    scene.look({})
    rounds.go()
    assert rounds.proven()["pager"].well


@pytest.mark.parametrize("lost", ["fired", "resolved"])
def test_half_a_round_proves_nothing(scene: Scene, rounds: Rounds, lost: str) -> None:
    """The end alone says nothing of the beginning, and the beginning nothing of the end."""
    while scene.store.canary.proofs() == () or not scene.store.alerts.find_open(CANARY_NAME):
        rounds.step({"pager": NO_CHANNEL} if lost == "fired" else {})
    while scene.store.alerts.find_open(CANARY_NAME):
        rounds.step({"pager": NO_CHANNEL} if lost == "resolved" else {})
    states = {row.message.reason.value: row.message.state for row in scene.store.reads.deliveries(notifier="pager")}
    other = "resolved" if lost == "fired" else "fired"
    assert states == {lost: MessageState.FAILED, other: MessageState.SENT}
    assert not rounds.proven()["pager"].well
    assert NO_CHANNEL.sentence in rounds.proven()["pager"].sentence
    assert rounds.proven()["oncall"].problem == ""
    assert rounds.proven()["oncall"].well


def test_an_end_that_overtook_its_beginning_proves_nothing(scene: Scene, rounds: Rounds) -> None:
    """A notifier that was away while the round lasted hears of the end alone."""
    while not scene.store.alerts.list(invariant=CANARY_NAME, open_only=False) or scene.store.alerts.find_open(
        CANARY_NAME
    ):
        rounds.step({"pager": AWAY})
    scene.pass_time()
    rounds.tell({})
    states = {row.message.reason.value: row.message.state for row in scene.store.reads.deliveries(notifier="pager")}
    assert states == {"fired": MessageState.SUPERSEDED, "resolved": MessageState.SENT}
    assert not rounds.proven()["pager"].well
    assert "its beginning was not delivered: connection refused" in rounds.proven()["pager"].sentence


def test_a_proof_grows_old(scene: Scene, rounds: Rounds) -> None:
    rounds.go()
    scene.pass_time(timedelta(hours=24))
    assert rounds.proven()["oncall"].well
    scene.pass_time(timedelta(hours=2))
    assert rounds.proven()["oncall"].why is WhyProven.TOO_OLD


def test_what_a_notifier_was_before_proves_nothing_of_what_it_is_now(scene: Scene, rounds: Rounds) -> None:
    rounds.go()
    assert scene.catalog is not None
    scene.install(otherwise(scene.catalog, "pager"))
    assert rounds.turn().turn is Turn.BREAK, "it is tried at once"
    found = rounds.proven()
    assert (found["oncall"].why, found["pager"].why) == (WhyProven.PROVEN, WhyProven.WAITING)
    # One that comes and goes is not proven by what it once was either.
    scene.install(with_canary(scene.catalog, "oncall"))
    rounds.go()
    assert [one.notifier for one in scene.store.canary.proofs()] == ["oncall"]


def test_an_instance_whose_catalog_is_not_in_force_takes_no_proof_away(scene: Scene, rounds: Rounds) -> None:
    """One that is not deployed yet, beside one with a changed notifier: without this each look began a round anew."""
    rounds.go()
    old = scene.catalog
    assert old is not None
    new = otherwise(old, "pager")
    scene.install(new)
    rounds.go()
    assert all(one.well for one in rounds.proven().values())
    scene.catalog = old
    assert (rounds.turn().turn, rounds.turn().why) == (Turn.NOTHING, WhyTurn.NOT_IN_FORCE)
    scene.catalog = new
    assert rounds.turn().turn is Turn.NOTHING
    assert all(one.well for one in rounds.proven().values())


def quick(rounds: Rounds) -> str:
    """As `Rounds.step`, within a second: nothing is due by its schedule."""
    turned = rounds.turn()
    rounds.scene.pass_time(timedelta(seconds=1))
    rounds.scene.look({PAIR: BROKEN if rounds.is_broken() else HELD})
    rounds.tell({})
    return turned.turn.value


def test_a_first_proof_does_not_wait_for_the_schedule_and_is_hurried_once_in_a_while(
    scene: Scene, rounds: Rounds
) -> None:
    """A notifier that is declared anew all the time floods nobody: after the first one its rounds keep to the schedule."""
    assert [quick(rounds) for _ in range(3)] == ["break", "mend", "end"]
    assert all(one.well for one in rounds.proven().values())
    assert scene.catalog is not None
    scene.install(otherwise(scene.catalog, "pager"))
    assert [quick(rounds) for _ in range(3)] == ["break", "nothing", "nothing"]
    assert rounds.go() == ["mend", "end"]
    scene.pass_time(timedelta(hours=1))
    scene.look({})
    scene.install(with_canary(scene.catalog, "oncall"))
    assert rounds.turn().turn is Turn.NOTHING
    scene.install(with_canary(scene.catalog, "oncall", "pager"))
    assert [quick(rounds) for _ in range(3)] == ["break", "mend", "end"]


def test_a_message_that_was_sent_before_the_change_is_no_part_of_a_proof(scene: Scene, rounds: Rounds) -> None:
    while not scene.store.alerts.find_open(CANARY_NAME):
        rounds.step()
    assert scene.catalog is not None
    scene.install(otherwise(scene.catalog, "pager"))
    rounds.go()
    assert rounds.proven()["oncall"].well
    assert not rounds.proven()["pager"].well


def test_a_canary_that_leaves_in_the_middle_of_a_round_comes_back_whole(scene: Scene, rounds: Rounds) -> None:
    while not scene.store.alerts.find_open(CANARY_NAME):
        rounds.step()
    with_it = scene.catalog
    assert with_it is not None
    scene.install(catalog_of([invariant("refunds")], notifiers=("oncall", "pager")))
    (ended,) = scene.store.alerts.list(invariant=CANARY_NAME)
    assert ended.ending is not None
    assert ended.ending.value == "withdrawn"
    scene.pass_time(timedelta(hours=5))
    scene.install(with_it)
    turns = [rounds.step() for _ in range(12)]
    assert [one for one in turns if one != "nothing"][:2] == ["mend", "end"]
    scene.pass_time(EVERY)
    scene.look({})
    assert rounds.go() == ["break", "mend", "end"]
    assert all(one.well for one in rounds.proven().values())


def test_a_canary_that_nobody_asks_is_not_broken_and_is_not_proven(scene: Scene, rounds: Rounds) -> None:
    """Not looking is no proof: while no run sees it hold, no round begins."""
    rounds.go()
    for _ in range(4):
        scene.pass_time(timedelta(hours=25))
        assert rounds.turn().why is WhyTurn.NOT_HOLDING
    assert not rounds.is_broken()
    assert rounds.proven()["oncall"].why is WhyProven.TOO_OLD


def test_a_canary_that_cannot_be_asked_says_why_nothing_is_proven(scene: Scene, rounds: Rounds) -> None:
    rounds.turn()
    scene.pass_time()
    scene.look({PAIR: COULD_NOT_LOOK})
    assert "its rule could not be asked: " in rounds.proven()["oncall"].sentence
    assert "lagging" in rounds.proven()["oncall"].problem


def test_nothing_counts_it(scene: Scene, rounds: Rounds) -> None:
    """Neither lists of alerts, nor what is pushed, nor metrics of invariants, nor pages; it is found where it is asked for."""
    store = scene.store
    while not store.alerts.find_open(CANARY_NAME):
        rounds.step()
    assert store.alerts.list() == store.alerts.firing() == ()
    assert set(store.reads.counts_by_alert_state().values()) == {0}
    assert [one.owner for one in store.alerts.list(owner=CANARY_OWNER)] == [CANARY_OWNER]
    exposed = (
        Exposition(store=store, catalog=lambda: scene.catalog, counters=Counters(version="1")).render()[0].decode()
    )
    assert CANARY_NAME not in exposed
    client = client_of(web_service(scene))
    overview = client.get("/api/v1/overview").json()
    assert [one["invariant"] for one in overview["entries"]] == ["refunds"]
    assert overview["exit_code"] == 0
    assert client.get("/api/v1/catalog").json()["entries"] == 1
    for path in ("/alerts", "/databases", "/catalog"):
        assert CANARY_NAME not in client.get(path).text, path
    page = client.get("/").text
    assert CANARY_NAME not in page
    assert "It holds" in page
    assert "not proven yet" in page
    shown = Texts(client.get(f"/invariants/{CANARY_NAME}").text).text
    assert "Nothing of yours is violated" in shown
    alone = client.get("/alerts/1")
    assert alone.status_code == 200
    assert not re.search("<form|promote|<h2>Accept", alone.text), "nothing is to be done about it"
    while store.alerts.find_open(CANARY_NAME):
        rounds.step()
    assert store.alerts.ended(since=scene.clock() - EVERY) == ()
    assert store.alerts.list() == ()


def test_a_round_is_no_ticket_and_no_baseline(scene: Scene, rounds: Rounds) -> None:
    while not scene.store.alerts.find_open(CANARY_NAME):
        rounds.step()
    (alert,) = scene.store.alerts.find_open(CANARY_NAME)
    assert scene.catalog is not None
    with pytest.raises(PromotionRefused, match="round of the canary"):
        preview(scene.store, scene.catalog, alert.id, by="alice", now=scene.clock(), rehearsal=IncidentRehearsal({}))
    assert scene.catalog.canary is not None
    with pytest.raises(Refused, match="broken and mended by Holdtrue itself"):
        scene.store.accepts.accept(
            scene.catalog.canary, CANARY_NAME, reason="why not", until=scene.clock() + EVERY, by="alice"
        )


def test_it_is_never_gathered_into_a_message_of_others(tmp_path: Path) -> None:
    """Semantics 7.4 and 7.7: a proof is of a message of its own, and stands among no violations."""
    scene = Scene(tmp_path)
    names = [f"rule_{number}" for number in range(8)]
    scene.install(with_canary(catalog_of([invariant(name) for name in names]), "oncall"))
    scene.look({})
    Rounds(scene).turn()
    scene.pass_time()
    found = Found((("1",),))
    scene.look({(name, "payments"): found for name in names} | {PAIR: found})
    claimed = scene.store.outbox.claim(
        instance="here", limit=3, ttl=timedelta(minutes=1), notifiers=["oncall"], gathering=["oncall"]
    )
    assert len(claimed) == 8
    assert all(one.shares for one in claimed)
    assert not any(one.episode.canary for one in claimed)
    for one in claimed:
        scene.store.outbox.mark(one.message, Delivered())
    (alone,) = scene.store.outbox.claim(
        instance="here", limit=3, ttl=timedelta(minutes=1), notifiers=["oncall"], gathering=["oncall"]
    )
    assert (alone.episode.canary, alone.shares) == (True, 0)


def test_the_metrics_keep_the_bad_news_while_the_store_cannot_be_read(scene: Scene, rounds: Rounds) -> None:
    """Semantics 10: what was 1 stays, what was 0 goes, and when it was proven stays true."""
    rounds.go({"pager": NO_CHANNEL})
    exposition = Exposition(store=scene.store, catalog=lambda: scene.catalog, counters=Counters(version="1"))

    def samples() -> dict[tuple[str, str], float]:
        text = exposition.render()[0].decode()
        return {
            (sample.name.removeprefix("holdtrue_notifier_"), sample.labels["notifier"]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("holdtrue_notifier_")
        }

    at = rounds.proven()["oncall"].proven_at
    assert at is not None
    proven = {("last_proven_timestamp_seconds", "oncall"): at.timestamp()}
    assert samples() == proven | {("unproven", "oncall"): 0, ("unproven", "pager"): 1}
    lose_store(scene)
    assert samples() == proven | {("unproven", "pager"): 1}
    find_store(scene)
    assert samples()["unproven", "oncall"] == 0


@pytest.mark.parametrize("many", [2, 6])
def test_instances_that_turn_at_once_make_each_turn_once(house: House, many: int) -> None:
    """On either kind of store: decided again under the entry's lock."""
    house.install(entry(CANARY_NAME, CANARY_NAME, owner=CANARY_OWNER))
    together = threading.Barrier(many)
    made: list[Turn] = []

    def decide(state: CanaryState, now: datetime) -> Turned:
        last = state.round
        if last is None or last.ended_at is not None:
            return Turned(Turn.BREAK if last is None else Turn.NOTHING, WhyTurn.DUE)
        return Turned(Turn.MEND if last.mended_at is None else Turn.END, WhyTurn.FIRED)

    def turn() -> None:
        for _ in range(4):
            together.wait(20)
            made.append(
                house.store.canary.look({"oncall": "as it is"}, decide, content_hash=f"hash-{house.generation}").turn
            )

    threads = [threading.Thread(target=turn) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [one for one in made if one is not Turn.NOTHING].count(Turn.BREAK) == 1
    assert (made.count(Turn.MEND), made.count(Turn.END)) == (1, 1)


def test_it_is_looked_at_as_often_as_it_may_matter_and_at_once_under_another_catalog(scene: Scene) -> None:
    """A canary that is due once a day costs the store a read every 15 seconds, not every second."""
    now = 100.0
    runner = CanaryRunner(store=scene.store, catalog=lambda: scene.catalog, monotonic=lambda: now)
    for _ in range(60):
        assert runner.look() is not None, "a first round waits for no pause of ours"
        now += 1
    now += 13
    assert runner.look() is None
    now += 1
    assert runner.look() is not None
    assert scene.catalog is not None
    scene.install(with_canary(scene.catalog, "oncall"))
    assert runner.look() is not None


def test_its_health_is_told_by_its_own_route_too(scene: Scene, rounds: Rounds) -> None:
    """Who is told that nobody asks the canary is who waits for its proof, and it is marked as it always is."""
    rounds.go()
    assert scene.catalog is not None
    canary = scene.catalog.canary
    assert canary is not None
    scene.pass_time(timedelta(days=1))
    assert scene.store.alerts.review(*PAIR, lambda situation, now: review(situation, canary, now), scene.told)
    (episode,) = scene.store.alerts.list(owner=CANARY_OWNER, subject=Subject.HEALTH)
    assert episode.canary
    told = scene.store.reads.deliveries(alert=episode.id)
    assert {row.message.notifier for row in told} == {"oncall", "pager"}
    scene.look({}, otherwise=HELD)
    assert {one.outcome for one in scene.store.reads.runs(CANARY_NAME)} <= {Outcome.HELD, Outcome.VIOLATED}
