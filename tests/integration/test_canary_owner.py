"""An older store may hold alerts of the owner `holdtrue`: only the canary's own are left out (semantics 7.7)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue import alerting
from holdtrue.model import (
    CANARY_NAME,
    CANARY_OWNER,
    AlertState,
    Delivered,
    Labels,
    MatchedField,
    Matcher,
    Matching,
    Silence,
)
from scenes import START, Found, Scene, catalog_of, invariant
from scenes.canary import with_canary

RULES = tuple(f"rule_{number}" for number in range(6))
BROKEN = Found((("1",),))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Rules of a team that is called as the canary's owner is; all of them are violated, beside a canary that holds."""
    made = Scene(tmp_path)
    catalog = catalog_of([invariant(name, owner=CANARY_OWNER) for name in RULES])
    made.install(with_canary(catalog, "oncall"))
    made.look({(name, "payments"): BROKEN for name in RULES})
    return made


def test_its_alerts_are_listed_pushed_counted_and_told_together(scene: Scene) -> None:
    store = scene.store
    assert {one.invariant for one in store.alerts.list()} == set(RULES)
    assert {one.invariant for one in store.alerts.firing()} == set(RULES)
    assert [one.invariant for one in store.alerts.find_open(RULES[0])] == [RULES[0]]
    assert store.reads.counts_by_alert_state()[AlertState.FIRING] == len(RULES)
    assert store.reads.catalog_status().entries == len(RULES)
    claimed = store.outbox.claim(
        instance="here", limit=3, ttl=timedelta(minutes=1), notifiers=["oncall"], gathering=["oncall"]
    )
    assert len(claimed) == len(RULES)
    assert all(one.shares for one in claimed)


def test_its_alerts_that_have_ended_are_listed_and_prove_nothing(scene: Scene) -> None:
    """Their fired and resolved came whole, and are no round of the canary."""
    assert scene.catalog is not None
    nothing = alerting.Turned(alerting.Turn.NOTHING, alerting.WhyTurn.DUE)
    declared = {"oncall": "as it is"}
    scene.store.canary.look(declared, lambda _, __: nothing, content_hash=scene.catalog.content_hash)
    scene.pass_time()
    for one in scene.store.outbox.claim(instance="here", limit=9, ttl=timedelta(minutes=1), notifiers=["oncall"]):
        scene.store.outbox.mark(one.message, Delivered())
    scene.pass_time()
    scene.look({})
    for one in scene.store.outbox.claim(instance="here", limit=9, ttl=timedelta(minutes=1), notifiers=["oncall"]):
        scene.store.outbox.mark(one.message, Delivered())
    assert {one.invariant for one in scene.store.alerts.ended(since=START)} == set(RULES)
    assert [one.proven_at for one in scene.store.canary.proofs()] == [None]


def test_its_alerts_are_routed_and_silenced_as_others_are(scene: Scene) -> None:
    assert scene.catalog is not None
    labels = Labels(RULES[0], "payments", CANARY_OWNER, "warning")
    config = catalog_of(scene.catalog.invariants).config
    assert alerting.routed_by(config, labels).notifiers == ("oncall",)
    everything = Matcher(MatchedField.NAME, Matching.GLOB, "*")
    silence = Silence(1, (everything,), "a migration", "alice", START, START, START + timedelta(days=1))
    assert alerting.silenced_by([silence], labels, START) is silence
    assert alerting.silenced_by([silence], Labels(CANARY_NAME, CANARY_NAME, CANARY_OWNER, "info"), START) is None
