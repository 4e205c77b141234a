"""What time alone makes due is found by the watch, on whichever instance has it (semantics 6, 7.1)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from holdtrue.alerting import parse_matchers
from holdtrue.deadman import Switch, Why, decide_ping
from holdtrue.errors import NotFound, StoreUnreachable
from holdtrue.model import AlertState, Deadman, Delivered, Outcome, Reason, Secret, Subject
from holdtrue.watch import Looked, Watch
from scenes import COULD_NOT_LOOK, HELD, Found, Scene, catalog_of, invariant

PAIR = ("refunds_once", "payments")
BROKEN = Found(rows=(("dsp_1",),))


@pytest.fixture
def scene(tmp_path):
    scene = Scene(tmp_path)
    scene.install(catalog_of([invariant("refunds_once")]))
    yield scene
    scene.store.close()


def a_watch(scene: Scene, instance: str = "here") -> Watch:
    return Watch(instance=instance, store=scene.store, catalog=lambda: scene.catalog, notifiers=lambda: scene.notifiers)


def owed(scene: Scene) -> list[Reason]:
    return [one.message.reason for one in scene.store.reads.deliveries()]


def test_silence_becomes_unchecked_though_no_run_ever_ends(scene):
    """Semantics 7.1: the watch finds staleness by itself, for runs are silent exactly when they stop."""
    scene.look({PAIR: HELD})
    assert a_watch(scene).look() == Looked()
    scene.pass_time(timedelta(minutes=31))
    with capture_logs() as logged:
        assert a_watch(scene).look().changed == 1
        assert owed(scene) == [Reason.UNCHECKED]
        assert a_watch(scene).look().changed == 0
        assert owed(scene) == [Reason.UNCHECKED]
    assert [(one["event"], one["invariant"]) for one in logged] == [("alert_unchecked", "refunds_once")]


def test_a_pair_that_never_looked_is_unchecked_once_fresh_for_has_passed(scene):
    """Semantics 6: `unchecked` is owed on entering `never` + fresh_for."""
    scene.pass_time(timedelta(minutes=29))
    assert a_watch(scene).look().changed == 0
    scene.pass_time(timedelta(minutes=2))
    a_watch(scene).look()
    assert owed(scene) == [Reason.UNCHECKED]


def test_the_next_good_run_says_recovered(scene):
    """Semantics 6: `recovered` on the next good run."""
    scene.pass_time(timedelta(hours=1))
    a_watch(scene).look()
    scene.look({PAIR: HELD})
    assert owed(scene) == [Reason.RECOVERED, Reason.UNCHECKED]


def test_a_firing_alert_stays_firing_while_nothing_can_be_seen(scene):
    """Semantics 0, 7.2: bad news stays until a good run takes it back."""
    scene.look({PAIR: BROKEN})
    before = scene.store.alerts.situation(*PAIR).alert
    for _ in range(4):
        scene.pass_time()
        scene.look({PAIR: COULD_NOT_LOOK})
        a_watch(scene).look()
    after = scene.store.alerts.situation(*PAIR)
    assert after.alert == before
    assert after.alert.state is AlertState.FIRING
    assert after.unchecked.subject is Subject.HEALTH
    assert after.standing.good_outcome is Outcome.VIOLATED
    assert owed(scene) == [Reason.UNCHECKED, Reason.FIRED]


def test_a_reminder_is_owed_after_its_time_and_once(scene):
    """Semantics 7.1: reminders are the watch's, never a run's."""
    scene.look({PAIR: BROKEN})
    for _ in range(2):
        scene.pass_time(timedelta(hours=24))
        scene.look({PAIR: BROKEN})
        a_watch(scene).look()
        a_watch(scene).look()
    assert owed(scene).count(Reason.REMINDER) == 2


def test_only_one_instance_has_the_watch_and_another_takes_it_over(scene):
    """Semantics 7.1: a leased row of its own, on any instance."""
    first, second = a_watch(scene, "first"), a_watch(scene, "second")
    assert not first.look().held_elsewhere
    assert second.look().held_elsewhere
    scene.pass_time(timedelta(seconds=46))
    assert not second.look().held_elsewhere
    assert first.look().held_elsewhere


def test_a_run_between_the_reading_and_the_writing_is_not_overruled(scene, monkeypatch):
    """Semantics 7.1: the decision is made again inside its transaction."""
    scene.look({PAIR: HELD})
    scene.pass_time(timedelta(hours=2))
    stale = scene.store.reads.overview()
    scene.look({PAIR: HELD})
    monkeypatch.setattr(scene.store.reads, "overview", lambda: stale)
    assert a_watch(scene).look() == Looked(reviewed=1, changed=0)
    assert owed(scene) == []


def silenced(scene, *matchers, length=timedelta(hours=1)):
    return scene.store.silences.create(
        parse_matchers(matchers or ["name~*"]), "why", by="alice", who="token", ends=length
    )


def test_what_still_fires_when_a_silence_ends_is_told_by_the_watch_and_once(scene):
    """Semantics 7.5: by whichever instance has the watch."""
    silence = silenced(scene)
    scene.look({PAIR: BROKEN})
    assert a_watch(scene).look().changed == 0
    scene.pass_time()
    scene.store.silences.end(silence.id, by="alice", who="token")
    assert a_watch(scene).look().changed == 1
    assert a_watch(scene).look().changed == 0
    assert owed(scene) == [Reason.FIRED, Reason.FIRED]
    assert scene.deliver(Delivered()) == 1


def test_a_health_alert_that_opened_under_a_silence_is_told_when_it_ends(scene):
    """Semantics 7.5: silences match health alerts too."""
    silenced(scene, "database=payments", length=timedelta(hours=2))
    scene.pass_time(timedelta(minutes=31))
    a_watch(scene).look()
    assert scene.deliver(Delivered()) == 0
    scene.pass_time(timedelta(hours=2))
    assert a_watch(scene).look().changed == 1
    assert owed(scene) == [Reason.UNCHECKED, Reason.UNCHECKED]
    assert scene.deliver(Delivered()) == 1


def test_a_surprise_about_one_episode_keeps_no_other_silent(scene, monkeypatch):
    """Semantics 7.5."""
    scene.install(catalog_of([invariant("a_first"), invariant("refunds_once")]))
    silence = silenced(scene)
    scene.look({PAIR: BROKEN, ("a_first", "payments"): BROKEN})
    scene.store.silences.end(silence.id, by="alice", who="token")
    first, lifting = scene.store.silences.waiting()[0], scene.store.silences.lift

    def lift(episode, *rest):
        if episode == first:
            raise ValueError("ours")
        return lifting(episode, *rest)

    monkeypatch.setattr(scene.store.silences, "lift", lift)
    assert a_watch(scene).look().changed == 1
    assert scene.store.silences.waiting() == (first,)


@pytest.mark.parametrize("surprise", [ValueError("ours"), NotFound("it left the catalog meanwhile")])
def test_a_surprise_about_one_pair_hides_no_other(scene, monkeypatch, surprise):
    """Semantics 0, 7.1: the pairs that come after it in the round would never be told as unchecked."""
    scene.install(catalog_of([invariant("a_first"), invariant("refunds_once")]))
    scene.pass_time(timedelta(hours=1))
    reviewing = scene.store.alerts.review

    def review(name, *rest):
        if name == "a_first":
            raise surprise
        return reviewing(name, *rest)

    monkeypatch.setattr(scene.store.alerts, "review", review)
    assert a_watch(scene).look() == Looked(reviewed=2, changed=1)
    assert owed(scene) == [Reason.UNCHECKED]


def test_retention_is_kept_by_the_watch_once_an_hour(scene, monkeypatch):
    """Semantics 7.1: retention is the watch's."""
    pruned = []
    monkeypatch.setattr(scene.store, "prune", pruned.append)
    watch = a_watch(scene)
    for _ in range(5):
        watch.look()
        scene.pass_time(timedelta(minutes=20))
    assert len(pruned) == 2
    assert pruned[0] == replace(scene.catalog.config.retention)


class Listening(Switch):
    """A switch that notes what the watch found."""

    def __init__(self, scene: Scene) -> None:
        super().__init__({}, scene.store.now)
        self.whys: list[Why] = []

    def look(self, config, backlog, slack, now):
        ping = decide_ping(backlog, None, config.every - slack, now)
        self.whys.append(ping.why)
        return ping


def switched(scene: Scene, instance: str = "here") -> tuple[Watch, Listening]:
    """A watch with a dead-man's switch, over the scene's catalog with one declared."""
    config = replace(scene.catalog.config, deadman=Deadman(Secret("${PING}")))
    catalog = replace(scene.catalog, config=config)
    switch = Listening(scene)
    return Watch(instance=instance, store=scene.store, catalog=lambda: catalog, notifiers=tuple, switch=switch), switch


def test_the_watch_pings_also_while_a_monitored_database_is_down(scene):
    """Semantics 7.7: a monitored database's failure never stops the ping; work that nobody claims does."""
    watch, switch = switched(scene)
    scene.look({PAIR: COULD_NOT_LOOK})
    watch.look()
    assert switch.whys == [Why.WELL]
    scene.pass_time(timedelta(minutes=20))
    watch.look()
    assert switch.whys == [Why.WELL, Why.OVERDUE]
    (claim,) = scene.store.leases.acquire(
        instance="slow",
        free={"payments": 1},
        limit=1,
        ttl=timedelta(seconds=30),
        generation=scene.store.catalogs.number(),
    )
    watch.look()
    assert claim.database == "payments"
    assert switch.whys[-1] is Why.WELL


def test_only_whoever_has_the_watch_pings(scene):
    """Semantics 7.7: several instances, one ping."""
    (first, pinged), (second, idle) = switched(scene, "one"), switched(scene, "two")
    first.look()
    second.look()
    assert (pinged.whys, idle.whys) == ([Why.WELL], [])
    assert idle.state.elsewhere


def test_a_message_that_cannot_be_sent_for_ten_minutes_stops_the_ping(scene):
    """Semantics 7.7: people would hear nothing of us, so somebody has to be woken from outside."""
    watch, switch = switched(scene)
    scene.look({PAIR: BROKEN})
    watch.look()
    scene.pass_time(timedelta(minutes=11))
    watch.look()
    assert switch.whys == [Why.WELL, Why.OWED]


def test_a_store_that_takes_no_write_is_never_pinged_for(scene, monkeypatch):
    """Semantics 7.7: the round's own lease is the write."""
    watch, switch = switched(scene)

    def refuse(*_args):
        raise StoreUnreachable("locked", remedy="wait")

    monkeypatch.setattr(scene.store.leases, "named", refuse)
    watch.look()
    assert switch.whys == []


def test_what_is_given_up_since_its_notifier_left_is_counted_for_that_notifier(scene):
    """Semantics 7.3, 10: it is a message that nobody will ever get, however it came to that."""
    scene.install(catalog_of([invariant("refunds_once")], notifiers=("oncall", "gone")))
    scene.look({PAIR: BROKEN})
    scene.install(catalog_of([invariant("refunds_once")], notifiers=("oncall",)))
    counted: list[tuple[str, str]] = []
    watch = Watch(
        instance="here",
        store=scene.store,
        catalog=lambda: scene.catalog,
        notifiers=lambda: scene.notifiers,
        notified=lambda name, what: counted.append((name, what)),
    )
    watch.look()
    watch.look()
    assert sorted(counted) == [("gone", "failed")]
